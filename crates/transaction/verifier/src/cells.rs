//! The cells, headers and extensions that scripts can read in addition to their transaction, through ckb's
//! own traits.

use std::{collections::HashMap, sync::Arc};

use antares_transaction::{Mock, SharedData};
use ckb_traits::{CellDataProvider, ExtensionProvider, HeaderProvider};
use ckb_types::{
    bytes::Bytes,
    core::{
        EpochNumberWithFraction, HeaderView, TransactionInfo,
        cell::{CellMeta, CellProvider, CellStatus, HeaderChecker},
        error::OutPointError,
    },
    packed::{self, Byte32, CellOutput, OutPoint},
    prelude::*,
};

/// The cells and headers of one transaction. Cheap to clone.
#[derive(Clone)]
pub struct Cells(Arc<Tables>);

struct Tables {
    cells: HashMap<[u8; OutPoint::TOTAL_SIZE], CellMeta>,
    headers: HashMap<[u8; 32], HeaderView>,
    extensions: HashMap<[u8; 32], packed::Bytes>,
}

impl Cells {
    /// Builds the tables of `mock`, which was checked to be complete. If a cell is present both as code and
    /// as a group, the first entry is used.
    pub(crate) fn new(mock: &Mock) -> Self {
        let info = &mock.as_ckb().mock_info;
        let mut cells = HashMap::new();
        for (index, dep) in info.cell_deps.iter().enumerate() {
            let out_point = dep.cell_dep.out_point();
            cells.entry(out_point_key(&out_point)).or_insert_with(|| {
                let data = SharedData { data: dep.data.clone(), data_hash: mock.dep_data_hash(index) };
                cell(out_point, &dep.output, data, dep.header.as_ref())
            });
        }
        for (index, input) in info.inputs.iter().enumerate() {
            let out_point = input.input.previous_output();
            cells.entry(out_point_key(&out_point)).or_insert_with(|| {
                let data = SharedData { data: input.data.clone(), data_hash: mock.input_data_hash(index) };
                cell(out_point, &input.output, data, input.header.as_ref())
            });
        }
        let headers = info.header_deps.iter().map(|header| (header.hash().into(), header.clone()));
        let extensions =
            info.extensions.iter().map(|(hash, bytes)| (hash.clone().into(), bytes.clone().into()));
        Self(Arc::new(Tables { cells, headers: headers.collect(), extensions: extensions.collect() }))
    }

    fn get(&self, out_point: &OutPoint) -> Option<&CellMeta> {
        self.0.cells.get(&out_point_key(out_point))
    }
}

fn cell(out_point: OutPoint, output: &CellOutput, data: SharedData, block_hash: Option<&Byte32>) -> CellMeta {
    // Scripts can only query the block's hash; the other values are those of ckb-mock-tx-types.
    let epoch = EpochNumberWithFraction::new(0, 0, 1800);
    let block_hash = block_hash.cloned().unwrap_or_default();
    CellMeta {
        cell_output: output.clone(),
        out_point,
        transaction_info: Some(TransactionInfo::new(0, epoch, block_hash, 0)),
        data_bytes: data.data.len() as u64,
        mem_cell_data_hash: Some(data.data_hash.into()),
        mem_cell_data: Some(data.data),
    }
}

fn out_point_key(out_point: &OutPoint) -> [u8; OutPoint::TOTAL_SIZE] {
    let mut key = [0; OutPoint::TOTAL_SIZE];
    key.copy_from_slice(out_point.as_slice());
    key
}

fn hash_key(hash: &Byte32) -> [u8; 32] {
    hash.clone().into()
}

impl CellProvider for Cells {
    fn cell(&self, out_point: &OutPoint, _eager_load: bool) -> CellStatus {
        self.get(out_point).cloned().map_or(CellStatus::Unknown, CellStatus::live_cell)
    }
}

impl HeaderChecker for Cells {
    fn check_valid(&self, block_hash: &Byte32) -> Result<(), OutPointError> {
        match self.0.headers.contains_key(&hash_key(block_hash)) {
            true => Ok(()),
            false => Err(OutPointError::InvalidHeader(block_hash.clone())),
        }
    }
}

impl CellDataProvider for Cells {
    fn get_cell_data(&self, out_point: &OutPoint) -> Option<Bytes> {
        self.get(out_point)?.mem_cell_data.clone()
    }

    fn get_cell_data_hash(&self, out_point: &OutPoint) -> Option<Byte32> {
        self.get(out_point)?.mem_cell_data_hash.clone()
    }
}

impl HeaderProvider for Cells {
    fn get_header(&self, hash: &Byte32) -> Option<HeaderView> {
        self.0.headers.get(&hash_key(hash)).cloned()
    }
}

impl ExtensionProvider for Cells {
    fn get_block_extension(&self, hash: &Byte32) -> Option<packed::Bytes> {
        self.0.extensions.get(&hash_key(hash)).cloned()
    }
}
