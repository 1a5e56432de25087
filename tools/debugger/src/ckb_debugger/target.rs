//! The script to run: the transaction, one of its script groups, and an optional replacement of its program.

use std::path::Path;

use antares_hosted::job::{CellName, GroupKind, HostedRun, Rules, Watch};
use antares_transaction::{
    AsLock, Environment, Group, Mock, ScriptLocation, groups, limits::TRANSACTION_BYTES_MAX, template,
};
use bytes::Bytes;
use hex::FromHex as _;

use super::{
    stopped::Ending,
    streams::read_all,
    words::{CellType, GroupType, Words},
};

/// The script to run, found and checked.
pub struct ChosenScript {
    /// The transaction.
    pub mock: Mock,
    /// The environment.
    pub environment: Environment,
    /// Lock or type.
    pub kind: GroupKind,
    /// A cell of the group.
    pub cell: CellName,
    /// Whether the program replaces the one that the transaction names.
    pub(crate) is_replaced: bool,
}

impl ChosenScript {
    pub(crate) fn of(words: &Words) -> Result<Self, Ending> {
        let mut mock = transaction(words)?;
        let (kind, hash) = script(words, &mock)?;
        let version = (0..=2).find(|version: &u32| version.to_string() == words.script_version);
        let version =
            version.ok_or_else(|| Ending::senseless("there is no such script version: 0, 1 or 2"))?;
        let is_type = kind == GroupKind::Type;
        let groups = groups(&mock);
        if !groups.iter().any(|group| group.script_hash == hash) {
            // The original's message.
            return Err(Ending::Error(format!("ScriptNotFound(Byte32(0x{}))", hex::encode(hash))));
        }
        let group = groups.iter().find(|group| group.is_type == is_type && group.script_hash == hash);
        let cell = group.and_then(first_cell);
        let cell = cell.ok_or_else(|| Ending::senseless("no cell that runs has this script"))?;
        let code = mock.code_of(&hash);
        let code = code.ok_or_else(|| Ending::senseless("no cell dep has the code of the script"))?;
        let is_replaced = words.tx_file.is_some() && words.bin.is_some();
        if let Some(bin) = words.bin.as_deref().filter(|_| is_replaced) {
            mock.replace_data(code, program(bin)?);
        }
        let environment = Environment::of_version(version);
        Ok(Self { mock, environment, kind, cell, is_replaced })
    }

    /// The job for a hosted process.
    pub(crate) fn job(&self, words: &Words, cycles_max: u64, watch: Option<Watch>) -> HostedRun {
        let replaced = self.mock.replaced();
        let hash = replaced.as_ref().map(|(hash, _)| *hash);
        let document = self.mock.document(&mut |asked| (Some(*asked) == hash).then_some(0));
        let Environment { vm_1_epoch, vm_2_epoch, epoch } = self.environment;
        let args = words.args.iter().map(|arg| Bytes::copy_from_slice(arg.as_encoded_bytes()));
        HostedRun {
            document: document.into(),
            cells: replaced.into_iter().collect(),
            rules: Rules { vm_1_epoch, vm_2_epoch, epoch },
            kind: self.kind,
            cell: self.cell,
            args: args.collect(),
            cycles_max,
            has_input: words.read_file.is_some(),
            may_dump: words.dump_file.is_some(),
            watch,
        }
    }
}

/// The first cell of a group.
pub(crate) fn first_cell(group: &Group) -> Option<CellName> {
    let input = group.inputs.first().copied().map(CellName::Input);
    input.or(group.outputs.first().copied().map(CellName::Output))
}

/// The named transaction, or one around the named program.
fn transaction(words: &Words) -> Result<Mock, Ending> {
    let Some(path) = &words.tx_file else {
        let bin = words.bin.as_deref();
        let bin = bin.ok_or_else(|| Ending::senseless("nothing to run: --bin or --tx-file is missing"))?;
        let lock = AsLock { elf: program(bin)?, ..AsLock::default() };
        return lock.to_mock().map_err(|error| Ending::Error(error.to_string()));
    };
    if path.as_os_str() != "-" {
        path.metadata().map_err(Ending::file(path))?;
    }
    let bytes = read_all(path, TRANSACTION_BYTES_MAX as u64).map_err(Ending::file(path))?;
    let folder = (path.as_os_str() != "-").then(|| path.parent().unwrap_or(Path::new("")));
    let text = template::expand_file(bytes, folder)
        .map_err(|error| Ending::Error(format!("{}: {error}", path.display())))?;
    Mock::from_json(&text).map_err(|error| Ending::Error(format!("Check Fail: {error}")))
}

fn program(path: &Path) -> Result<Bytes, Ending> {
    Ok(read_all(path, TRANSACTION_BYTES_MAX as u64).map_err(Ending::file(path))?.into())
}

/// Kind and hash of the requested script.
fn script(words: &Words, mock: &Mock) -> Result<(GroupKind, [u8; 32]), Ending> {
    let part = |index: usize| {
        let part = words.script.split('.').nth(index);
        part.ok_or_else(|| Ending::senseless("--script must be input.N.lock, input.N.type or output.N.type"))
    };
    let list = match words.cell_type {
        Some(CellType::Input) => "input",
        Some(CellType::Output) => "output",
        None => part(0)?,
    };
    let index = words.cell_index.as_deref().map_or_else(|| part(1), Ok)?;
    let index: usize = index.parse().map_err(Ending::number)?;
    let kind =
        match (words.script_group_type, words.script_group_type.is_none().then(|| part(2)).transpose()?) {
            (Some(GroupType::Lock), _) | (_, Some("lock")) => GroupKind::Lock,
            (Some(GroupType::Type), _) | (_, Some("type")) => GroupKind::Type,
            (_, other) => {
                return Err(Ending::Error(format!(
                    "unknown variant `{}`, expected `lock` or `type`",
                    other.unwrap_or_default()
                )));
            }
        };
    if words.tx_file.is_none() {
        let hash = mock.script_hash(ScriptLocation::InputLock(0));
        return Ok((kind, hash.ok_or_else(|| Ending::senseless("there is no input"))?));
    }
    if let Some(text) = &words.script_hash {
        return Ok((kind, read_hash(text)?));
    }
    let place = match (kind, list) {
        (GroupKind::Lock, "input") => ScriptLocation::InputLock(index),
        (GroupKind::Type, "input") => ScriptLocation::InputType(index),
        (GroupKind::Type, "output") => ScriptLocation::OutputType(index),
        _ => {
            return Err(Ending::senseless(format!("no such script runs: {list}.{index}.{}", kind.name())));
        }
    };
    let missing = || Ending::senseless(format!("there is no {list}.{index}, or it has no such script"));
    Ok((kind, mock.script_hash(place).ok_or_else(missing)?))
}

fn read_hash(text: &str) -> Result<[u8; 32], Ending> {
    let digits = text.get(2..).ok_or_else(|| Ending::senseless("--script-hash is 0x and 64 digits"))?;
    <[u8; 32]>::from_hex(digits)
        .map_err(|_| Ending::Error(format!("--script-hash is 0x and 64 hexadecimal digits, not {text}")))
}
