//! Data of cells that many transactions use: named by digest, and brought to a server that has not got it.

use std::{collections::HashMap, time::Instant};

use antares_proto::v1::{self, compiler_service_client::CompilerServiceClient};
use bytes::Bytes;
use tonic::Status;

use crate::{
    bring::bring_once,
    call::Link,
    naming::{Naming, digest},
    status::{reason, takes_no_uploads},
};

/// Data of a cell from which on it is named by digest, bytes.
const REFERENCE_BYTES_MIN: usize = 4 << 10;

/// Digests that a server is asked for at once.
const ASKED_MAX: usize = 256;

/// Data that was taken out of cells, by its digest in hex.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blobs(HashMap<String, Bytes>);

impl Blobs {
    /// Names the data of large cells by digest.
    pub(crate) fn take_from(&mut self, cells: &mut [v1::CellDepFields]) {
        for cell in cells.iter_mut().filter_map(|dep| dep.cell.as_mut()) {
            if cell.data.len() >= REFERENCE_BYTES_MIN && cell.data_sha256.is_none() {
                let data = std::mem::take(&mut cell.data);
                let digest = digest(&data);
                cell.data_sha256 = Some(digest.clone());
                self.0.insert(digest, data);
            }
        }
    }

    /// Puts the data back.
    pub(crate) fn put_into(&self, cells: &mut [v1::CellDepFields]) {
        for cell in cells.iter_mut().filter_map(|dep| dep.cell.as_mut()) {
            if let Some(data) = cell.data_sha256.as_ref().and_then(|digest| self.0.get(digest)) {
                (cell.data, cell.data_sha256) = (data.clone(), None);
            }
        }
    }

    /// How to name the data from now on, if some was missing there for a call that `began` then; the error is
    /// that of an upload.
    pub(crate) async fn bring(
        &self,
        link: &Link,
        status: &Status,
        began: Instant,
    ) -> Option<Result<Naming, Status>> {
        match reason(status)?.as_str() {
            _ if self.0.is_empty() => None,
            // A runner without its compiler can still verify what a call brings along.
            "SOURCE_UNAVAILABLE" => Some(Ok(Naming::Inline)),
            "SCRIPT_NOT_FOUND" => Some(self.bring_missing(link, began).await),
            _ => None,
        }
    }

    async fn bring_missing(&self, link: &Link, began: Instant) -> Result<Naming, Status> {
        let digests: Vec<String> = self.0.keys().cloned().collect();
        for script_sha256 in digests.chunks(ASKED_MAX) {
            let asked = v1::FindMissingRequest { script_sha256: script_sha256.to_vec() };
            let mut compiler = CompilerServiceClient::new(link.server.channel());
            let missing = match compiler.find_missing(link.request(asked)).await {
                Ok(answer) => answer.into_inner().missing_sha256,
                Err(status) if takes_no_uploads(&status) => return Ok(Naming::Inline),
                Err(status) => return Err(status),
            };
            for data in missing.iter().filter_map(|digest| self.0.get(digest)) {
                if bring_once(link, data, began).await? == Naming::Inline {
                    return Ok(Naming::Inline);
                }
            }
        }
        Ok(Naming::Digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_data_is_named_and_can_be_put_back() {
        let cell = |bytes: usize| v1::CellDepFields {
            cell: Some(v1::CellFields { data: vec![7; bytes].into(), ..Default::default() }),
            ..Default::default()
        };
        let whole = vec![cell(REFERENCE_BYTES_MIN), cell(1), v1::CellDepFields::default()];
        let (mut blobs, mut cells) = (Blobs::default(), whole.clone());
        blobs.take_from(&mut cells);
        let named: Vec<_> = cells.iter().map(|dep| dep.cell.as_ref().map(|cell| cell.data.len())).collect();
        assert_eq!(named, [Some(0), Some(1), None]);
        let name = cells[0].cell.as_ref().unwrap().data_sha256.clone();
        assert_eq!(name, Some(digest(&vec![7; REFERENCE_BYTES_MIN])));
        blobs.put_into(&mut cells);
        assert_eq!(cells, whole);
    }
}
