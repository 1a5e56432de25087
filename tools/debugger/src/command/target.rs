//! Creates the debugging job from the arguments.

use std::os::unix::ffi::OsStrExt as _;

use antares_abi::{CYCLES_MAX_DEFAULT, Isa};
use antares_cli::{args::DebugArgs, commands::verify::read_transaction, failure::Failure, input};
use antares_hosted::job::{CellName, GroupKind, HostedDebug, HostedRun, Rules};
use antares_transaction::{Environment, Mock, groups};
use anyhow::anyhow;
use bytes::Bytes;

use crate::ckb_debugger::first_cell;

/// Location of a script without a transaction.
const FIRST: (GroupKind, CellName) = (GroupKind::Lock, CellName::Input(0));

/// The job for `args`.
pub(crate) fn job(args: &DebugArgs) -> Result<HostedDebug, Failure> {
    let (mock, environment) = transaction(args)?;
    let (kind, cell) = if args.tx.is_some() { group(args, &mock)? } else { FIRST };
    let Environment { vm_1_epoch, vm_2_epoch, epoch } = environment;
    let run = HostedRun {
        document: mock.document(&mut |_| None).into(),
        cells: Vec::new(),
        rules: Rules { vm_1_epoch, vm_2_epoch, epoch },
        kind,
        cell,
        args: args.args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect(),
        cycles_max: args.max_cycles.unwrap_or(CYCLES_MAX_DEFAULT),
        has_input: false,
        may_dump: false,
        watch: None,
    };
    Ok(HostedDebug {
        run,
        only_prints: args.tx.is_none() && !args.lock.as_lock,
        breaks_on_error: args.break_on_error,
        break_at_cycles: args.break_at_cycles,
        vm: 0,
        has_file: args.elf.as_deref().is_some_and(|path| !input::is_stdio(path)),
    })
}

fn transaction(args: &DebugArgs) -> Result<(Mock, Environment), Failure> {
    if let Some(path) = &args.tx {
        let environment = match (args.script_version, args.mainnet_epoch) {
            (Some(version), _) => Environment::of_version(version),
            (None, Some(epoch)) => Environment::mainnet(epoch),
            (None, None) => Environment::default(),
        };
        let mock = Mock::from_json(&read_transaction(path)?);
        let mock = mock.map_err(|error| Failure::Usage(anyhow!("{}: {error}", path.display())))?;
        return Ok((mock, environment));
    }
    if args.isa.is_some_and(|isa| isa != Isa::of_version(args.vm_version)) {
        return Err(Failure::Usage(anyhow!("only the instruction set of the VM version can be debugged")));
    }
    // Clap has seen to it that there is one.
    let elf = args.elf.as_deref().ok_or_else(|| Failure::Usage(anyhow!("which script?")))?;
    let mock = args.lock.to_mock(elf)?;
    Ok((mock, Environment::of_version(args.vm_version)))
}

/// The named group, or the only one.
fn group(args: &DebugArgs, mock: &Mock) -> Result<(GroupKind, CellName), Failure> {
    if let (Some(kind), Some(cell)) = (args.group, args.cell) {
        return Ok((kind, cell));
    }
    let mut found = Vec::new();
    for group in groups(mock) {
        let kind = if group.is_type { GroupKind::Type } else { GroupKind::Lock };
        found.extend(first_cell(&group).map(|cell| (kind, cell)));
    }
    match found.as_slice() {
        [only] => Ok(*only),
        [] => Err(Failure::Usage(anyhow!("the transaction has no script that runs"))),
        several => {
            let words = several.iter().map(|(kind, cell)| format!("--group {} --cell {cell}", kind.name()));
            let words: Vec<_> = words.collect();
            Err(Failure::Usage(anyhow!("which script? one of:\n  {}", words.join("\n  "))))
        }
    }
}
