//! A scenario: orders, and the transaction around them.

use std::{collections::BTreeSet, fmt};

use antares_transaction::{Environment, Mock};
use anyhow::{Context, Result};
use bytes::Bytes;
use ckb_mock_tx_types::{MockCellDep, MockInfo, MockInput, MockTransaction};
use ckb_types::{
    core::{Capacity, ScriptHashType},
    packed::{Byte32, CellDep, CellInput, CellOutput, OutPoint, RawTransaction, Script, Transaction},
    prelude::*,
};

use super::{images::Images, orders::Order};

/// Maximum lists of orders in a scenario; the witness begins with a number for each.
pub(super) const LISTS_MAX: usize = 48;
/// Maximum orders in a list.
pub(super) const ORDERS_MAX: usize = 62;
/// Source number of cell deps.
pub(super) const DEPS: u64 = 3;

/// Contents of a cell or a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Cell {
    Actor(usize),
    /// Routines for scripts to load, padded to the end of a page.
    Routines,
    /// Routines without padding.
    Short,
    Library,
    Data,
    Nothing,
}

/// A script that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Index of its code in the deps.
    pub dep: usize,
    /// How it references its code: `data`, `type`, `data1`, `data2`.
    pub hash_type: ScriptHashType,
    /// Whether it is a type script; a lock script otherwise.
    pub is_type: bool,
    /// Index of its list of orders.
    pub list: usize,
}

/// The cycle limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A limit that no terminating scenario reaches.
    Wide,
    /// Its cycles minus this number.
    Less(u64),
    /// This many thousandths of its cycles.
    Part(u64),
}

/// A random transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The latest VM version, which scripts referenced by type use.
    pub newest: u32,
    /// Scripts, each with its own input.
    pub groups: Vec<Group>,
    pub deps: Vec<Cell>,
    /// Data of each input's cell.
    pub inputs: Vec<Cell>,
    /// Data of outputs.
    pub outputs: Vec<Cell>,
    /// The witnesses after the first one, which has the orders.
    pub witnesses: Vec<Cell>,
    pub lists: Vec<Vec<Order>>,
    pub limit: Limit,
    /// Lines of debug output that trigger a pause.
    pub pauses: BTreeSet<usize>,
}

impl Cell {
    /// The bytes.
    #[must_use]
    pub fn bytes(self, images: &Images) -> Bytes {
        match self {
            Self::Actor(index) => images.actors[index].elf.clone(),
            Self::Routines => images.routines.clone(),
            Self::Short => images.routines.slice(..images.routines_bytes),
            Self::Library => images.library.clone(),
            Self::Data => images.data.clone(),
            Self::Nothing => Bytes::new(),
        }
    }
}

impl Scenario {
    /// The rules for its verification.
    #[must_use]
    pub fn environment(&self) -> Environment {
        Environment::of_version(self.newest)
    }

    /// VM versions of its scripts.
    #[must_use]
    pub fn versions(&self) -> BTreeSet<u32> {
        let environment = self.environment();
        self.groups.iter().filter_map(|group| environment.vm_version(group.hash_type)).collect()
    }

    /// The orders in the format of the first witness.
    fn witness(&self) -> Vec<u8> {
        let mut orders = Vec::new();
        let mut heads = vec![0_u64; LISTS_MAX.max(64)];
        let start = 8 * heads.len();
        for (head, list) in heads.iter_mut().zip(&self.lists) {
            *head = (list.len() as u64) << 32 | (start + orders.len()) as u64;
            orders.extend(list.iter().flat_map(|order| order.0).flat_map(u64::to_le_bytes));
        }
        heads.into_iter().flat_map(u64::to_le_bytes).chain(orders).collect()
    }

    fn script(&self, index: usize, images: &Images) -> Script {
        let Group { dep, hash_type, list, .. } = self.groups[index];
        let code_hash = match hash_type {
            ScriptHashType::Type => name_of_dep(dep).calc_script_hash(),
            _ => CellOutput::calc_data_hash(&self.deps[dep].bytes(images)),
        };
        let args = vec![list as u8, index as u8];
        Script::new_builder().code_hash(code_hash).hash_type(hash_type).args(Bytes::from(args).pack()).build()
    }

    /// Builds the transaction.
    ///
    /// # Errors
    /// The scenario is not a valid transaction: a bug of the generator.
    pub fn mock(&self, images: &Images) -> Result<Mock> {
        let mut info = MockInfo::default();
        for (index, group) in self.groups.iter().enumerate() {
            let script = self.script(index, images);
            let data = self.inputs.get(index).map_or_else(Bytes::new, |cell| cell.bytes(images));
            // A cell with a type script uses the lock of the first group.
            let (lock, of_type) =
                if group.is_type { (self.script(0, images), Some(script)) } else { (script, None) };
            let output = CellOutput::new_builder().lock(lock).type_(of_type.pack());
            let output = output.capacity(Capacity::shannons(1 << 40)).build();
            let input = CellInput::new(out_point(1, index), 0);
            info.inputs.push(MockInput { input, output, data, header: None });
        }
        for (index, cell) in self.deps.iter().enumerate() {
            let cell_dep = CellDep::new_builder().out_point(out_point(2, index)).build();
            let output = CellOutput::new_builder().type_(Some(name_of_dep(index)).pack()).build();
            info.cell_deps.push(MockCellDep { cell_dep, output, data: cell.bytes(images), header: None });
        }
        let bytes = |cells: &[Cell]| cells.iter().map(|cell| cell.bytes(images)).collect::<Vec<_>>();
        let deps: Vec<CellDep> = info.cell_deps.iter().map(|dep| dep.cell_dep.clone()).collect();
        let inputs: Vec<CellInput> = info.inputs.iter().map(|input| input.input.clone()).collect();
        let raw = RawTransaction::new_builder()
            .cell_deps(deps.pack())
            .inputs(inputs.pack())
            .outputs(vec![CellOutput::default(); self.outputs.len()].pack())
            .outputs_data(bytes(&self.outputs).pack())
            .build();
        let witnesses = [vec![Bytes::from(self.witness())], bytes(&self.witnesses)].concat();
        let tx = Transaction::new_builder().raw(raw).witnesses(witnesses.pack()).build();
        let json = antares_chain::json(MockTransaction { mock_info: info, tx });
        Mock::from_json(&json).context("a scenario is no transaction")
    }
}

/// A type script for a dep, so that scripts can reference it by type; it never runs.
fn name_of_dep(index: usize) -> Script {
    Script::new_builder().args(Bytes::from(vec![index as u8]).pack()).build()
}

fn out_point(kind: u8, index: usize) -> OutPoint {
    OutPoint::new(Byte32::from_slice(&[kind; 32]).unwrap_or_default(), index as u32)
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "newest version {}, {:?}, pauses {:?}", self.newest, self.limit, self.pauses)?;
        for group in &self.groups {
            writeln!(f, "{group:?}")?;
        }
        writeln!(
            f,
            "deps {:?}\ninputs {:?}\noutputs {:?}\nwitnesses {:?}",
            self.deps, self.inputs, self.outputs, self.witnesses
        )?;
        for (index, list) in self.lists.iter().enumerate() {
            writeln!(f, "list {index}:")?;
            for (at, order) in list.iter().enumerate() {
                writeln!(f, "  {at:2} {order}")?;
            }
        }
        Ok(())
    }
}
