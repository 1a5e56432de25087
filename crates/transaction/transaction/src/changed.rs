//! Reads and replaces fields of a transaction by name. The transaction's structure does not change, so that
//! it needs no new check.

use std::str::FromStr;

use ckb_types::{bytes::Bytes, packed::Script, prelude::*};
use strum::Display;

use crate::{Mock, mock::data_hash};

/// A field of a transaction that holds bytes.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldName {
    /// A witness.
    #[strum(to_string = "witness.{0}")]
    Witness(u32),
    /// Data of the cell that the input spends.
    #[strum(to_string = "input.{0}.data")]
    InputData(u32),
    /// Args of that cell's lock script.
    #[strum(to_string = "input.{0}.lock.args")]
    InputLockArgs(u32),
    /// Args of that cell's type script.
    #[strum(to_string = "input.{0}.type.args")]
    InputTypeArgs(u32),
    /// Data of an output.
    #[strum(to_string = "output.{0}.data")]
    OutputData(u32),
    /// Args of an output's lock script.
    #[strum(to_string = "output.{0}.lock.args")]
    OutputLockArgs(u32),
    /// Args of an output's type script.
    #[strum(to_string = "output.{0}.type.args")]
    OutputTypeArgs(u32),
}

/// A text that is not a field name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no field: witness.N, input.N.data, input.N.lock.args, input.N.type.args, output.N.data, \
     output.N.lock.args or output.N.type.args"
)]
pub struct FieldNameError(String);

impl FromStr for FieldName {
    type Err = FieldNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || FieldNameError(text.to_owned());
        let (list, rest) = text.split_once('.').ok_or_else(refused)?;
        let (number, part) = rest.split_once('.').map_or((rest, None), |(number, part)| (number, Some(part)));
        let index = number.parse().map_err(|_| refused())?;
        Ok(match (list, part) {
            ("witness", None) => Self::Witness(index),
            ("input", Some("data")) => Self::InputData(index),
            ("input", Some("lock.args")) => Self::InputLockArgs(index),
            ("input", Some("type.args")) => Self::InputTypeArgs(index),
            ("output", Some("data")) => Self::OutputData(index),
            ("output", Some("lock.args")) => Self::OutputLockArgs(index),
            ("output", Some("type.args")) => Self::OutputTypeArgs(index),
            _ => return Err(refused()),
        })
    }
}

impl Mock {
    /// The fields that are inputs of scripts: witnesses, and data of inputs and outputs. Arguments are
    /// excluded, because they identify owners and kinds of cells; request them by name.
    #[must_use]
    pub fn field_names(&self) -> Vec<FieldName> {
        let count = |length: usize| 0..u32::try_from(length).unwrap_or(u32::MAX);
        let (tx, info) = (&self.as_ckb().tx, &self.as_ckb().mock_info);
        let witnesses = count(tx.witnesses().len()).map(FieldName::Witness);
        let inputs = count(info.inputs.len()).map(FieldName::InputData);
        let outputs = count(tx.raw().outputs_data().len()).map(FieldName::OutputData);
        witnesses.chain(inputs).chain(outputs).collect()
    }

    /// The content of a field, if it exists.
    #[must_use]
    pub fn field(&self, name: FieldName) -> Option<Bytes> {
        let (tx, inputs) = (&self.as_ckb().tx, &self.as_ckb().mock_info.inputs);
        let output = |index: u32| tx.raw().outputs().get(at(index));
        let args = |script: Script| script.args().raw_data();
        match name {
            FieldName::Witness(index) => Some(tx.witnesses().get(at(index))?.raw_data()),
            FieldName::InputData(index) => Some(inputs.get(at(index))?.data.clone()),
            FieldName::InputLockArgs(index) => Some(args(inputs.get(at(index))?.output.lock())),
            FieldName::InputTypeArgs(index) => Some(args(inputs.get(at(index))?.output.type_().to_opt()?)),
            FieldName::OutputData(index) => Some(tx.raw().outputs_data().get(at(index))?.raw_data()),
            FieldName::OutputLockArgs(index) => Some(args(output(index)?.lock())),
            FieldName::OutputTypeArgs(index) => Some(args(output(index)?.type_().to_opt()?)),
        }
    }

    /// A copy with other bytes in some fields. Fields that do not exist are ignored.
    #[must_use]
    pub fn with_fields<'a>(&self, fields: impl IntoIterator<Item = (FieldName, &'a [u8])>) -> Self {
        let mut changed = self.clone();
        let (mock, hashes) = changed.parts_mut();
        let mut witnesses: Option<Vec<_>> = None;
        let (mut outputs, mut data): (Option<Vec<_>>, Option<Vec<_>>) = (None, None);
        for (name, bytes) in fields {
            let bytes = Bytes::copy_from_slice(bytes);
            let is_type = matches!(name, FieldName::InputTypeArgs(_) | FieldName::OutputTypeArgs(_));
            match name {
                FieldName::Witness(index) => {
                    let all = witnesses.get_or_insert_with(|| mock.tx.witnesses().into_iter().collect());
                    put(all, index, |_| bytes.into());
                }
                FieldName::OutputData(index) => {
                    let all = data.get_or_insert_with(|| mock.tx.raw().outputs_data().into_iter().collect());
                    put(all, index, |_| bytes.into());
                }
                FieldName::OutputLockArgs(index) | FieldName::OutputTypeArgs(index) => {
                    let all = outputs.get_or_insert_with(|| mock.tx.raw().outputs().into_iter().collect());
                    put(all, index, |cell| with_args(cell, is_type, bytes));
                }
                FieldName::InputData(index) => {
                    if let Some(cell) = mock.mock_info.inputs.get_mut(at(index)) {
                        cell.data = bytes;
                        hashes.inputs[at(index)] = None;
                    }
                }
                FieldName::InputLockArgs(index) | FieldName::InputTypeArgs(index) => {
                    if let Some(cell) = mock.mock_info.inputs.get_mut(at(index)) {
                        cell.output = with_args(&cell.output, is_type, bytes);
                    }
                }
            }
        }
        let mut raw = mock.tx.raw().as_builder();
        let is_raw = outputs.is_some() || data.is_some();
        if let Some(outputs) = outputs {
            raw = raw.outputs(outputs);
        }
        if let Some(data) = data {
            raw = raw.outputs_data(data);
        }
        let mut tx = mock.tx.clone().as_builder();
        if is_raw {
            tx = tx.raw(raw.build());
        }
        if let Some(witnesses) = witnesses {
            tx = tx.witnesses(witnesses);
        }
        mock.tx = tx.build();
        changed
    }

    /// A copy whose cell deps use data of `shared` where it is equal, so that a comparison of both need not
    /// read it.
    #[must_use]
    pub fn sharing<'a>(&self, shared: impl IntoIterator<Item = &'a Bytes> + Clone) -> Self {
        let mut sharing = self.clone();
        for dep in &mut sharing.parts_mut().0.mock_info.cell_deps {
            if let Some(data) = shared.clone().into_iter().find(|data| **data == dep.data) {
                dep.data = data.clone();
            }
        }
        sharing
    }

    /// A copy that knows the hashes of all its cell data, so that clones need not compute them again.
    #[must_use]
    pub fn hashed(&self) -> Self {
        let mut known = self.clone();
        for (data, hash) in known.cells_mut() {
            hash.get_or_insert_with(|| data_hash(data));
        }
        known
    }
}

fn at(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn put<T>(all: &mut [T], index: u32, change: impl FnOnce(&T) -> T) {
    if let Some(one) = all.get_mut(at(index)) {
        *one = change(one);
    }
}

fn with_args(
    cell: &ckb_types::packed::CellOutput,
    is_type: bool,
    args: Bytes,
) -> ckb_types::packed::CellOutput {
    let changed = |script: Script| script.as_builder().args(args).build();
    if is_type {
        let Some(script) = cell.type_().to_opt() else { return cell.clone() };
        return cell.clone().as_builder().type_(Some(changed(script))).build();
    }
    cell.clone().as_builder().lock(changed(cell.lock())).build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AsLock;

    #[test]
    fn fields_are_put_in_and_taken_out_by_name() {
        let mock = AsLock {
            elf: Bytes::from_static(b"a program"),
            args: Bytes::from_static(b"args"),
            witness: Some(Bytes::from_static(b"w")),
            data: Bytes::from_static(b"d"),
        };
        let mock = mock.to_mock().unwrap().hashed();
        let names = ["witness.0", "input.0.data", "input.0.lock.args"].map(|text| text.parse().unwrap());
        let held = |mock: &Mock| names.map(|name| mock.field(name).unwrap());
        assert_eq!(held(&mock), ["w", "d", "args"]);
        let other = mock.with_fields(names.into_iter().zip([&b"1"[..], b"22", b"333"]));
        assert_eq!(held(&other), ["1", "22", "333"]);
        assert_eq!(other.input_data_hash(0), data_hash(b"22"));
        assert_eq!(other.dep_data_hash(0), mock.dep_data_hash(0));
        let again = Mock::from_json(&other.to_json()).unwrap();
        assert_eq!(again.as_ckb().tx.as_slice(), other.as_ckb().tx.as_slice());
        assert_eq!(names.map(|name| name.to_string())[2], "input.0.lock.args");
        assert_eq!(mock.field(FieldName::OutputData(0)), None);
        for text in ["witness", "witness.x", "input.0", "output.0.type", "witness.0.data"] {
            assert!(text.parse::<FieldName>().is_err(), "{text}");
        }
    }
}
