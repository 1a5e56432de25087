//! Cells of a transaction whose data is named by digest: the bytes are put in its place.

use std::collections::{HashMap, hash_map::Entry};

use antares_abi::Sha256Digest;
use antares_proto::v1::{self, verify_transaction_request::Transaction};
use antares_serve::{Account, HeldBytes, RequestBytes};
use antares_transaction::limits::TRANSACTION_BYTES_MAX;
use bytes::Bytes;
use tonic::Status;

use crate::{ended::ExecuteError, runner::Runner, status::transaction_fault};

impl Runner {
    /// Puts stored bytes into the cells of `request` that name them. What they take is held in `room` for as long as
    /// the answer lives: a short message must not become a long one for free.
    pub(crate) async fn resolve(
        &self,
        account: &Account,
        request: &mut v1::VerifyTransactionRequest,
        room: Option<&RequestBytes>,
    ) -> Result<HeldBytes, Status> {
        let held = RequestBytes::hold(room, 0)?;
        let Some(Transaction::Fields(fields)) = &mut request.transaction else { return Ok(held) };
        let inputs = fields.inputs.iter_mut().enumerate();
        let inputs = inputs.map(|(at, cell)| (format!("inputs[{at}].data_sha256"), cell));
        let deps = fields.cell_deps.iter_mut().enumerate().filter_map(|(at, dep)| {
            dep.cell.as_mut().map(|cell| (format!("cell_deps[{at}].cell.data_sha256"), cell))
        });
        let mut total = 0;
        let mut known: HashMap<Sha256Digest, Bytes> = HashMap::new();
        for (path, cell) in inputs.chain(deps) {
            let Some(text) = cell.data_sha256.take() else { continue };
            let mistake = |problem: &str| transaction_fault(&path, &format!("{path}: {problem}"));
            if !cell.data.is_empty() {
                return Err(mistake("there is data already").into());
            }
            let digest = text.parse().map_err(|_| mistake("must be 64 hex digits"))?;
            cell.data = match known.entry(digest) {
                Entry::Occupied(found) => found.get().clone(),
                Entry::Vacant(place) => place.insert(self.stored(account, digest, &held).await?).clone(),
            };
            total += cell.data.len();
            if total > TRANSACTION_BYTES_MAX {
                let problem = format!("more than {TRANSACTION_BYTES_MAX} bytes with what the digests name");
                return Err(mistake(&problem).into());
            }
            // The worker's copy of the transaction has them once for each cell.
            held.grow(cell.data.len())?;
        }
        Ok(held)
    }

    async fn stored(
        &self,
        account: &Account,
        digest: Sha256Digest,
        held: &HeldBytes,
    ) -> Result<Bytes, Status> {
        let cell = self.shared.hot_cells.get(account, digest).await.map_err(ExecuteError::from)?;
        held.grow(cell.bytes.len())?;
        Ok(cell.bytes.clone())
    }
}
