//! Cell data that many transactions use: named by digest, and uploaded to servers that lack it.

use std::collections::HashMap;

use antares_proto::v1;
use bytes::Bytes;
use tonic::Status;

use crate::{
    naming::{Naming, digest},
    upload::Upload,
};

/// Digests per query to a server.
const DIGESTS_MAX: usize = 256;

/// Data removed from cells, by its digest in hex.
#[derive(Clone, Debug, Default)]
pub struct Blobs(HashMap<String, Bytes>);

impl Blobs {
    /// Replaces cell data of at least `bytes_min` by digests.
    pub fn take_from<'a>(
        &mut self,
        cells: impl IntoIterator<Item = &'a mut v1::CellFields>,
        bytes_min: usize,
    ) {
        for cell in cells {
            if cell.data.len() >= bytes_min && cell.data_sha256.is_none() {
                let data = std::mem::take(&mut cell.data);
                let digest = digest(&data);
                cell.data_sha256 = Some(digest.clone());
                self.0.insert(digest, data);
            }
        }
    }

    /// Restores the data.
    pub(crate) fn put_into(&self, cells: &mut [v1::CellDepFields]) {
        for cell in cells.iter_mut().filter_map(|dep| dep.cell.as_mut()) {
            if let Some(data) = cell.data_sha256.as_ref().and_then(|digest| self.0.get(digest)) {
                (cell.data, cell.data_sha256) = (data.clone(), None);
            }
        }
    }

    /// Whether no data was removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Uploads with `send` what the server of `upload` lacks; returns the naming from then on.
    ///
    /// # Errors
    /// The server's error, also from `send`.
    pub async fn upload_missing_blobs<F>(
        &self,
        upload: impl Fn() -> Upload,
        send: impl Fn(Bytes) -> F,
    ) -> Result<Naming, Status>
    where
        F: Future<Output = Result<Naming, Status>>,
    {
        let digests: Vec<String> = self.0.keys().cloned().collect();
        for script_sha256 in digests.chunks(DIGESTS_MAX) {
            let asked = v1::FindMissingRequest { script_sha256: script_sha256.to_vec() };
            let upload = upload();
            let missing = upload.client().find_missing(upload.request(asked)).await?.into_inner();
            for data in missing.missing_sha256.iter().filter_map(|digest| self.0.get(digest)) {
                if send(data.clone()).await? == Naming::Inline {
                    return Ok(Naming::Inline);
                }
            }
        }
        Ok(Naming::Digest)
    }
}

/// The cells of cell deps.
pub(crate) fn cells_of(deps: &mut [v1::CellDepFields]) -> impl Iterator<Item = &mut v1::CellFields> {
    deps.iter_mut().filter_map(|dep| dep.cell.as_mut())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCE_BYTES_MIN: usize = 1_000;

    #[test]
    fn large_data_is_named_and_can_be_put_back() {
        let cell = |bytes: usize| v1::CellDepFields {
            cell: Some(v1::CellFields { data: vec![7; bytes].into(), ..Default::default() }),
            ..Default::default()
        };
        let whole = vec![cell(REFERENCE_BYTES_MIN), cell(1), v1::CellDepFields::default()];
        let (mut blobs, mut cells) = (Blobs::default(), whole.clone());
        blobs.take_from(cells_of(&mut cells), REFERENCE_BYTES_MIN);
        let named: Vec<_> = cells.iter().map(|dep| dep.cell.as_ref().map(|cell| cell.data.len())).collect();
        assert_eq!(named, [Some(0), Some(1), None]);
        let name = cells[0].cell.as_ref().unwrap().data_sha256.clone();
        assert_eq!(name, Some(digest(&vec![7; REFERENCE_BYTES_MIN])));
        blobs.put_into(&mut cells);
        assert_eq!(cells, whole);
    }
}
