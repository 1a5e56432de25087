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
