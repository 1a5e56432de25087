//! Named definitions of a file.

use std::{cell::Cell, collections::BTreeMap, path::Path};

use antares_transaction::{
    limits::TRANSACTION_BYTES_MAX,
    template::{self, type_id},
};
use anyhow::{Context as _, Result, anyhow, bail};
use ckb_types::{
    bytes::Bytes,
    core::{HeaderBuilder, HeaderView, ScriptHashType},
    packed::{Byte32, CellInput, CellOutput, ScriptOpt},
    prelude::*,
};
use secp256k1::SecretKey;

use super::{
    bytes::{bytes, exact},
    error::{At, FieldError},
    file::{self, Draft},
    since::epoch,
    system::{self, system},
};

/// Limit for placeholders and digits together: each byte becomes two digits.
const BYTES_MAX: usize = TRANSACTION_BYTES_MAX / 2;

/// Keys, headers and cells of a file.
pub(crate) struct Names<'a> {
    folder: &'a Path,
    keys: BTreeMap<&'a str, SecretKey>,
    pub(crate) headers: Vec<(&'a str, HeaderView)>,
    pub(crate) cells: Vec<Code>,
    /// Whether a script reads the precomputed points of the curve.
    pub(crate) needs_points: bool,
    pub(crate) first_input: CellInput,
    /// Number of outputs.
    pub(crate) outputs: u64,
    /// Bytes remaining of [`BYTES_MAX`].
    left: Cell<usize>,
}

/// A cell dep.
pub(crate) struct Code {
    name: String,
    pub(crate) output: CellOutput,
    pub(crate) data: Bytes,
    pub(crate) header: Option<Byte32>,
    /// The hash type by which scripts reference it.
    pub(crate) hash_type: ScriptHashType,
    pub(crate) code_hash: Byte32,
}

impl<'a> Names<'a> {
    pub(crate) fn of(draft: &'a Draft, folder: &'a Path, first_input: CellInput) -> Result<Self, FieldError> {
        let (keys, left) = (BTreeMap::new(), Cell::new(BYTES_MAX));
        let (headers, cells, needs_points) = (Vec::new(), Vec::new(), false);
        let outputs = draft.outputs.len() as u64;
        let mut names = Self { folder, keys, headers, cells, needs_points, first_input, outputs, left };
        for (name, text) in &draft.keys {
            let why = "is no secret key: 0 and numbers from the order of the curve are none";
            let key = exact(text.get_ref(), &names);
            let key = key.and_then(|bytes| SecretKey::from_byte_array(&bytes).ok().context(why));
            names.keys.insert(name, key.at(text, || format!("keys.{name}"))?);
        }
        for (index, header) in draft.headers.iter().enumerate() {
            names.add_header(header, &format!("headers[{index}]"))?;
        }
        for (index, cell) in draft.cells.iter().enumerate() {
            names.add_cell(cell, &format!("cells[{index}]"))?;
        }
        Ok(names)
    }

    fn add_header(&mut self, header: &'a file::Header, field: &str) -> Result<(), FieldError> {
        let name = header.name.get_ref();
        if self.headers.iter().any(|(known, _)| known == name) {
            return Err(twice(name)).at(&header.name, || format!("{field}.name"));
        }
        let mut builder = HeaderBuilder::default().number(header.number).timestamp(header.timestamp_ms);
        if let Some(text) = &header.epoch {
            builder = builder.epoch(epoch(text.get_ref()).at(text, || format!("{field}.epoch"))?);
        }
        if let Some(text) = &header.dao {
            let dao: [u8; 32] = exact(text.get_ref(), self).at(text, || format!("{field}.dao"))?;
            builder = builder.dao(Byte32::new(dao));
        }
        self.headers.push((name, builder.build()));
        Ok(())
    }

    fn add_cell(&mut self, cell: &file::Cell, field: &str) -> Result<(), FieldError> {
        let name = cell.name.get_ref();
        if self.cells.iter().any(|known| known.name == *name) {
            return Err(twice(name)).at(&cell.name, || format!("{field}.name"));
        }
        let header = self.header(cell.header.as_ref(), field)?;
        let mut hash_type = ScriptHashType::Data2;
        let mut type_script = None;
        let data = match (&cell.file, &cell.data, &cell.system) {
            (Some(file), None, None) => {
                let data = self.file(file.get_ref());
                data.and_then(|data| self.take(data.len()).map(|()| Bytes::from(data)))
                    .at(file, || format!("{field}.file"))?
            }
            (None, Some(text), None) => {
                bytes(text.get_ref(), self).at(text, || format!("{field}.data"))?.into()
            }
            (None, None, Some(named)) => {
                let found = system(named.get_ref()).at(named, || format!("{field}.system"))?;
                self.needs_points |= found.needs_points;
                (type_script, hash_type) = (found.type_script, found.hash_type);
                found.data
            }
            _ => {
                let problem = anyhow!("a cell has one of file, data and system");
                return Err(problem).at(&cell.name, || field.to_owned());
            }
        };
        if let Some(text) = &cell.hash_type {
            hash_type = self::hash_type(text.get_ref()).at(text, || format!("{field}.hash_type"))?;
            if hash_type == ScriptHashType::Type && type_script.is_none() {
                type_script = Some(type_id(&ckb_hash::blake2b_256(name)));
            }
        }
        let code_hash = match &type_script {
            Some(script) if hash_type == ScriptHashType::Type => script.calc_script_hash(),
            _ => CellOutput::calc_data_hash(&data),
        };
        let output = CellOutput::new_builder().type_(ScriptOpt::from(type_script)).build();
        self.cells.push(Code { name: name.clone(), output, data, header, hash_type, code_hash });
        Ok(())
    }

    /// The hash of the header that a cell's field names.
    pub(crate) fn header(
        &self,
        text: Option<&file::Text>,
        field: &str,
    ) -> Result<Option<Byte32>, FieldError> {
        let Some(text) = text else { return Ok(None) };
        let found = self.headers.iter().find(|(name, _)| name == text.get_ref());
        let found = found
            .with_context(|| unknown("header", text.get_ref(), self.headers.iter().map(|(name, _)| *name)));
        found.map(|(_, header)| Some(header.hash())).at(text, || format!("{field}.header"))
    }

    pub(crate) fn key(&self, name: &str) -> Result<SecretKey> {
        self.keys.get(name).copied().with_context(|| unknown("key", name, self.keys.keys().copied()))
    }

    pub(crate) fn cell(&self, name: &str) -> Result<&Code> {
        let found = self.cells.iter().find(|cell| cell.name == name);
        found.with_context(|| unknown("cell", name, self.cells.iter().map(|cell| &*cell.name)))
    }

    pub(crate) fn file(&self, name: &str) -> Result<Vec<u8>> {
        Ok(template::read_file(&self.folder.join(name))?)
    }

    /// Counts bytes against the limit.
    pub(crate) fn take(&self, bytes: usize) -> Result<()> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.ok_or_else(too_large)?);
        Ok(())
    }

    /// All cell deps: those of the file, then the points.
    pub(crate) fn deps(self) -> Vec<Code> {
        let Self { mut cells, needs_points, .. } = self;
        if needs_points {
            let (name, output, data) = (String::new(), CellOutput::default(), system::points());
            let (hash_type, code_hash) = (ScriptHashType::Data, Byte32::zero());
            cells.push(Code { name, output, data, header: None, hash_type, code_hash });
        }
        cells
    }
}

pub(crate) fn hash_type(text: &str) -> Result<ScriptHashType> {
    match text {
        "data" => Ok(ScriptHashType::Data),
        "data1" => Ok(ScriptHashType::Data1),
        "data2" => Ok(ScriptHashType::Data2),
        "type" => Ok(ScriptHashType::Type),
        _ => bail!("{text:?} is not data, data1, data2 or type"),
    }
}

fn twice(name: &str) -> anyhow::Error {
    anyhow!("{name:?} is defined twice")
}

fn unknown<'a>(kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    format!("there is no {kind} {name:?}; there are: {}", known.collect::<Vec<_>>().join(", "))
}

/// The problem of a transaction beyond the limit.
pub(crate) fn too_large() -> anyhow::Error {
    anyhow!("the transaction has more than {TRANSACTION_BYTES_MAX} bytes")
}
