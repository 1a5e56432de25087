//! The transfer form of a transaction for workers: its molecule-encoded parts in postcard; data outside of
//! the document is referenced by number.

use std::collections::HashMap;

use ckb_types::{bytes::Bytes, packed::Byte32, prelude::*};
use serde::{Deserialize, Serialize};

use crate::{CellData, CellFields, DepFields, Fields, Mock, MockError, SharedData, mock::record_copied};

/// Space for most documents without reallocation.
const DOCUMENT_BYTES: usize = 2 << 10;

/// Returns the number under which cell data with this hash is available outside of the document, if it is.
pub type Share<'a> = dyn FnMut(&[u8; 32]) -> Option<u32> + 'a;

#[derive(Serialize, Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    fields: Fields<'a>,
    header_hashes: Vec<[u8; 32]>,
}

impl Mock {
    /// The transaction for a worker. Only data with a known hash can be outside of the document.
    pub fn document(&self, share: &mut Share<'_>) -> Vec<u8> {
        let (tx, info) = (&self.as_ckb().tx, &self.as_ckb().mock_info);
        let places = info.inputs.iter().zip(0..).map(|(input, at)| (input.input.as_slice(), at));
        let places: HashMap<&[u8], usize> = places.collect();
        // `check` guarantees that each cell exists. They are written in the order of the transaction.
        let spent = tx.raw().inputs().into_iter().filter_map(|input| places.get(input.as_slice()).copied());
        let inputs = spent.map(|at| {
            let cell = &info.inputs[at];
            let data = known_data(&cell.data, &self.known_hashes().inputs[at], share);
            CellFields { output: cell.output.as_slice(), data, block_hash: cell.header.as_ref().map(bytes) }
        });
        let inputs = inputs.collect();
        let out_points: Vec<_> = info.cell_deps.iter().map(|dep| dep.cell_dep.out_point()).collect();
        let cell_deps = info.cell_deps.iter().zip(&out_points).enumerate().map(|(at, (dep, out_point))| {
            let data = known_data(&dep.data, &self.known_hashes().cell_deps[at], share);
            let block_hash = dep.header.as_ref().map(bytes);
            let cell = CellFields { output: dep.output.as_slice(), data, block_hash };
            DepFields { out_point: out_point.as_slice(), cell_dep: Some(dep.cell_dep.as_slice()), cell }
        });
        let cell_deps = cell_deps.collect();
        let headers: Vec<_> = info.header_deps.iter().map(|header| header.data()).collect();
        let fields = Fields {
            tx: tx.as_slice(),
            inputs,
            cell_deps,
            headers: headers.iter().map(|header| header.as_slice()).collect(),
            extensions: info.extensions.iter().map(|(hash, extension)| (bytes(hash), &**extension)).collect(),
        };
        let header_hashes = info.header_deps.iter().map(|header| bytes(&header.hash())).collect();
        let document = Document { fields, header_hashes };
        let document = postcard::to_extend(&document, Vec::with_capacity(DOCUMENT_BYTES));
        let document = document.expect("writing to memory does not fail, and all lengths are known");
        record_copied(document.len());
        document
    }

    /// Reads the result of [`Mock::document`].
    ///
    /// # Errors
    /// Like [`Mock::from_molecule`].
    pub fn from_document(document: &[u8], shared: &[SharedData]) -> Result<Self, MockError> {
        let Document { fields, header_hashes } = postcard::from_bytes(document).map_err(|error| {
            MockError::Molecule { path: "transaction".to_owned(), detail: error.to_string() }
        })?;
        Self::from_parts(&fields, shared, &header_hashes)
    }

    /// Cell data without a known hash that satisfies `is_wanted`; each entry once.
    pub fn unhashed(&self, is_wanted: impl Fn(&Bytes) -> bool) -> Vec<Bytes> {
        let (info, known) = (&self.as_ckb().mock_info, self.known_hashes());
        let data = info.inputs.iter().map(|input| &input.data);
        let data = data.chain(info.cell_deps.iter().map(|dep| &dep.data));
        let all = data.zip(known.inputs.iter().chain(&known.cell_deps));
        all.filter(|(data, hash)| hash.is_none() && is_wanted(data)).map(|(data, _)| data.clone()).collect()
    }

    /// Replaces cell data without a known hash by shared data. `found` returns the shared data and its hash
    /// for data that it recognizes, for example by address.
    pub fn take_shared(&mut self, found: impl Fn(&Bytes) -> Option<SharedData>) {
        for (data, hash) in self.cells_mut().filter(|(_, hash)| hash.is_none()) {
            if let Some(shared) = found(data) {
                (*data, *hash) = (shared.data, Some(shared.data_hash));
            }
        }
    }
}

/// Whether both are the same bytes in memory. [`Mock::take_shared`] can thus recognize data from
/// [`Mock::unhashed`].
#[must_use]
pub fn is_same_memory(one: &Bytes, other: &Bytes) -> bool {
    (one.as_ptr(), one.len()) == (other.as_ptr(), other.len())
}

/// The data of a cell, by reference if its hash is known and shared.
fn known_data<'a>(data: &'a Bytes, hash: &Option<[u8; 32]>, share: &mut Share<'_>) -> CellData<'a> {
    let number = hash.as_ref().and_then(share);
    number.map_or(CellData::Inline(data), CellData::Shared)
}

fn bytes(hash: &Byte32) -> [u8; 32] {
    hash.clone().into()
}
