//! Blocks with valid roots and hashes, but without proof of work.

use std::collections::{BTreeMap, HashMap};

use ckb_mock_tx_types::{MockCellDep, MockTransaction};
use ckb_types::{
    H256,
    bytes::Bytes,
    core::{
        BlockBuilder, BlockView, Capacity, DepType, EpochNumberWithFraction, ScriptHashType,
        TransactionBuilder, TransactionView,
    },
    packed::{Byte32, CellDep, CellInput, CellOutput, OutPoint, OutPointVec, Script},
    prelude::*,
};

/// Cells by their original out points.
type Cells = BTreeMap<Vec<u8>, (CellOutput, Bytes)>;

/// Current out points and blocks of cells, by their original out points.
type Places = HashMap<Vec<u8>, (OutPoint, Byte32)>;

fn name(place: &OutPoint) -> Vec<u8> {
    place.as_slice().to_vec()
}

/// A chain, and its pending transactions.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    blocks: Vec<BlockView>,
    /// Cycles of transactions, as the node reports them.
    pub cycles: HashMap<H256, u64>,
    /// Transactions in no block.
    pub pool: Vec<TransactionView>,
    /// Epoch of new blocks.
    pub epoch: u64,
    /// First epochs of the VM versions 1 and 2.
    pub forks: [Option<u64>; 2],
    /// Extension of the next block.
    pub extension: Option<Vec<u8>>,
}

impl Chain {
    /// A chain with a first block and all VM versions.
    #[must_use]
    pub fn new() -> Self {
        let mut chain = Self { forks: [Some(0); 2], ..Self::default() };
        chain.push(&[], Vec::new());
        chain
    }

    /// The same up to the block with this number.
    #[must_use]
    pub fn until(&self, number: u64) -> Self {
        let blocks = self.blocks.iter().filter(|block| block.number() <= number).cloned().collect();
        Self { blocks, ..self.clone() }
    }

    /// The number of its last block.
    #[must_use]
    pub fn tip(&self) -> u64 {
        self.blocks.last().map_or(0, BlockView::number)
    }

    #[must_use]
    pub fn blocks(&self) -> &[BlockView] {
        &self.blocks
    }

    #[must_use]
    pub fn block(&self, number: u64) -> Option<&BlockView> {
        self.blocks.iter().find(|block| block.number() == number)
    }

    /// A transaction, and the block it is in, with its index there.
    #[must_use]
    pub fn find(&self, hash: &H256) -> Option<(TransactionView, Option<(&BlockView, usize)>)> {
        let is_it = |found: &TransactionView| found.hash().as_slice() == hash.as_bytes();
        for block in &self.blocks {
            if let Some(index) = block.transactions().iter().position(is_it) {
                return Some((block.transactions()[index].clone(), Some((block, index))));
            }
        }
        self.pool.iter().find(|found| is_it(found)).map(|found| (found.clone(), None))
    }

    /// Whether a transaction of a block spends this cell.
    #[must_use]
    pub fn is_spent(&self, place: &OutPoint) -> bool {
        let mut spent = self.blocks.iter().flat_map(BlockView::transactions);
        spent.any(|it| it.input_pts_iter().any(|point| point.as_slice() == place.as_slice()))
    }

    /// Adds a block whose first transaction creates `made` and whose others are `transactions` with their
    /// cycles. Returns the first one.
    pub fn push(
        &mut self,
        made: &[(CellOutput, Bytes)],
        transactions: Vec<(TransactionView, u64)>,
    ) -> TransactionView {
        let number = self.blocks.len() as u64;
        let mut cellbase = TransactionBuilder::default().input(CellInput::new_cellbase_input(number));
        // Distinguishes the cellbases of different chains.
        let salt = [number.to_le_bytes(), (self.cycles.len() as u64).to_le_bytes()].concat();
        cellbase = cellbase.witness(Bytes::from(salt));
        for (output, data) in made {
            cellbase = cellbase.output(output.clone()).output_data(data.clone());
        }
        let cellbase = cellbase.build();
        let parent = self.blocks.last().map(BlockView::hash).unwrap_or_default();
        let mut block = BlockBuilder::default()
            .number(number)
            .parent_hash(parent)
            .timestamp(1000 * number)
            .epoch(EpochNumberWithFraction::new(self.epoch, number % 1000, 1000))
            .transaction(cellbase.clone());
        for (transaction, cycles) in transactions {
            self.cycles.insert(transaction.hash().into(), cycles);
            block = block.transaction(transaction);
        }
        let extension = self.extension.take().map(|bytes| Bytes::from(bytes).into());
        self.blocks.push(block.extension(extension).build());
        cellbase
    }

    /// Adds the cells of `mock` in two new blocks; returns `mock` with their new out points and as many
    /// header deps as before: the last blocks.
    pub fn embed(&mut self, mock: &MockTransaction) -> MockTransaction {
        let info = &mock.mock_info;
        let is_group = |dep: &&MockCellDep| dep.cell_dep.dep_type() == DepType::DepGroup.into();
        let plain = info.cell_deps.iter().filter(|dep| !is_group(dep));
        let plain =
            plain.map(|dep| (name(&dep.cell_dep.out_point()), (dep.output.clone(), dep.data.clone())));
        let spent = info
            .inputs
            .iter()
            .map(|it| (name(&it.input.previous_output()), (it.output.clone(), it.data.clone())));
        let mut places = self.make(plain.chain(spent).collect());
        let groups = info.cell_deps.iter().filter(is_group).map(|dep| {
            let members = OutPointVec::from_slice(&dep.data).unwrap();
            let moved = members.into_iter().map(|it| places[it.as_slice()].0.clone());
            let data = moved.collect::<Vec<_>>().pack().as_bytes();
            (name(&dep.cell_dep.out_point()), (dep.output.clone(), data))
        });
        let groups: Cells = groups.collect();
        if !groups.is_empty() {
            places.extend(self.make(groups.clone()));
        }
        self.moved(mock, &places, &groups)
    }

    fn moved(&self, mock: &MockTransaction, places: &Places, groups: &Cells) -> MockTransaction {
        let mut info = mock.mock_info.clone();
        for input in &mut info.inputs {
            let (place, block) = &places[input.input.previous_output().as_slice()];
            input.input = input.input.clone().as_builder().previous_output(place.clone()).build();
            input.header = Some(block.clone());
        }
        for dep in &mut info.cell_deps {
            let old = dep.cell_dep.out_point();
            let (place, block) = &places[old.as_slice()];
            dep.cell_dep = dep.cell_dep.clone().as_builder().out_point(place.clone()).build();
            dep.header = Some(block.clone());
            if let Some((_, data)) = groups.get(old.as_slice()) {
                dep.data = data.clone();
            }
        }
        let old = mock.core_transaction();
        let inputs = old.inputs().into_iter().map(|input| {
            let place = places[input.previous_output().as_slice()].0.clone();
            input.as_builder().previous_output(place).build()
        });
        let deps = old.cell_deps().into_iter().map(|dep| {
            let place = places[dep.out_point().as_slice()].0.clone();
            dep.as_builder().out_point(place).build()
        });
        let named: Vec<&BlockView> = self.blocks.iter().rev().take(old.header_deps().len()).collect();
        info.header_deps = named.iter().map(|block| block.header()).collect();
        let extension = |block: &&BlockView| Some((block.hash(), block.extension()?.raw_data()));
        info.extensions = named.iter().filter_map(extension).collect();
        let moved = old
            .as_advanced_builder()
            .set_inputs(inputs.collect())
            .set_cell_deps(deps.collect())
            .set_header_deps(named.iter().map(|block| block.hash()).collect());
        MockTransaction { mock_info: info, tx: moved.build().data() }
    }

    /// Creates cells in a new block; returns their out points and the block.
    fn make(&mut self, cells: Cells) -> Places {
        let (names, cells): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
        let made = self.push(&cells, Vec::new()).hash();
        let block = self.blocks.last().unwrap().hash();
        let place = |index: usize| OutPoint::new(made.clone(), u32::try_from(index).unwrap());
        names.into_iter().enumerate().map(|(index, name)| (name, (place(index), block.clone()))).collect()
    }

    /// A transaction that spends `spent`, locked by `code`, and creates a cell of the same lock with `data`.
    #[must_use]
    pub fn spend(spent: OutPoint, (code, elf): (OutPoint, &[u8]), data: &[u8]) -> TransactionView {
        TransactionBuilder::default()
            .input(CellInput::new(spent, 0))
            .cell_dep(CellDep::new_builder().out_point(code).dep_type(DepType::Code).build())
            .output(Self::locked(elf, ScriptHashType::Data1))
            .output_data(Bytes::copy_from_slice(data))
            .build()
    }

    /// Adds a block that creates a cell with `elf` and `count` cells locked by it. Then adds a block for each
    /// of these: one transaction spends it, another spends the output. All take `cycles`.
    pub fn grow(&mut self, elf: &[u8], count: u32, cycles: u64) -> Vec<TransactionView> {
        let guarded = (Self::locked(elf, ScriptHashType::Data1), Bytes::new());
        let code = (CellOutput::default(), Bytes::copy_from_slice(elf));
        let made: Vec<_> = std::iter::once(code).chain((0..count).map(|_| guarded.clone())).collect();
        let made = self.push(&made, Vec::new()).hash();
        let code = OutPoint::new(made.clone(), 0);
        let mut all = Vec::new();
        for index in 1..=count {
            let first = Self::spend(OutPoint::new(made.clone(), index), (code.clone(), elf), b"first");
            let second = Self::spend(OutPoint::new(first.hash(), 0), (code.clone(), elf), b"second");
            self.push(&[], vec![(first.clone(), cycles), (second.clone(), cycles)]);
            all.extend([first, second]);
        }
        all
    }

    /// A cell whose lock is the code with this hash, named by `hash_type`.
    #[must_use]
    pub fn locked(code: &[u8], hash_type: ScriptHashType) -> CellOutput {
        let code_hash = CellOutput::calc_data_hash(code);
        let lock = Script::new_builder().code_hash(code_hash).hash_type(hash_type).build();
        CellOutput::new_builder().capacity(Capacity::shannons(1)).lock(lock).build()
    }
}
