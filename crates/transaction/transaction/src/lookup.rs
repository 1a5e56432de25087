//! Looks up cells of a transaction like its scripts do: by list and index.

use ckb_types::{bytes::Bytes, core::DepType, core::ScriptHashType, packed::OutPointVec, prelude::*};

use crate::Mock;

/// List numbers in system calls.
const INPUT: u64 = 1;
const OUTPUT: u64 = 2;
const CELL_DEP: u64 = 3;

impl Mock {
    /// The data of a cell, by list and index of a system call. Does not support the lists of a script group.
    #[must_use]
    pub fn cell_data(&self, source: u64, index: u64) -> Option<Bytes> {
        let (index, mock) = (usize::try_from(index).ok()?, self.as_ckb());
        match source {
            INPUT => {
                let point = mock.tx.raw().inputs().get(index)?.previous_output();
                let mut inputs = mock.mock_info.inputs.iter();
                inputs
                    .find(|it| it.input.previous_output().as_slice() == point.as_slice())
                    .map(|it| it.data.clone())
            }
            OUTPUT => mock.tx.raw().outputs_data().get(index).map(|data| data.raw_data()),
            CELL_DEP => self.dep_data(index),
            _ => None,
        }
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
        let (index, mock) = (usize::try_from(index).ok()?, self.as_ckb());
        let cell = match source {
            INPUT => {
                let point = mock.tx.raw().inputs().get(index)?.previous_output();
                let mut inputs = mock.mock_info.inputs.iter();
                inputs.find(|it| it.input.previous_output().as_slice() == point.as_slice())?.output.clone()
            }
            OUTPUT => mock.tx.raw().outputs().get(index)?,
            _ => return None,
        };
        let script = if is_type { cell.type_().to_opt()? } else { cell.lock() };
        (script.hash_type() == ScriptHashType::Type.into()).then(|| script.code_hash().into())
    }
}
