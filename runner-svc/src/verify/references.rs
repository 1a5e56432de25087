//! Replaces cell data that is named by an upload's digest with hot cells, without copies.

use std::{collections::HashSet, sync::Arc, time::Instant};

use antares_serve::{HeldBytes, RequestBytes};
use antares_transaction::limits::TRANSACTION_BYTES_MAX;
use tonic::Status;

use crate::{
    ended::ExecuteError,
    grpc::status::{cell_data_fault, transaction_fault},
    source::SourceError,
    verify::{
        hot_cells::HotCells,
        lookup::Lookups,
        order::VerifyOrder,
        parts::{DataPart, Source},
    },
};

/// Budget of calls in progress for data that they name. Calls that use a cell concurrently share its charge.
#[derive(Debug, Default)]
pub(crate) struct Held {
    _own: HeldBytes,
    _shared: Vec<Arc<HeldBytes>>,
}

/// Hot cells, and the node for cells of bare transactions.
pub(crate) struct Cells {
    pub(crate) hot: HotCells,
    pub(crate) lookups: Lookups,
}

impl Cells {
    /// Finds the data that the transaction of `order` names. The answer charges it to `room`: data that
    /// leaves the hot set stays in memory for it.
    pub(crate) async fn resolve(
        &self,
        order: &mut VerifyOrder,
        room: Option<&RequestBytes>,
    ) -> Result<Held, Status> {
        let started = Instant::now();
        let held = RequestBytes::hold(room, 0)?;
        if let Source::Bare(bare, format) = &order.source {
            let parts = self.lookups.parts(&order.tenant, bare.clone(), *format).await?;
            held.grow(parts.bytes())?;
            order.source = Source::Parts(Box::new(parts));
        }
        let account = &order.tenant.account;
        let Source::Parts(parts) = &mut order.source else { return Ok(Held::default()) };
        let (mut total, mut known, mut shared) = (0_u64, HashSet::new(), Vec::new());
        let mut missing = None;
        for (place, data) in parts.data_mut() {
            // Data that was found earlier is held by its finder.
            let is_here = if let DataPart::Stored(digest) = data {
                match self.hot.get(account, *digest).await {
                    Err(SourceError::ScriptNotFound(digest)) => {
                        missing = Some((place, digest));
                        break;
                    }
                    found => *data = DataPart::Named(found.map_err(ExecuteError::from)?),
                }
                true
            } else {
                false
            };
            let (DataPart::Hot(cell) | DataPart::Named(cell)) = data else { continue };
            let bytes = cell.sealed.len();
            total = total.saturating_add(bytes);
            if total > TRANSACTION_BYTES_MAX as u64 {
                let path = place.path();
                let problem =
                    format!("{path}: more than {TRANSACTION_BYTES_MAX} bytes with what the digests name");
                return Err(transaction_fault(&path, &problem).into());
            }
            if !is_here {
                continue;
            }
            if known.insert(cell.sealed.digest()) {
                shared.push(cell.hold(room)?);
            } else {
                // A short message must not become a long one for free.
                held.grow(usize::try_from(bytes).unwrap_or(usize::MAX))?;
            }
        }
        if let Some((place, digest)) = missing {
            let out_point = parts.out_point(place);
            return Err(cell_data_fault(digest, &place.path(), out_point.as_ref()).into());
        }
        order.resolving = started.elapsed();
        Ok(Held { _own: held, _shared: shared })
    }
}
