//! Transactions that share cells, in batches and sessions: each verdict equals that of a separate call,
//! whatever happens to others or to its session.

use std::collections::HashSet;

use antares_proto::v1::{
    self, Tier, VerifyOutcome, shared_transaction, shared_transaction_result::Result as Outcome,
    verify_session_request::Message, verify_session_response::Message as Told,
    verify_transaction_request::Transaction,
};
use bytes::Bytes;
use ckb_types::{core::ScriptHashType, packed, prelude::*};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::{
    client::{Client, assembled, is, locked, reason, serving},
    server::{PATIENCE, signal, until},
    transactions::fields,
};

/// Bytes of a cell that is not a program.
const BLOB_BYTES: usize = 1 << 20;

/// A lock that counts down from the first two bytes of the witness, and exits with the first.
fn lock() -> Vec<u8> {
    let text = "addi sp, sp, -16\nli t0, 2\nsd t0, 0(sp)\naddi a0, sp, 8\nmv a1, sp\nli a2, 0\nli a3, 0\nli a4, 1\n\
        li a7, 2074\necall\nlhu t1, 8(sp)\naddi t1, t1, 1\n1: addi t1, t1, -1\nbnez t1, 1b\nlb a0, 8(sp)\n\
        li a7, 93\necall\n";
    assembled(text)
}

/// Transactions of one lock with different witnesses.
struct Transactions {
    whole: v1::TransactionFields,
}

impl Transactions {
    fn new(lock: &[u8]) -> Self {
        let deps = [Bytes::copy_from_slice(lock), vec![7; BLOB_BYTES].into()];
        Self { whole: fields(&locked(&deps, ScriptHashType::Data1)) }
    }

    fn shared(&self) -> v1::VerifyShared {
        v1::VerifyShared { cell_deps: self.whole.cell_deps.clone(), ..Default::default() }
    }

    fn alone(&self, number: u64) -> v1::TransactionFields {
        let witness = packed::Bytes::from(u16::try_from(number).unwrap().to_le_bytes().to_vec());
        let tx = packed::Transaction::from_slice(&self.whole.tx).unwrap();
        let tx = tx.as_builder().witnesses(vec![witness]).build();
        v1::TransactionFields { tx: Bytes::copy_from_slice(tx.as_slice()), ..self.whole.clone() }
    }

    fn whole(&self, number: u64) -> v1::VerifyTransactionRequest {
        let transaction = Some(Transaction::Fields(self.alone(number)));
        v1::VerifyTransactionRequest { transaction, ..Default::default() }
    }

    fn one(&self, number: u64) -> v1::SharedTransaction {
        let fields = v1::TransactionFields { cell_deps: Vec::new(), ..self.alone(number) };
        v1::SharedTransaction {
            id: number,
            transaction: Some(shared_transaction::Transaction::Fields(fields)),
            cell_deps: vec![0, 1],
            ..Default::default()
        }
    }
}

fn code(number: u64) -> i32 {
    i32::from(number.to_le_bytes()[0].cast_signed())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_one_transaction_of_a_batch_touches_no_other() {
    let (_data, _server, mut client) = serving("").await;
    let transactions = Transactions::new(&lock());
    let mut batch = v1::VerifyBatchRequest {
        shared: Some(transactions.shared()),
        transactions: (0..40).map(|number| transactions.one(number)).collect(),
    };
    batch.transactions[3].cell_deps = vec![0, 2];
    batch.transactions[4].cell_deps = vec![0];
    batch.transactions[5].transaction = None;
    batch.transactions[6].cell_deps.clear();
    let Some(shared_transaction::Transaction::Fields(fields)) = &mut batch.transactions[6].transaction else {
        panic!("fields")
    };
    fields.cell_deps = transactions.whole.cell_deps.clone();
    fields.cell_deps[1].cell.as_mut().unwrap().data = Bytes::new();
    fields.cell_deps[1].cell.as_mut().unwrap().data_sha256 = Some("ab".repeat(32));
    let answer = client.runner.verify_batch(batch).await.unwrap().into_inner();
    let ids: Vec<_> = answer.results.iter().map(|result| result.id).collect();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
    let mut errors = Vec::new();
    for result in answer.results {
        match result.result.unwrap() {
            Outcome::Response(response) => assert_eq!(response.groups[0].exit_code, Some(code(result.id))),
            Outcome::Error(error) => errors.push((result.id, error)),
        }
    }
    let reported: Vec<_> = errors.iter().map(|(id, error)| (*id, error.reason.as_str())).collect();
    let expected =
        [(3, "REQUEST_INVALID"), (4, "TRANSACTION_INVALID"), (5, "REQUEST_INVALID"), (6, "SCRIPT_NOT_FOUND")];
    assert_eq!(reported, expected);
    assert_eq!(errors[0].1.violations[0].field, "cell_deps[1]");
    assert!(
        errors.iter().all(|(_, error)| error.retry_after_ms.is_none() && !error.status_details.is_empty())
    );
}

/// Transactions that run up to their limits, and their shared part.
fn endless() -> (Transactions, v1::VerifyShared) {
    let endless = Transactions::new(&assembled("1: j 1b\n"));
    let shared = v1::VerifyShared {
        limits: Some(v1::RunLimits { max_cycles: Some(1_000_000_000_000), ..Default::default() }),
        tier: Tier::Interpreter.into(),
        ..endless.shared()
    };
    (endless, shared)
}

type Messages = mpsc::Sender<v1::VerifySessionRequest>;

/// A started session.
pub(crate) async fn open(
    client: &Client,
    shared: v1::VerifyShared,
) -> (Messages, Streaming<v1::VerifySessionResponse>) {
    let (sender, messages) = mpsc::channel(1024);
    send(&sender, Message::Start(shared)).await;
    let answers = client.runner.clone().verify_session(ReceiverStream::new(messages)).await;
    let mut reported = answers.unwrap().into_inner();
    let first = timeout(PATIENCE, reported.message()).await.unwrap().unwrap().unwrap();
    assert!(matches!(first.message, Some(Told::Started(started)) if started.transactions_max > 0));
    (sender, reported)
}

pub(crate) async fn send(sender: &Messages, message: Message) {
    sender.send(v1::VerifySessionRequest { message: Some(message) }).await.unwrap();
}

pub(crate) async fn result(
    reported: &mut Streaming<v1::VerifySessionResponse>,
) -> v1::SharedTransactionResult {
    let next = timeout(PATIENCE, reported.message()).await.unwrap().unwrap().unwrap();
    let Some(Told::Result(result)) = next.message else { panic!("{next:?}") };
    result
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_given_up_ends_and_the_session_goes_on() {
    let (_data, _server, client) = serving("[runner]\nworkers_max = 1\n").await;
    let (endless, shared) = endless();
    let (sender, mut reported) = open(&client, shared).await;
    // The first keeps the only worker busy; the others wait for it.
    for number in 0..3 {
        send(&sender, Message::Transaction(endless.one(number))).await;
    }
    for number in [1, 0, 2, 7] {
        send(&sender, Message::Cancel(number)).await;
    }
    let mut given_up = HashSet::new();
    for _ in 0..3 {
        let result = result(&mut reported).await;
        let Some(Outcome::Error(error)) = result.result else { panic!("{result:?}") };
        assert_eq!(error.code, i32::from(Code::Cancelled));
        given_up.insert(result.id);
    }
    assert_eq!(given_up, HashSet::from([0, 1, 2]));
    // The worker and the number are free again.
    let mut over = endless.one(0);
    over.transaction = None;
    send(&sender, Message::Transaction(over)).await;
    assert!(
        matches!(result(&mut reported).await.result, Some(Outcome::Error(error)) if error.reason == "REQUEST_INVALID")
    );
    drop(sender);
    assert!(timeout(PATIENCE, reported.message()).await.unwrap().unwrap().is_none());
    let mut alone = Transactions::new(&lock()).whole(3);
    alone.tier = Tier::Interpreter.into();
    let alone = client.verify(alone).await.unwrap();
    assert_eq!(alone.groups[0].exit_code, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_there_is_room_for_waits_and_is_not_refused() {
    let (_data, _server, client) = serving("[runner]\nworkers_max = 1\nqueue_max = 1\n").await;
    let transactions = Transactions::new(&lock());
    let (sender, mut reported) = open(&client, transactions.shared()).await;
    for number in 0..100 {
        send(&sender, Message::Transaction(transactions.one(number))).await;
    }
    // A pending number cannot be reused; earlier transactions are still answered.
    let mut ids = HashSet::new();
    while ids.len() < 100 {
        let result = result(&mut reported).await;
        let Some(Outcome::Response(response)) = result.result else { panic!("{result:?}") };
        assert_eq!(response.groups[0].exit_code, Some(code(result.id)));
        let expected = if code(result.id) == 0 { VerifyOutcome::Ok } else { VerifyOutcome::Failed };
        assert_eq!(response.outcome(), expected);
        assert!(ids.insert(result.id));
    }
    send(&sender, Message::Start(v1::VerifyShared::default())).await;
    let status = timeout(PATIENCE, reported.message()).await.unwrap().unwrap_err();
    is(&status, Code::InvalidArgument, "REQUEST_INVALID");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_caller_and_so_does_all_that_it_has_in_progress() {
    // Nothing else ends it during the test.
    let (_data, server, client) = serving("[runner]\ndeadline_ms_max = 600000\ncall_ms_max = 600000\n").await;
    let (endless, shared) = endless();
    let (sender, reported) = open(&client, shared).await;
    for number in 0..8 {
        send(&sender, Message::Transaction(endless.one(number))).await;
    }
    until("one runs", || server.busy() > 0.5);
    drop((sender, reported));
    until("all workers are free", || server.busy() < 0.5);
}

/// The end of a session, and the numbers answered before.
async fn end(reported: &mut Streaming<v1::VerifySessionResponse>) -> (Status, Vec<u64>) {
    let mut ids = Vec::new();
    loop {
        match timeout(PATIENCE, reported.message()).await.unwrap() {
            Ok(Some(v1::VerifySessionResponse { message: Some(Told::Result(result)) })) => {
                assert!(matches!(result.result, Some(Outcome::Response(_))), "{result:?}");
                ids.push(result.id);
            }
            Ok(other) => panic!("{other:?}"),
            Err(status) => return (status, ids),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_has_no_time_for_is_given_back_and_has_no_result() {
    let limits = "[runner]\nworkers_max = 1\ncall_ms_max = 2000\ndeadline_ms_max = 2000\n";
    let (_data, _server, client) = serving(limits).await;
    let (endless, shared) = endless();
    for _ in 0..3 {
        let (sender, mut reported) = open(&client, shared.clone()).await;
        for number in 0..8 {
            send(&sender, Message::Transaction(endless.one(number))).await;
        }
        let (status, ids) = end(&mut reported).await;
        assert_eq!((status.code(), ids), (Code::DeadlineExceeded, vec![]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_sessions_behind_their_last_answers() {
    let (_data, server, client) = serving("[runner]\nworkers_max = 1\n").await;
    let (endless, mut shared) = endless();
    shared.limits.as_mut().unwrap().deadline_ms = Some(10_000);
    let (_idle, mut idle_reported) = open(&client, shared.clone()).await;
    let (sender, mut reported) = open(&client, shared).await;
    send(&sender, Message::Transaction(endless.one(7))).await;
    until("it runs", || server.busy() > 0.5);
    signal("-TERM", server.pid());
    let (status, ids) = end(&mut idle_reported).await;
    assert!(server.busy() > 0.5, "nothing was waited for");
    assert_eq!((status.code(), reason(&status), ids), (Code::Unavailable, String::new(), vec![]));
    let (status, ids) = end(&mut reported).await;
    assert_eq!((status.code(), reason(&status), ids), (Code::Unavailable, String::new(), vec![7]));
}
