//! A transaction under construction, and its signing.

use antares_transaction::{CellFields, DepFields, Fields, Mock};
use anyhow::Result;
use bytes::Bytes;
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
        let raw = self.raw();
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
        self.mock(&tx)
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

    fn raw(&self) -> RawTransaction {
        let deps: Vec<CellDep> =
            self.points().map(|point| CellDep::new_builder().out_point(point).build()).collect();
        let inputs: Vec<CellInput> = (0_u32..)
            .zip(&self.inputs)
            .map(|(index, input)| CellInput::new(Self::spent_place(index), input.since))
            .collect();
        let outputs: Vec<CellOutput> = self.outputs.iter().map(|(output, _)| output.clone()).collect();
        let data: Vec<_> = self.outputs.iter().map(|(_, data)| data.pack()).collect();
        let headers: Vec<Byte32> = self.headers.iter().map(HeaderView::hash).collect();
        RawTransaction::new_builder()
            .cell_deps(deps.pack())
            .inputs(inputs.pack())
            .outputs(outputs.pack())
            .outputs_data(data.pack())
            .header_deps(headers.pack())
            .build()
    }

    fn points(&self) -> impl Iterator<Item = OutPoint> {
        (0_u32..).zip(&self.deps).map(|(index, _)| OutPoint::new(Byte32::zero(), index))
    }

    fn spent_place(index: u32) -> OutPoint {
        OutPoint::new(Byte32::new([1; 32]), index)
    }

    fn mock(&self, tx: &Transaction) -> Result<Mock> {
        let points: Vec<OutPoint> = self.points().collect();
        let headers: Vec<_> = self.headers.iter().map(HeaderView::data).collect();
        let nobody = CellOutput::default();
        let fields = Fields {
            tx: tx.as_slice(),
            inputs: self
                .inputs
                .iter()
                .map(|input| CellFields {
                    output: input.output.as_slice(),
                    data: input.data[..].into(),
                    block_hash: input.block.as_ref().map(|hash| ckb_types::H256::from(hash).0),
                })
                .collect(),
            cell_deps: points
                .iter()
                .zip(&self.deps)
                .map(|(point, data)| DepFields {
                    out_point: point.as_slice(),
                    cell_dep: None,
                    cell: CellFields { output: nobody.as_slice(), data: data[..].into(), block_hash: None },
                })
                .collect(),
            headers: headers.iter().map(Entity::as_slice).collect(),
            ..Fields::default()
        };
        Ok(Mock::from_molecule(&fields, &[])?)
    }
}
