//! Parses transactions: checks them, and extracts their contents.

use std::sync::Arc;

use antares_abi::{CompileOptions, Isa};
use antares_pool::job::{GroupKind, KnownGroup, Tier};
use antares_serve::Account;
use antares_transaction::{
    Group, Mock, groups, is_program, is_same_memory,
    limits::{PROGRAMS_MAX, SHARED_BYTES_MIN},
    programs,
};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tracing::Span;

use crate::{
    ended::ExecuteError,
    limits::READ_AT_ONCE_BYTES,
    verify::{
        attempt::{Settings, Transaction},
        hot_cells::HotCell,
        hot_programs::Met,
        order::VerifyOrder,
        parts::{Source, shared},
        programs::{Candidate, FILES_MAX, Location},
        references::Cells,
    },
};

/// Parses transactions, a bounded number at once: each takes several times its bytes.
pub(crate) struct TransactionReader {
    pub(crate) places: Arc<Semaphore>,
    pub(crate) cells: Arc<Cells>,
    pub(crate) settings: Settings,
}

impl TransactionReader {
    /// Parses and checks the transaction, and extracts its contents. Large data and programs become hot
    /// cells.
    pub(crate) async fn read(&self, mut order: VerifyOrder) -> Result<TransactionReading, ExecuteError> {
        let field = order.source.field();
        let source = std::mem::replace(&mut order.source, Source::Json(Bytes::new()));
        let (bytes, mut named) = (source.bytes(), source.named());
        let read = move || {
            source.read().map(|(mock, cells)| {
                let groups = groups(&mock).into_iter().map(known).collect();
                (mock, cells, groups)
            })
        };
        let parsed = if bytes <= READ_AT_ONCE_BYTES {
            read()
        } else {
            // The semaphore is never closed.
            let place = self.places.clone().acquire_owned().await.map_err(|_| ExecuteError::Internal)?;
            let span = Span::current();
            let reading = tokio::task::spawn_blocking(move || {
                // Held even if the caller has gone away.
                let _place = place;
                span.in_scope(read)
            });
            // It panicked; the hook has logged where.
            reading.await.map_err(|_| ExecuteError::Internal)?
        };
        let (mut mock, mut cells, groups) = parsed.map_err(|error| ExecuteError::Transaction {
            field: error.path().unwrap_or(field).to_owned(),
            problem: error.to_string(),
        })?;
        let known = cells.len();
        self.share(&order.tenant.account, &mut mock, &mut cells).await?;
        named.retain(|named| cells[known..].iter().all(|sent| sent.data_hash != *named));
        let candidates = if order.tier == Tier::Interpreter {
            Vec::new()
        } else {
            candidates(&order, &mock, &cells, &named)
        };
        let files = FILES_MAX - candidates.len();
        let transaction = Transaction::new(order, (&mock, groups), cells, files, self.settings).await?;
        Ok(TransactionReading { transaction, candidates })
    }

    /// Makes hot cells of inline data that is large enough.
    async fn share(
        &self,
        account: &Account,
        mock: &mut Mock,
        cells: &mut Vec<Arc<HotCell>>,
    ) -> Result<(), ExecuteError> {
        let is_wanted = |data: &Bytes| data.len() >= SHARED_BYTES_MIN || is_program(data);
        let mut found: Vec<(Bytes, Arc<HotCell>)> = Vec::new();
        for data in mock.unhashed(is_wanted) {
            if found.len() < FILES_MAX && !found.iter().any(|(known, _)| is_same_memory(known, &data)) {
                found.push((data.clone(), self.cells.hot.keep(account, data).await?));
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        mock.take_shared(|data| {
            let cell = found.iter().find(|(known, _)| is_same_memory(known, data)).map(|(_, cell)| cell)?;
            Some(shared(cell))
        });
        cells.extend(found.into_iter().map(|(_, cell)| cell));
        Ok(())
    }
}

/// A group, for checking workers' reports.
fn known(Group { script_hash, is_type, inputs, outputs }: Group) -> KnownGroup {
    let kind = if is_type { GroupKind::Type } else { GroupKind::Lock };
    KnownGroup { script_hash, kind, inputs, outputs }
}

/// Contents of a transaction, before any run.
pub(crate) struct TransactionReading {
    pub(crate) transaction: Transaction,
    /// Programs worth compiling.
    pub(crate) candidates: Vec<Candidate>,
}

fn candidates(
    order: &VerifyOrder,
    mock: &Mock,
    cells: &[Arc<HotCell>],
    named: &[[u8; 32]],
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for program in programs(mock, &order.environment) {
        let hot = cells.iter().find(|cell| cell.data_hash == program.data_hash);
        let digest = hot.map_or_else(|| antares_pool::digest(&program.elf), |cell| cell.sealed.digest());
        for vm_version in program.vm_versions {
            let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
            let (place, elf) = (Location::Cell(program.data_hash), program.elf.clone());
            let is_sent = !named.contains(&program.data_hash);
            candidates.push(Candidate { place, digest, elf, is_sent, options });
        }
    }
    candidates.truncate(PROGRAMS_MAX);
    candidates
}

/// Their transaction, for other programs that turn out to be hot in it.
pub(crate) fn met(candidates: &[Candidate]) -> Met {
    let mut met = Met::default();
    for candidate in candidates {
        if let Location::Cell(data_hash) = candidate.place {
            met.cells.push(data_hash);
        }
        met.digests.push(candidate.digest);
        if !met.options.contains(&candidate.options) {
            met.options.push(candidate.options);
        }
    }
    met
}
