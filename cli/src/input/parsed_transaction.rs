//! A transaction for workers of this machine, parsed once. Long cell data is in separate memory files, hashed
//! and copied once.

use std::cmp::Reverse;

use antares_pool::{Sealed, digest, job::SharedCell};
use antares_transaction::{
    Mock, SharedData, data_hash, is_same_memory,
    limits::{PROGRAMS_MAX, SHARED_BYTES_MIN},
};
use anyhow::Context as _;
use bytes::Bytes;

use crate::failure::Failure;

/// Reads a transaction of ckb-debugger's JSON.
pub fn read(json: &[u8]) -> Result<Mock, Failure> {
    let read = Mock::from_json(json).context("the transaction cannot be used");
    read.map_err(Failure::Usage)
}

/// A transaction, and its long cells.
pub(crate) struct ParsedTransaction {
    pub(crate) mock: Mock,
    /// Longest first; the index is the cell's number.
    cells: Vec<Cell>,
}

/// A memory file with cell data.
struct Cell {
    data: Bytes,
    data_hash: [u8; 32],
    sealed: Sealed,
}

impl ParsedTransaction {
    /// Reads a transaction of ckb-debugger's JSON.
    #[cfg(any(feature = "server", test))]
    pub(crate) fn parse(json: &[u8]) -> Result<Self, Failure> {
        Self::new(read(json)?)
    }

    /// Moves long data of `mock` into files.
    pub(crate) fn new(mut mock: Mock) -> Result<Self, Failure> {
        let mut long: Vec<Bytes> = mock.unhashed(|data| data.len() >= SHARED_BYTES_MIN);
        long.sort_by_key(|data| (Reverse(data.len()), data.as_ptr()));
        long.dedup_by(|one, other| is_same_memory(one, other));
        long.truncate(PROGRAMS_MAX);
        let cells: Vec<Cell> = long.into_iter().map(Cell::new).collect::<Result<_, _>>()?;
        mock.take_shared(|data| {
            let cell = cells.iter().find(|cell| is_same_memory(&cell.data, data))?;
            Some(SharedData { data: data.clone(), data_hash: cell.data_hash })
        });
        Ok(Self { mock, cells })
    }

    /// Keeps as many cell files as a worker accepts together with `programs` other files; inlines the rest.
    pub(crate) fn evict_for_space(&mut self, programs: usize) {
        self.cells.truncate(PROGRAMS_MAX.saturating_sub(programs));
    }

    /// The transaction without its separate files, for a worker.
    pub(crate) fn document(&self) -> Vec<u8> {
        self.mock.document(&mut |hash| {
            self.cells.iter().zip(0..).find_map(|(cell, number)| (cell.data_hash == *hash).then_some(number))
        })
    }

    /// The cells in separate files.
    pub(crate) fn cells(&self) -> Vec<SharedCell> {
        let cells = self.cells.iter();
        cells.map(|cell| SharedCell { data_hash: cell.data_hash, bytes: cell.sealed.len() }).collect()
    }

    /// The separate files.
    pub(crate) fn files(&self) -> Vec<&Sealed> {
        self.cells.iter().map(|cell| &cell.sealed).collect()
    }

    /// The separate file of the data with this hash, if there is one.
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A transaction whose cell deps contain this data.
    fn with_deps(data: &[Vec<u8>]) -> Vec<u8> {
        let text = include_str!("../../tests/transaction.json").replace("HASH_TYPE", "data1");
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

    /// The transaction as a worker reads it.
    fn arrived(parsed: &ParsedTransaction) -> Vec<u8> {
        let files = parsed.files().into_iter().map(|file| {
            let data = file.map().unwrap();
            SharedData { data_hash: data_hash(&data), data }
        });
        Mock::from_document(&parsed.document(), &files.collect::<Vec<_>>()).unwrap().to_json()
    }

    #[test]
    fn what_is_beside_a_transaction_comes_back_where_it_was() {
        let long = |number: u8| vec![number; SHARED_BYTES_MIN + usize::from(number)];
        let mut data: Vec<_> = (0..20).map(long).collect();
        // Duplicate data, and some that is too short.
        data.extend([long(19), vec![7; SHARED_BYTES_MIN - 1], Vec::new()]);
        let json = with_deps(&data);
        let whole = Mock::from_json(&json).unwrap().to_json();
        let mut parsed = ParsedTransaction::parse(&json).unwrap();
        assert_eq!((parsed.cells().len(), arrived(&parsed)), (21, whole.clone()));
        assert!(parsed.document().len() < 2 * SHARED_BYTES_MIN);
        assert_eq!(parsed.file(&data_hash(&long(0))).unwrap().read().unwrap(), long(0));
        // The longest remain in files where programs take the capacity.
        parsed.evict_for_space(PROGRAMS_MAX - 3);
        assert_eq!((parsed.cells().len(), arrived(&parsed)), (3, whole.clone()));
        assert!(parsed.file(&data_hash(&long(18))).is_some() && parsed.file(&data_hash(&long(17))).is_none());
        parsed.evict_for_space(PROGRAMS_MAX + 1);
        assert_eq!((parsed.cells().len(), arrived(&parsed)), (0, whole));
    }
}
