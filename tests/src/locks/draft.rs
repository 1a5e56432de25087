//! A transaction under construction, and its signing.

use antares_transaction::Mock;
use anyhow::Result;
use bytes::Bytes;
use ckb_mock_tx_types::{MockCellDep, MockInfo, MockInput, MockTransaction};
use ckb_types::{
    core::HeaderView,
    packed::{
        Byte32, BytesOpt, CellDep, CellInput, CellOutput, OutPoint, RawTransaction, Transaction, WitnessArgs,
    },
    prelude::*,
};

use super::signing::{Unlock, sighash};

pub(super) struct Spent {
    pub(super) output: CellOutput,
    pub(super) data: Bytes,
    pub(super) since: u64,
    /// Hash of its block.
    pub(super) block: Option<Byte32>,
}

impl Spent {
    /// A cell without data.
    pub(super) fn of(output: CellOutput) -> Self {
        Self { output, data: Bytes::new(), since: 0, block: None }
    }
}

/// The parts of a transaction.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) deps: Vec<Bytes>,
    pub(super) headers: Vec<HeaderView>,
    pub(super) inputs: Vec<Spent>,
    pub(super) outputs: Vec<(CellOutput, Bytes)>,
    /// Input of the first input's type script, in its witness.
    pub(super) input_type: Option<Vec<u8>>,
    pub(super) extra_witnesses: Vec<Vec<u8>>,
    pub(super) unlocks: Vec<(Unlock, Vec<usize>)>,
}

impl Draft {
    pub(super) fn spend(&mut self, cells: impl IntoIterator<Item = CellOutput>) {
        self.inputs.extend(cells.into_iter().map(Spent::of));
    }

    /// Sets how the group of `inputs` is unlocked.
    pub(super) fn unlock(&mut self, unlock: Unlock, inputs: impl IntoIterator<Item = usize>) {
        self.unlocks.push((unlock, inputs.into_iter().collect()));
    }

    /// The signed transaction; if `is_forged`, a bit of the last signature is changed.
    ///
    /// # Errors
    /// Its parts are inconsistent.
    pub(super) fn signed(&self, is_forged: bool) -> Result<Mock> {
        let mock_info = self.info();
        let raw = self.raw(&mock_info);
        let hash = raw.calc_tx_hash();
        let mut witnesses = vec![Vec::new(); self.inputs.len()];
        for (unlock, inputs) in &self.unlocks {
            witnesses[inputs[0]] = self.witness(inputs[0], unlock.placeholder());
        }
        witnesses.extend(self.extra_witnesses.iter().cloned());
        let behind = self.inputs.len()..witnesses.len();
        for (number, (unlock, inputs)) in self.unlocks.iter().enumerate() {
            let message = sighash(&hash, &witnesses, inputs.iter().copied().chain(behind.clone()));
            let mut lock = unlock.sign(message);
            if is_forged && number + 1 == self.unlocks.len() {
                // The signature is at the end: 64 bytes and the recovery id.
                let at = lock.len() - 60;
                lock[at] ^= 1;
            }
            witnesses[inputs[0]] = self.witness(inputs[0], lock);
        }
        let witnesses: Vec<_> = witnesses.iter().map(|witness| witness.pack()).collect();
        let tx = Transaction::new_builder().raw(raw).witnesses(witnesses.pack()).build();
        Ok(Mock::from_json(&antares_chain::json(MockTransaction { mock_info, tx }))?)
    }

    fn witness(&self, index: usize, lock: Vec<u8>) -> Vec<u8> {
        if lock.is_empty() {
            return Vec::new();
        }
        let field = |bytes: Option<Vec<u8>>| BytesOpt::from(bytes.map(|bytes| bytes.pack()));
        let input_type = self.input_type.clone().filter(|_| index == 0);
        let witness =
            WitnessArgs::new_builder().lock(field(Some(lock))).input_type(field(input_type)).build();
        witness.as_slice().to_vec()
    }

    fn info(&self) -> MockInfo {
        let inputs = (0..).zip(&self.inputs).map(|(index, spent)| MockInput {
            input: CellInput::new(OutPoint::new(Byte32::new([1; 32]), index), spent.since),
            output: spent.output.clone(),
            data: spent.data.clone(),
            header: spent.block.clone(),
        });
        let cell_deps = (0..).zip(&self.deps).map(|(index, data)| MockCellDep {
            cell_dep: CellDep::new_builder().out_point(OutPoint::new(Byte32::zero(), index)).build(),
            output: CellOutput::default(),
            data: data.clone(),
            header: None,
        });
        let header_deps = self.headers.clone();
        MockInfo {
            inputs: inputs.collect(),
            cell_deps: cell_deps.collect(),
            header_deps,
            ..MockInfo::default()
        }
    }

    fn raw(&self, info: &MockInfo) -> RawTransaction {
        let deps: Vec<CellDep> = info.cell_deps.iter().map(|dep| dep.cell_dep.clone()).collect();
        let inputs: Vec<CellInput> = info.inputs.iter().map(|input| input.input.clone()).collect();
        let (outputs, data): (Vec<CellOutput>, Vec<Bytes>) = self.outputs.iter().cloned().unzip();
        let headers: Vec<Byte32> = self.headers.iter().map(HeaderView::hash).collect();
        RawTransaction::new_builder()
            .cell_deps(deps.pack())
            .inputs(inputs.pack())
            .outputs(outputs.pack())
            .outputs_data(data.pack())
            .header_deps(headers.pack())
            .build()
    }
}
