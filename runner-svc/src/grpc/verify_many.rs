//! Transactions that share cells: shared data is stored once, and each is verified on its own.

use std::{collections::HashSet, sync::Arc};

use antares_config::RunnerSection;
use antares_proto::v1::{self, shared_transaction::Transaction, verify_transaction_request as whole};
use antares_serve::{Account, Fault, HeldBytes, RequestBytes};
use bytes::Bytes;
use ckb_types::{packed::OutPoint, prelude::*};
use prost::Message as _;
use tokio::{sync::Semaphore, task::JoinSet};
use tonic::Status;
use tracing::Instrument as _;

use crate::{
    diagnosis::Budget,
    ended::ExecuteError,
    grpc::{
        convert::transaction::{dep_parts, shared_result, verify_order},
        status::{cell_data_fault, new_id},
        verify_call::VerifyCaller,
    },
    limits::{
        BATCH_RUNS_MAX, DIAGNOSES_OF_BATCH_MAX, SHARED_INLINE_BYTES_MAX, SHARED_TRANSACTIONS_MAX,
        SHARED_TRANSACTIONS_MIN,
    },
    runner::Runner,
    source::SourceError,
    verify::{
        hot_cells::Pin,
        order::VerifyOrder,
        parts::{DataPart, DepPart, Location, Source},
    },
};

/// Shared data, ready for all transactions.
struct Table {
    /// Without cells and headers.
    rules: v1::VerifyShared,
    /// Large shared data is already resolved, and stays cached during the table's lifetime.
    cell_deps: Vec<DepPart>,
    headers: Vec<Bytes>,
    _held: HeldBytes,
    /// Pins of the hot cells.
    _pins: Vec<Pin>,
}

/// Verifies transactions that share cells.
pub(crate) struct Many {
    runner: Runner,
    caller: VerifyCaller,
    table: Table,
    /// Diagnoses for all failed transactions together.
    diagnoses: Budget,
}

impl Runner {
    /// Transactions of one caller that are in progress at once, in a batch or a session.
    pub(crate) fn shared_transactions_max(&self) -> usize {
        (self.limits().workers_max * 4).clamp(SHARED_TRANSACTIONS_MIN, SHARED_TRANSACTIONS_MAX)
    }

    /// Prepares the data in `shared`.
    pub(crate) async fn many(
        &self,
        caller: VerifyCaller,
        shared: v1::VerifyShared,
        diagnoses: Budget,
    ) -> Result<Many, Status> {
        self.check(&shared)?;
        let table = self.table(&caller.tenant.account, shared, caller.room.as_ref()).await?;
        Ok(Many { runner: self.clone(), caller, table, diagnoses })
    }

    /// Checks the rules that are common to all transactions.
    fn check(&self, shared: &v1::VerifyShared) -> Result<(), Fault> {
        verify_order(with(shared, whole::Transaction::MockJson(Bytes::new())), self.limits()).map(drop)
    }

    async fn table(
        &self,
        account: &Account,
        shared: v1::VerifyShared,
        room: Option<&RequestBytes>,
    ) -> Result<Table, Status> {
        let held = RequestBytes::hold(room, shared.encoded_len())?;
        let v1::VerifyShared { cell_deps, headers, .. } = shared;
        let (mut cell_deps, mut pins) = (dep_parts(cell_deps)?, Vec::new());
        for (at, DepPart { cell, out_point }) in cell_deps.iter_mut().enumerate() {
            cell.data = match &mut cell.data {
                DataPart::Inline(data) if data.len() > SHARED_INLINE_BYTES_MAX => {
                    let kept = self.cells.hot.keep(account, std::mem::take(data)).await;
                    DataPart::Hot(kept.map_err(ExecuteError::from)?)
                }
                DataPart::Stored(digest) => {
                    let found = match self.cells.hot.get(account, *digest).await {
                        Err(SourceError::ScriptNotFound(digest)) => {
                            let (field, point) =
                                (Location::CellDep(at).path(), OutPoint::from_slice(out_point));
                            return Err(cell_data_fault(digest, &field, point.ok().as_ref()).into());
                        }
                        found => found.map_err(ExecuteError::from)?,
                    };
                    // Data in the hot set counts there, once for all sessions.
                    match self.cells.hot.pin(account, &found) {
                        Some(pin) => pins.push(pin),
                        None => held.grow(found.bytes.len())?,
                    }
                    DataPart::Named(found)
                }
                DataPart::Inline(_) | DataPart::Hot(_) | DataPart::Named(_) => continue,
            };
        }
        let rules = v1::VerifyShared { cell_deps: Vec::new(), headers: Vec::new(), ..shared };
        Ok(Table { rules, cell_deps, headers, _held: held, _pins: pins })
    }

    /// Verifies a whole batch. Results are in the order of the transactions.
    pub(crate) async fn verify_batch(
        &self,
        caller: VerifyCaller,
        request: v1::VerifyBatchRequest,
    ) -> Result<Vec<v1::SharedTransactionResult>, Status> {
        let v1::VerifyBatchRequest { shared, transactions } = request;
        check_batch(&transactions, BATCH_RUNS_MAX)?;
        let diagnoses = Budget::new(DIAGNOSES_OF_BATCH_MAX);
        let many = Arc::new(self.many(caller, shared.unwrap_or_default(), diagnoses).await?);
        let turns = Arc::new(Semaphore::new(self.shared_transactions_max()));
        let ids: Vec<_> = transactions.iter().map(|transaction| transaction.id).collect();
        let mut results = vec![None; ids.len()];
        let mut tasks = JoinSet::new();
        for (place, transaction) in transactions.into_iter().enumerate() {
            let (many, turns) = (many.clone(), turns.clone());
            let task = async move {
                // Never closed.
                let _turn = turns.acquire().await;
                let (result, held) = many.one(transaction).await;
                (place, result, held)
            };
            tasks.spawn(task.in_current_span());
        }
        let mut held = Vec::new();
        while let Some(done) = tasks.join_next().await {
            // A task that panicked has no result; the hook has logged where.
            if let Ok((place, result, bytes)) = done {
                results[place] = Some(result);
                held.push(bytes);
            }
        }
        let lost = |id| shared_result(id, Err(ExecuteError::Internal.into()));
        Ok(results.into_iter().zip(ids).map(|(result, id)| result.unwrap_or_else(|| lost(id))).collect())
    }
}

impl Many {
    /// The result of `transaction`, and its share of the byte budget.
    pub(crate) async fn one(
        &self,
        transaction: v1::SharedTransaction,
    ) -> (v1::SharedTransactionResult, HeldBytes) {
        let id = transaction.id;
        let answered = match self.table.order(transaction, self.runner.limits()) {
            Ok(mut order) => {
                order.diagnosis = order.diagnosis.map(|_| self.diagnoses.clone());
                let names = (new_id(), self.table.rules.request_id.clone());
                // Tasks are copied while they start: their largest part is boxed.
                Box::pin(self.runner.verify_order(&self.caller, order, names)).await
            }
            Err(fault) => Err(fault.into()),
        };
        self.charged(shared_result(id, answered))
    }

    /// `result`, or an error if its bytes exceed the budget.
    pub(crate) fn charged(
        &self,
        result: v1::SharedTransactionResult,
    ) -> (v1::SharedTransactionResult, HeldBytes) {
        match RequestBytes::hold(self.caller.room.as_ref(), result.encoded_len()) {
            Ok(held) => (result, held),
            Err(fault) => (shared_result(result.id, Err(fault.into())), HeldBytes::default()),
        }
    }
}

impl Table {
    /// `transaction` with its data from the table.
    fn order(
        &self,
        transaction: v1::SharedTransaction,
        limits: &RunnerSection,
    ) -> Result<VerifyOrder, Fault> {
        let v1::SharedTransaction { transaction, cell_deps, headers, group, sample_salt, format, .. } =
            transaction;
        let transaction = match transaction {
            None => return Err(wrong("transaction", "is needed: mock_json, fields or bare")),
            Some(Transaction::MockJson(json)) => whole::Transaction::MockJson(json),
            Some(Transaction::Fields(fields)) => whole::Transaction::Fields(fields),
            Some(Transaction::Bare(bare)) => whole::Transaction::Bare(bare),
        };
        let whole = with(&self.rules, transaction);
        let message = v1::VerifyTransactionRequest { group, sample_salt, format, ..whole };
        let mut order = verify_order(message, limits)?;
        match &mut order.source {
            Source::Parts(parts) => {
                parts.cell_deps.extend(found("cell_deps", &self.cell_deps, &cell_deps)?);
                parts.headers.extend(found("headers", &self.headers, &headers)?);
            }
            other => {
                for (list, is_empty) in [("cell_deps", cell_deps.is_empty()), ("headers", headers.is_empty())]
                {
                    if !is_empty {
                        return Err(wrong(list, &format!("must not be given beside {}", other.field())));
                    }
                }
            }
        }
        Ok(order)
    }
}

fn with(shared: &v1::VerifyShared, transaction: whole::Transaction) -> v1::VerifyTransactionRequest {
    v1::VerifyTransactionRequest {
        transaction: Some(transaction),
        rules: shared.rules,
        limits: shared.limits,
        tier: shared.tier,
        request_id: shared.request_id.clone(),
        recheck: shared.recheck,
        diagnosis: shared.diagnosis,
        ..v1::VerifyTransactionRequest::default()
    }
}

/// The elements at `places` of a list of the table.
fn found<T: Clone>(field: &str, list: &[T], places: &[u32]) -> Result<Vec<T>, Fault> {
    let one = |(at, place): (usize, &u32)| {
        let entry = usize::try_from(*place).ok().and_then(|place| list.get(place));
        let problem = || format!("names place {place}, and shared.{field} has {}", list.len());
        entry.cloned().ok_or_else(|| wrong(&format!("{field}[{at}]"), &problem()))
    };
    places.iter().enumerate().map(one).collect()
}

fn check_batch(transactions: &[v1::SharedTransaction], most: u64) -> Result<(), Fault> {
    if transactions.is_empty() {
        return Err(wrong("transactions", "must have at least one"));
    }
    let count = transactions.len() as u64;
    if count > most {
        return Err(wrong("transactions", &format!("must be at most {most} transactions, is {count}")));
    }
    let mut ids = HashSet::new();
    match transactions.iter().position(|transaction| !ids.insert(transaction.id)) {
        Some(at) => Err(wrong(&format!("transactions[{at}].id"), "is that of another one")),
        None => Ok(()),
    }
}

/// An error in a field of a request.
pub(crate) fn wrong(field: &str, problem: &str) -> Fault {
    Fault::field("REQUEST_INVALID", field, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let dep = |number: u8| v1::CellDepFields { out_point: Bytes::from(vec![number]), cell: None };
        let rules = v1::VerifyShared { recheck: true, ..Default::default() };
        let cell_deps = dep_parts((0..3).map(dep).collect()).unwrap();
        let headers = vec![Bytes::from_static(b"header")];
        Table { rules, cell_deps, headers, _held: HeldBytes::default(), _pins: Vec::new() }
    }

    fn order(transaction: v1::SharedTransaction) -> Result<VerifyOrder, Fault> {
        table().order(transaction, &RunnerSection::default())
    }

    fn fields(cell_deps: &[u32], headers: &[u32]) -> v1::SharedTransaction {
        let own = v1::CellDepFields { out_point: Bytes::from_static(b"own"), cell: None };
        let fields = v1::TransactionFields { cell_deps: vec![own], ..Default::default() };
        v1::SharedTransaction {
            transaction: Some(Transaction::Fields(fields)),
            cell_deps: cell_deps.to_vec(),
            headers: headers.to_vec(),
            ..Default::default()
        }
    }

    #[test]
    fn a_transaction_has_what_it_names_of_the_table() {
        let order = order(fields(&[2, 0], &[0])).unwrap();
        assert!(order.recheck);
        let Source::Parts(parts) = order.source else { panic!("parts") };
        let deps: Vec<_> = parts.cell_deps.iter().map(|dep| &dep.out_point[..]).collect();
        assert_eq!(deps, [&b"own"[..], &[2], &[0]]);
        assert_eq!(parts.headers, ["header"]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let says = |transaction| order(transaction).unwrap_err().message().to_owned();
        assert!(says(fields(&[0, 3], &[])).starts_with("cell_deps[1] names place 3"));
        assert!(says(fields(&[], &[1])).starts_with("headers[0] names place 1"));
        assert!(says(v1::SharedTransaction::default()).starts_with("transaction is needed"));
        let json = Some(Transaction::MockJson(Bytes::new()));
        let json = v1::SharedTransaction { transaction: json, cell_deps: vec![0], ..Default::default() };
        assert!(says(json).starts_with("cell_deps must not"));
        let of = |ids: &[u64]| {
            let one = |id: &u64| v1::SharedTransaction { id: *id, ..Default::default() };
            let all: Vec<_> = ids.iter().map(one).collect();
            check_batch(&all, 3).map_err(|fault| fault.message().to_owned())
        };
        assert_eq!(of(&[1, 2, 3]), Ok(()));
        assert!(of(&[]).is_err() && of(&[1, 2, 3, 4]).is_err());
        assert!(of(&[1, 2, 1]).unwrap_err().starts_with("transactions[2].id"));
    }
}
