//! Wraps a bare program in a transaction that runs it as the lock script of an input, like ckb-debugger does.

use ckb_mock_tx_types::{MockCellDep, MockInfo, MockInput, MockTransaction, ReprMockTransaction};
use ckb_types::{
    bytes::Bytes,
    core::{Capacity, DepType, ScriptHashType},
    packed::{Byte32, CellDep, CellInput, CellOutput, OutPoint, Script, ScriptOpt, Transaction},
    prelude::*,
};

use crate::{
    Mock, MockError,
    mock::{DataHashes, data_hash},
    template::type_id,
};

/// A program as the lock of the only input, and its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AsLock {
    /// The program.
    pub elf: Bytes,
    /// Arguments of the lock script.
    pub args: Bytes,
    /// The witness of the input; without it, the transaction has no witnesses.
    pub witness: Option<Bytes>,
    /// Data of the spent cell.
    pub data: Bytes,
}

impl AsLock {
    /// Builds the transaction. The program is in a cell dep and referenced by a type id, so it runs in the
    /// newest active VM version.
    ///
    /// # Errors
    /// If the program is too long for a transaction.
    pub fn to_mock(&self) -> Result<Mock, MockError> {
        let code_type = type_id(&[0; 32]);
        let lock = Script::new_builder()
            .code_hash(code_type.calc_script_hash())
            .hash_type(ScriptHashType::Type)
            .args(self.args.clone())
            .build();
        let code = exact(CellOutput::new_builder().type_(ScriptOpt::from(Some(code_type))), &self.elf);
        let spent = exact(CellOutput::new_builder().lock(lock), &self.data);
        let place = |index: u32| OutPoint::new(Byte32::zero(), index);
        let cell_dep = CellDep::new_builder().out_point(place(0)).dep_type(DepType::Code).build();
        let input = CellInput::new(place(1), 0);
        let raw = Transaction::default()
            .raw()
            .as_builder()
            .cell_deps(vec![cell_dep.clone()])
            .inputs(vec![input.clone()]);
        let witnesses = self.witness.iter().cloned();
        let tx = Transaction::new_builder().raw(raw.build()).witnesses(witnesses.collect::<Vec<_>>()).build();
        let mut info = MockInfo::default();
        info.cell_deps.push(MockCellDep { cell_dep, output: code, data: self.elf.clone(), header: None });
        info.inputs.push(MockInput { input, output: spent, data: self.data.clone(), header: None });
        Mock::checked(MockTransaction { mock_info: info, tx }, DataHashes::default())
    }
}

/// A cell with the minimum capacity.
fn exact(cell: ckb_types::packed::CellOutputBuilder, data: &[u8]) -> CellOutput {
    // No overflow: data is shorter than 2^64 / 10^8 bytes.
    let data = Capacity::bytes(data.len()).unwrap_or_else(|_| Capacity::zero());
    cell.build_exact_capacity(data).unwrap_or_default()
}

/// The location of a script in a mock transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptLocation {
    /// The lock of an entry of `mock_info.inputs`.
    InputLock(usize),
    /// The type script of an entry of `mock_info.inputs`.
    InputType(usize),
    /// The type script of an output.
    OutputType(usize),
}

impl Mock {
    /// Hash of the script at `place`, if there is one.
    #[must_use]
    pub fn script_hash(&self, place: ScriptLocation) -> Option<[u8; 32]> {
        Some(self.script(place)?.calc_script_hash().into())
    }

    fn script(&self, place: ScriptLocation) -> Option<Script> {
        let (inputs, raw) = (&self.as_ckb().mock_info.inputs, self.as_ckb().tx.raw());
        match place {
            ScriptLocation::InputLock(index) => Some(inputs.get(index)?.output.lock()),
            ScriptLocation::InputType(index) => inputs.get(index)?.output.type_().to_opt(),
            ScriptLocation::OutputType(index) => raw.outputs().get(index)?.type_().to_opt(),
        }
    }

    /// Index in `mock_info.cell_deps` of the code of the script with this hash.
    #[must_use]
    pub fn code_of(&self, script_hash: &[u8; 32]) -> Option<usize> {
        let inputs = 0..self.as_ckb().mock_info.inputs.len();
        let outputs = 0..self.as_ckb().tx.raw().outputs().len();
        let of_inputs = inputs.flat_map(|at| [ScriptLocation::InputLock(at), ScriptLocation::InputType(at)]);
        let mut places = of_inputs.chain(outputs.map(ScriptLocation::OutputType));
        let script = places.find_map(|place| {
            self.script(place).filter(|script| script.calc_script_hash().as_slice() == script_hash)
        })?;
        let deps = &self.as_ckb().mock_info.cell_deps;
        let is_by_type = script.hash_type() == ScriptHashType::Type.into();
        (0..deps.len()).find(|index| match deps[*index].output.type_().to_opt() {
            Some(type_script) if is_by_type => type_script.calc_script_hash() == script.code_hash(),
            _ => !is_by_type && script.code_hash().as_slice() == self.dep_data_hash(*index),
        })
    }

    /// Replaces the data of a cell dep, and keeps the hash by which scripts reference it.
    pub fn replace_data(&mut self, dep: usize, data: Bytes) {
        let hash = self.dep_data_hash(dep);
        let (mock, hashes) = self.parts_mut();
        hashes.cell_deps[dep] = Some(hash);
        mock.mock_info.cell_deps[dep].data = data;
    }

    /// The JSON form for ckb-debugger.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&ReprMockTransaction::from(self.as_ckb().clone())).unwrap_or_default()
    }

    /// Returns replaced cell dep data with its original hash, for use outside of a document.
    #[must_use]
    pub fn replaced(&self) -> Option<([u8; 32], Bytes)> {
        let deps = self.as_ckb().mock_info.cell_deps.iter().zip(&self.known_hashes().cell_deps);
        deps.filter_map(|(dep, hash)| Some((hash.as_ref().copied()?, dep.data.clone())))
            .find(|(hash, data)| data_hash(data) != *hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{groups, programs};

    fn as_lock() -> Mock {
        let elf = Bytes::from_static(b"not much of a program");
        let witness = Some(Bytes::from_static(b"w"));
        let data = Bytes::from_static(b"d");
        AsLock { elf, args: Bytes::from_static(b"a"), witness, data }.to_mock().unwrap()
    }

    #[test]
    fn a_program_is_the_lock_of_the_only_input() {
        let mock = as_lock();
        let groups = groups(&mock);
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].is_type, groups[0].inputs.as_slice()), (false, [0].as_slice()));
        assert_eq!(mock.script_hash(ScriptLocation::InputLock(0)), Some(groups[0].script_hash));
        assert_eq!(mock.code_of(&groups[0].script_hash), Some(0));
        assert_eq!(mock.script_hash(ScriptLocation::InputType(0)), None);
        assert_eq!(mock.script_hash(ScriptLocation::OutputType(0)), None);
        let again = Mock::from_json(&mock.to_json()).unwrap();
        assert_eq!(again.as_ckb().tx.as_slice(), mock.as_ckb().tx.as_slice());
        assert_eq!(mock.as_ckb().tx.witnesses().len(), 1);
    }

    #[test]
    fn replaced_code_keeps_the_name_that_scripts_know() {
        let mut mock = as_lock();
        let before = mock.dep_data_hash(0);
        assert_eq!(mock.replaced(), None);
        mock.replace_data(0, Bytes::from_static(b"another"));
        assert_eq!(mock.dep_data_hash(0), before);
        assert_eq!(mock.replaced(), Some((before, Bytes::from_static(b"another"))));
        assert!(programs(&mock, &crate::Environment::default()).is_empty());
    }
}
