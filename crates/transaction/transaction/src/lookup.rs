//! Looks up cells of a transaction like its scripts do: by list and index.

use ckb_mock_tx_types::MockInput;
use ckb_types::{
    bytes::Bytes,
    core::{DepType, ScriptHashType},
    packed::{Byte32, CellOutput, OutPointVec, Script},
    prelude::*,
};

use crate::Mock;

/// List numbers in system calls.
const INPUT: u64 = 1;
const OUTPUT: u64 = 2;
const CELL_DEP: u64 = 3;

/// Maximum reported cells.
const NEAR_MAX: usize = 4;

/// A cell that may contain the missing code.
struct Near {
    path: String,
    data_hash: Byte32,
    type_hash: Option<Byte32>,
    bytes: usize,
}

impl Mock {
    /// The data of a cell, by list and index of a system call. Does not support the lists of a script group.
    #[must_use]
    pub fn cell_data(&self, source: u64, index: u64) -> Option<Bytes> {
        let (index, mock) = (usize::try_from(index).ok()?, self.as_ckb());
        match source {
            INPUT => Some(self.spent(index)?.data.clone()),
            OUTPUT => mock.tx.raw().outputs_data().get(index).map(|data| data.raw_data()),
            CELL_DEP => self.dep_data(index),
            _ => None,
        }
    }

    /// The cell that an input of the transaction spends.
    fn spent(&self, index: usize) -> Option<&MockInput> {
        let point = self.as_ckb().tx.raw().inputs().get(index)?.previous_output();
        let mut inputs = self.as_ckb().mock_info.inputs.iter();
        inputs.find(|it| it.input.previous_output().as_slice() == point.as_slice())
    }

    /// The data of a cell dep. Dep groups are expanded, as for scripts.
    fn dep_data(&self, index: usize) -> Option<Bytes> {
        let mock = self.as_ckb();
        let data_of = |point: &[u8]| {
            let mut deps = mock.mock_info.cell_deps.iter();
            deps.find(|dep| dep.cell_dep.out_point().as_slice() == point).map(|dep| dep.data.clone())
        };
        let mut before = 0;
        for dep in mock.tx.raw().cell_deps() {
            let data = data_of(dep.out_point().as_slice())?;
            if dep.dep_type() != DepType::DepGroup.into() {
                if before == index {
                    return Some(data);
                }
                before += 1;
                continue;
            }
            let points = OutPointVec::from_slice(&data).ok()?;
            if let Some(point) = index.checked_sub(before).and_then(|at| points.get(at)) {
                return data_of(point.as_slice());
            }
            before += points.len();
        }
        None
    }

    /// The code hash of a cell's script, if its hash type is `type`.
    #[must_use]
    pub fn type_named_code(&self, is_type: bool, source: u64, index: u32) -> Option<[u8; 32]> {
        let script = self.script_of_cell(is_type, source, index)?;
        (script.hash_type() == ScriptHashType::Type.into()).then(|| script.code_hash().into())
    }

    /// For a script whose code was not found: what is near it, and the next step. Not empty.
    #[must_use]
    pub fn near_code(&self, is_type: bool, source: u64, index: u32) -> Vec<String> {
        let Some(script) = self.script_of_cell(is_type, source, index) else { return Vec::new() };
        let (wanted, by_type) = (script.code_hash(), script.hash_type() == ScriptHashType::Type.into());
        let info = &self.as_ckb().mock_info;
        let near = |path, hash, output: &CellOutput, data: &Bytes| {
            let type_hash = output.type_().to_opt().map(|script| script.calc_script_hash());
            Near { path, data_hash: Byte32::new(hash), type_hash, bytes: data.len() }
        };
        let deps = info.cell_deps.iter().enumerate().map(|(at, dep)| {
            near(format!("mock_info.cell_deps[{at}]"), self.dep_data_hash(at), &dep.output, &dep.data)
        });
        let deps: Vec<Near> = deps.collect();
        let inputs = info.inputs.iter().enumerate().map(|(at, input)| {
            near(format!("mock_info.inputs[{at}]"), self.input_data_hash(at), &input.output, &input.data)
        });
        let other_kind = |near: &&Near| match by_type {
            true => near.data_hash == wanted,
            false => near.type_hash.as_ref() == Some(&wanted),
        };
        let mut said: Vec<String> = Vec::new();
        for Near { path, .. } in deps.iter().filter(other_kind).take(NEAR_MAX) {
            said.push(match by_type {
                true => format!("{path} has data with this hash: the hash type is data2 then, not type"),
                false => format!("{path} has a type script with this hash: the hash type is type then"),
            });
        }
        for Near { path, .. } in
            inputs.filter(|near| near.data_hash == wanted || other_kind(&near)).take(NEAR_MAX)
        {
            said.push(format!(
                "{path} has this code, but code is looked for in cell deps: list that cell there"
            ));
        }
        if !said.is_empty() {
            return said;
        }
        if deps.is_empty() {
            said.push("there are no cell deps: list the cell with the code in tx.cell_deps, and in mock_info.cell_deps with its data".into());
        }
        let what = if by_type { "type script" } else { "data" };
        for Near { path, data_hash, type_hash, bytes } in deps.iter().take(NEAR_MAX) {
            let of_type = type_hash
                .as_ref()
                .map_or("no type script".into(), |hash| format!("a type script with hash {hash:#x}"));
            said.push(format!("{path} has {bytes} bytes of data with hash {data_hash:#x}, and {of_type}"));
        }
        if !deps.is_empty() {
            said.push(format!("no cell dep has a {what} hash of {wanted:#x}: is it that of another build? `antares hash FILE` prints a script's"));
        }
        said
    }

    /// The script of a cell.
    fn script_of_cell(&self, is_type: bool, source: u64, index: u32) -> Option<Script> {
        let (index, mock) = (usize::try_from(index).ok()?, self.as_ckb());
        let cell = match source {
            INPUT => self.spent(index)?.output.clone(),
            OUTPUT => mock.tx.raw().outputs().get(index)?,
            _ => return None,
        };
        if is_type { cell.type_().to_opt() } else { Some(cell.lock()) }
    }
}
