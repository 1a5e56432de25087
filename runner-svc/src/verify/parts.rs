//! A transaction as its caller sent it, without copies until a worker gets it.

use std::sync::Arc;

use antares_abi::Sha256Digest;
use antares_node::BareFormat;
use antares_transaction::{CellData, CellFields, DepFields, Fields, Mock, MockError, SharedData};
use bytes::Bytes;
use ckb_types::{
    packed::{OutPoint, Transaction},
    prelude::*,
};

use crate::verify::hot_cells::HotCell;

/// Form of the transaction.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// ckb-debugger's JSON.
    Json(Bytes),
    /// The transaction alone.
    Bare(Bytes, BareFormat),
    Parts(Box<Parts>),
}

/// The parts of a transaction in molecule encoding.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) tx: Bytes,
    /// In the order of the transaction's inputs.
    pub(crate) inputs: Vec<CellPart>,
    pub(crate) cell_deps: Vec<DepPart>,
    pub(crate) headers: Vec<Bytes>,
    pub(crate) extensions: Vec<([u8; 32], Bytes)>,
}

#[derive(Clone, Debug)]
pub(crate) struct CellPart {
    pub(crate) output: Bytes,
    pub(crate) data: DataPart,
    pub(crate) block_hash: Option<[u8; 32]>,
}

#[derive(Clone, Debug)]
pub(crate) struct DepPart {
    pub(crate) out_point: Bytes,
    pub(crate) cell: CellPart,
}

/// Data of a cell.
#[derive(Clone, Debug)]
pub(crate) enum DataPart {
    Inline(Bytes),
    /// Uploaded earlier.
    Stored(Sha256Digest),
    /// Already found.
    Hot(Arc<HotCell>),
    /// Already found by its digest: the caller has not sent its bytes.
    Named(Arc<HotCell>),
}

impl Source {
    /// The request field with such a transaction.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Json(_) => "mock_json",
            Self::Bare(..) => "bare",
            Self::Parts(_) => "fields",
        }
    }

    /// Received bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Json(text) | Self::Bare(text, _) => text.len(),
            Self::Parts(parts) => parts.bytes(),
        }
    }

    /// ckb's hashes of the named data.
    pub(crate) fn named(&self) -> Vec<[u8; 32]> {
        let Self::Parts(parts) = self else { return Vec::new() };
        let named = parts.data().filter_map(|(_, data)| match data {
            DataPart::Named(cell) => Some(cell.data_hash),
            _ => None,
        });
        named.collect()
    }

    /// Parses the transaction, with the hot cells that it names, each once.
    pub(crate) fn read(&self) -> Result<(Mock, Vec<Arc<HotCell>>), MockError> {
        match self {
            Self::Json(json) => Ok((Mock::from_json(json)?, Vec::new())),
            // Callers resolve its cells first.
            Self::Bare(..) => Parts::default().read(),
            Self::Parts(parts) => parts.read(),
        }
    }
}

impl Parts {
    /// Bytes of the transaction and of its inline data.
    pub(crate) fn bytes(&self) -> usize {
        let inline = self.data().map(|(_, data)| match data {
            DataPart::Inline(data) => data.len(),
            DataPart::Stored(_) | DataPart::Hot(_) | DataPart::Named(_) => 0,
        });
        self.tx.len() + inline.sum::<usize>()
    }

    /// The data of all cells, each with its path in a request.
    fn data(&self) -> impl Iterator<Item = (Location, &DataPart)> {
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.map(|(at, cell)| (Location::Input(at), &cell.data));
        let deps = self.cell_deps.iter().enumerate();
        inputs.chain(deps.map(|(at, dep)| (Location::CellDep(at), &dep.cell.data)))
    }

    /// Like [`Parts::data`], mutable.
    pub(crate) fn data_mut(&mut self) -> impl Iterator<Item = (Location, &mut DataPart)> {
        let inputs = self.inputs.iter_mut().enumerate();
        let inputs = inputs.map(|(at, cell)| (Location::Input(at), &mut cell.data));
        let deps = self.cell_deps.iter_mut().enumerate();
        inputs.chain(deps.map(|(at, dep)| (Location::CellDep(at), &mut dep.cell.data)))
    }

    /// The out point of the cell with that data; none if the transaction has none.
    pub(crate) fn out_point(&self, place: Location) -> Option<OutPoint> {
        match place {
            Location::CellDep(at) => OutPoint::from_slice(&self.cell_deps.get(at)?.out_point).ok(),
            Location::Input(at) => {
                let tx = Transaction::from_slice(&self.tx).ok()?;
                Some(tx.raw().inputs().get(at)?.previous_output())
            }
        }
    }

    fn read(&self) -> Result<(Mock, Vec<Arc<HotCell>>), MockError> {
        let mut cells: Vec<Arc<HotCell>> = Vec::new();
        let mut cell = |cell: &'_ CellPart| number_of(&cell.data, &mut cells);
        let numbers: Vec<_> =
            self.inputs.iter().chain(self.cell_deps.iter().map(|dep| &dep.cell)).map(&mut cell).collect();
        let (of_inputs, of_deps) = numbers.split_at(self.inputs.len());
        let fields = Fields {
            tx: &self.tx,
            inputs: self.inputs.iter().zip(of_inputs).map(|(cell, number)| fields(cell, *number)).collect(),
            cell_deps: self
                .cell_deps
                .iter()
                .zip(of_deps)
                .map(|(dep, number)| DepFields {
                    out_point: &dep.out_point,
                    cell_dep: None,
                    cell: fields(&dep.cell, *number),
                })
                .collect(),
            headers: self.headers.iter().map(|header| &**header).collect(),
            extensions: self.extensions.iter().map(|(hash, bytes)| (*hash, &**bytes)).collect(),
        };
        let shared: Vec<_> = cells.iter().map(|cell| shared(cell)).collect();
        Mock::from_molecule(&fields, &shared).map(|mock| (mock, cells))
    }
}

/// Location of data in a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Location {
    Input(usize),
    CellDep(usize),
}

impl Location {
    /// The path of its digest in a request.
    pub(crate) fn path(self) -> String {
        match self {
            Self::Input(at) => format!("inputs[{at}].data_sha256"),
            Self::CellDep(at) => format!("cell_deps[{at}].cell.data_sha256"),
        }
    }
}

/// Properties of a hot cell that a transaction needs.
pub(crate) fn shared(cell: &HotCell) -> SharedData {
    SharedData { data: cell.bytes.clone(), data_hash: cell.data_hash }
}

/// The index of hot data in `cells`, adding it if needed.
fn number_of(data: &DataPart, cells: &mut Vec<Arc<HotCell>>) -> Option<u32> {
    let (DataPart::Hot(cell) | DataPart::Named(cell)) = data else { return None };
    let known = cells.iter().position(|other| Arc::ptr_eq(other, cell));
    let number = known.unwrap_or_else(|| {
        cells.push(cell.clone());
        cells.len() - 1
    });
    u32::try_from(number).ok()
}

fn fields(cell: &CellPart, number: Option<u32>) -> CellFields<'_> {
    let data = match (&cell.data, number) {
        (_, Some(number)) => CellData::Shared(number),
        (DataPart::Inline(data), None) => CellData::Inline(data),
        // Callers resolve all of them first.
        (DataPart::Stored(_) | DataPart::Hot(_) | DataPart::Named(_), None) => CellData::Shared(u32::MAX),
    };
    CellFields { output: &cell.output, data, block_hash: cell.block_hash }
}
