//! A transaction on its way to a worker: read once, and long data of its cells beside it, hashed and copied
//! once.

use std::cmp::Reverse;

use antares_pool::{Sealed, digest, job::SharedCell};
use antares_transaction::{Mock, SharedData, data_hash};
use anyhow::{Context as _, anyhow};
use bytes::Bytes;

use crate::failure::Failure;

/// Bytes of a cell's data from which on it goes beside the transaction.
const BESIDE_BYTES_MIN: usize = 16 << 10;
/// Cells beside a transaction, the largest. They take places of programs.
const BESIDE_MAX: usize = 16;

/// A transaction, read.
pub(crate) struct Sent {
    pub(crate) mock: Mock,
    /// In the order of their numbers.
    cells: Vec<Cell>,
}

/// Data of cells in a memory file.
struct Cell {
    data: Bytes,
    data_hash: [u8; 32],
    sealed: Sealed,
}

impl Sent {
    /// Reads a transaction of ckb-debugger's JSON.
    pub(crate) fn read(json: &[u8]) -> Result<Self, Failure> {
        let mut mock = Mock::from_json(json)
            .map_err(|error| Failure::Usage(anyhow!("the transaction cannot be used: {error}")))?;
        let mut long: Vec<Bytes> = mock.unhashed(|data| data.len() >= BESIDE_BYTES_MIN);
        long.sort_by_key(|data| (Reverse(data.len()), data.as_ptr()));
        long.dedup_by(|one, other| is_same(one, other));
        long.truncate(BESIDE_MAX);
        let cells: Vec<Cell> = long.into_iter().map(Cell::new).collect::<Result<_, _>>()?;
        mock.take_shared(|data| {
            let cell = cells.iter().find(|cell| is_same(&cell.data, data))?;
            Some(SharedData { data: data.clone(), data_hash: cell.data_hash })
        });
        Ok(Self { mock, cells })
    }

    /// The transaction without what is beside it, for a worker.
    pub(crate) fn document(&self) -> Vec<u8> {
        self.mock.document(&mut |hash| {
            self.cells.iter().zip(0..).find_map(|(cell, number)| (cell.data_hash == *hash).then_some(number))
        })
    }

    /// What is beside it.
    pub(crate) fn cells(&self) -> Vec<SharedCell> {
        let cells = self.cells.iter();
        cells.map(|cell| SharedCell { data_hash: cell.data_hash, bytes: cell.sealed.len() }).collect()
    }

    /// The same, as files.
    pub(crate) fn files(&self) -> Vec<&Sealed> {
        self.cells.iter().map(|cell| &cell.sealed).collect()
    }

    /// The file of the data with this hash, if it is beside the transaction.
    pub(crate) fn file(&self, data_hash: &[u8; 32]) -> Option<&Sealed> {
        self.cells.iter().find_map(|cell| (cell.data_hash == *data_hash).then_some(&cell.sealed))
    }
}

impl Cell {
    fn new(data: Bytes) -> Result<Self, Failure> {
        let sealed = Sealed::of_known("cell", &data, digest(&data));
        let sealed = sealed.context("cannot keep the transaction in memory").map_err(Failure::Service)?;
        Ok(Self { data_hash: data_hash(&data), data, sealed })
    }
}

/// Whether both are the same bytes in memory.
fn is_same(one: &Bytes, other: &Bytes) -> bool {
    (one.as_ptr(), one.len()) == (other.as_ptr(), other.len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A transaction whose cell deps have this data.
    fn with_deps(data: &[Vec<u8>]) -> Vec<u8> {
        let text = include_str!("../tests/transaction.json").replace("HASH_TYPE", "data1");
        let text = text.replace("{{ hash lock }}", &"33".repeat(32)).replace("{{ data lock }}", "");
        let mut transaction: Value = serde_json::from_str(&text).unwrap();
        let (info, dep) = ("/mock_info/cell_deps", transaction["mock_info"]["cell_deps"][0].clone());
        for (data, index) in data.iter().zip(1..) {
            let mut dep = dep.clone();
            dep["cell_dep"]["out_point"]["index"] = json!(format!("{index:#x}"));
            let digits: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
            dep["data"] = json!(format!("0x{digits}"));
            let named = transaction.pointer_mut("/tx/cell_deps").unwrap().as_array_mut().unwrap();
            named.push(dep["cell_dep"].clone());
            transaction.pointer_mut(info).unwrap().as_array_mut().unwrap().push(dep);
        }
        serde_json::to_vec(&transaction).unwrap()
    }

    #[test]
    fn what_is_beside_a_transaction_comes_back_where_it_was() {
        let long = |number: u8| vec![number; BESIDE_BYTES_MIN + usize::from(number)];
        let mut data: Vec<_> = (0..20).map(long).collect();
        // The same bytes twice, and some that are too short.
        data.extend([long(19), long(0), vec![7; BESIDE_BYTES_MIN - 1], Vec::new()]);
        let json = with_deps(&data);
        let sent = Sent::read(&json).unwrap();
        assert_eq!((sent.files().len(), sent.cells().len()), (BESIDE_MAX, BESIDE_MAX));
        let files = sent.cells.iter().map(|cell| SharedData {
            data: cell.sealed.map().unwrap(),
            data_hash: data_hash(&cell.sealed.read().unwrap()),
        });
        let there = Mock::from_document(&sent.document(), &files.collect::<Vec<_>>()).unwrap();
        assert_eq!(there.to_json(), Mock::from_json(&json).unwrap().to_json());
        assert!(sent.document().len() < json.len() / 4);
        let (hash, largest) = (data_hash(&long(19)), sent.file(&data_hash(&long(19))).unwrap());
        assert_eq!((largest.read().unwrap(), sent.cells[0].data_hash), (long(19), hash));
        assert!(sent.file(&data_hash(&long(0))).is_none());
    }
}
