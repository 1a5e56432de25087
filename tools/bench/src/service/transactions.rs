//! Transactions over the whole service, compared with embedded ckb-script and its assembly machine: the same
//! transactions, loop and number of threads. Requests name cells by reference; the library likewise has their
//! hashes and parses nothing twice.

use std::{
    fs,
    slice::from_ref,
    thread,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, runner_service_client::RunnerServiceClient,
    shared_transaction, upload_request, verify_transaction_request::Transaction,
};
use antares_tests::guests::debugger_examples;
use antares_transaction::{Environment, Mock, SharedData, data_hash};
use antares_verifier::{Interpreter, Prepared, StopHandle, TransactionLimits, Verifier, VerifyOutcome};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use ckb_types::{core::ScriptHashType, prelude::*};
use tonic::transport::{Channel, Endpoint};

use super::{
    Results,
    grpc::{WARM_UP, many},
    server::Server,
    sessions,
};

/// Threads of the embedded library, and clients of the service below.
pub(super) const THREADS: [usize; 2] = [1, 2];
const CLIENTS: [usize; 3] = [1, 8, 64];
const BATCH: usize = 64;
/// Alternating rounds of library and service.
pub(super) const ROUNDS: u32 = 3;
const LIMITS: TransactionLimits = TransactionLimits { cycles_max: 3_500_000_000, debug_bytes_max: 1 << 20 };

/// A part of a response's time, with its name.
type Part = (&'static str, fn(&v1::Timings) -> u64);
const PARTS: [Part; 6] = [
    ("parse", |timings| timings.parse_us),
    ("fetch", |timings| timings.fetch_us),
    ("queue", |timings| timings.queue_us),
    ("load", |timings| timings.load_us),
    ("run", |timings| timings.run_us),
    ("wall", |timings| timings.wall_us),
];

/// A transaction for the library and for the service.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) mock: Mock,
    request: v1::VerifyTransactionRequest,
}

pub(super) fn cases() -> Result<[Case; 3]> {
    Ok([signed("mock_tx")?, signed("dynamic")?, nothing()?])
}

pub(super) fn measure(time: Duration, results: &mut Results) -> Result<()> {
    let server = Server::start("transactions", "")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let channel = Endpoint::from_shared(format!("http://{}", server.address))?.connect().await?;
        for case in cases()? {
            upload(&channel, &case.mock).await?;
            one(&server, &channel, &case, time / ROUNDS, results).await.context(case.name)?;
        }
        sessions::measure(&server, &channel, time / ROUNDS, results).await.context("sessions")
    })
}

/// Measures one transaction, alternating between library and service.
async fn one(
    server: &Server,
    channel: &Channel,
    case: &Case,
    time: Duration,
    results: &mut Results,
) -> Result<()> {
    let name = case.name;
    let clients = [RunnerServiceClient::new(channel.clone())];
    let mut first = clients[0].clone();
    let until = Instant::now() + WARM_UP;
    while Instant::now() < until {
        check(&first.verify_transaction(case.request.clone()).await?.into_inner())?;
    }
    let (mut embedded, mut unary, mut batched) = ([0.0; THREADS.len()], [0.0; CLIENTS.len()], 0.0);
    let (mut times, mut parts, mut used) = (Vec::new(), [const { Vec::new() }; PARTS.len()], 0.0);
    let batch = batch(case);
    for _ in 0..ROUNDS {
        for (threads, sum) in THREADS.iter().zip(&mut embedded) {
            *sum += tokio::task::block_in_place(|| library(from_ref(&case.mock), *threads, time))?;
        }
        let until = Instant::now() + time;
        while Instant::now() < until {
            let started = Instant::now();
            let answer = first.verify_transaction(case.request.clone()).await?.into_inner();
            times.push(started.elapsed());
            check(&answer)?;
            let timings = answer.timings.unwrap_or_default();
            for (part, times) in PARTS.iter().zip(&mut parts) {
                times.push(Duration::from_micros((part.1)(&timings)));
            }
        }
        for (count, sum) in CLIENTS.iter().zip(&mut unary) {
            let (made, _, took) = many(&clients, *count, time, async |mut client| {
                check(&client.verify_transaction(case.request.clone()).await?.into_inner())
            })
            .await?;
            *sum += made / took;
        }
        let before = server.processor_seconds();
        let (made, _, took) = many(&clients, 2, time, async |mut client| {
            let answer = client.verify_batch(batch.clone()).await?.into_inner();
            answer.results.iter().try_for_each(|result| match &result.result {
                Some(v1::shared_transaction_result::Result::Response(response)) => check(response),
                other => anyhow::bail!("{other:?}"),
            })
        })
        .await?;
        batched += made * BATCH as f64 / took;
        used += (server.processor_seconds() - before) * 1e6 / (made * BATCH as f64);
    }
    let rounds = f64::from(ROUNDS);
    results.rates(THREADS, embedded, |threads| format!("{name}_library_{threads}_threads"));
    results.rates(CLIENTS, unary, |count| format!("{name}_unary_{count}"));
    results.record(format!("{name}_batched"), batched / rounds, "/s");
    results.record(format!("{name}_server_cpu_us"), used / rounds, "");
    let best = unary.into_iter().chain([batched]).fold(f64::NAN, f64::max);
    results.record(format!("{name}_over_library"), best / embedded[THREADS.len() - 1], "");
    results.latency(format!("{name}_unary"), times);
    for ((part, _), times) in PARTS.iter().zip(parts) {
        results.latency(format!("{name}_{part}"), times);
    }
    Ok(())
}

/// Verifications per second by ckb-script, from the bytes of each transaction and hashed cells.
pub(super) fn library(mocks: &[Mock], threads: usize, time: Duration) -> Result<f64> {
    let cells = shared(&mocks[0]);
    let documents: Vec<_> = mocks.iter().map(|mock| document(mock, &cells)).collect();
    rate(threads, time, |count| {
        let mock = Mock::from_document(&documents[count % documents.len()], &cells)?;
        let prepared = Prepared::new(&mock, &Environment::default())?;
        let report = Verifier::new(prepared, LIMITS, Interpreter, StopHandle::default()).verify(None)?;
        ensure!(report.outcome == VerifyOutcome::Ok, "{report:?}");
        Ok(())
    })
}

/// Verifications per second on `threads` threads; each numbers its own.
pub(super) fn rate(
    threads: usize,
    time: Duration,
    verify: impl Fn(usize) -> Result<()> + Sync,
) -> Result<f64> {
    let started = Instant::now();
    let again = || -> Result<usize> {
        let mut count = 0;
        while started.elapsed() < time {
            verify(count)?;
            count += 1;
        }
        Ok(count)
    };
    let counts = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(again)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        joined.collect::<Result<Vec<_>>>()
    })?;
    Ok(counts.iter().sum::<usize>() as f64 / started.elapsed().as_secs_f64())
}

fn document(mock: &Mock, cells: &[SharedData]) -> Vec<u8> {
    let mut mock = mock.clone();
    mock.take_shared(|data| cells.iter().find(|cell| cell.data == data).cloned());
    mock.document(&mut |hash| {
        cells.iter().zip(0..).find_map(|(cell, number)| (cell.data_hash == *hash).then_some(number))
    })
}

/// Data of all cell deps, without duplicates.
fn shared(mock: &Mock) -> Vec<SharedData> {
    let mut cells: Vec<SharedData> = Vec::new();
    for data in mock.as_ckb().mock_info.cell_deps.iter().map(|dep| &dep.data) {
        if !data.is_empty() && !cells.iter().any(|cell| cell.data == data) {
            cells.push(SharedData { data: data.clone(), data_hash: data_hash(data) });
        }
    }
    cells
}

fn signed(name: &'static str) -> Result<Case> {
    case(name, Mock::from_json(&fs::read(debugger_examples()?.join(format!("{name}.json")))?)?)
}

/// One input, with a lock that does nothing.
fn nothing() -> Result<Case> {
    let lock = super::scripts::Script::trivial()?.elf.into();
    let json = antares_chain::json(antares_chain::locked_by(&[lock], ScriptHashType::Data1));
    case("nothing", Mock::from_json(&json)?)
}

fn case(name: &'static str, mock: Mock) -> Result<Case> {
    let request = v1::VerifyTransactionRequest {
        transaction: Some(Transaction::Fields(fields(&mock))),
        ..v1::VerifyTransactionRequest::default()
    };
    Ok(Case { name, mock, request })
}

/// A transaction that names its cell deps by digest.
pub(super) fn fields(mock: &Mock) -> v1::TransactionFields {
    let (tx, info) = (&mock.as_ckb().tx, &mock.as_ckb().mock_info);
    let copied = Bytes::copy_from_slice;
    let hash = |data: &Bytes| (!data.is_empty()).then(|| Sha256Digest::of(data).to_string());
    let deps = info.cell_deps.iter().map(|dep| v1::CellDepFields {
        out_point: copied(dep.cell_dep.out_point().as_slice()),
        cell: Some(v1::CellFields {
            output: copied(dep.output.as_slice()),
            data_sha256: hash(&dep.data),
            block_hash: dep.header.as_ref().map(|hash| copied(hash.as_slice())),
            ..v1::CellFields::default()
        }),
    });
    let inputs = info.inputs.iter().map(|input| v1::CellFields {
        output: copied(input.output.as_slice()),
        data: input.data.clone(),
        block_hash: input.header.as_ref().map(|hash| copied(hash.as_slice())),
        ..v1::CellFields::default()
    });
    v1::TransactionFields {
        tx: copied(tx.as_slice()),
        inputs: inputs.collect(),
        cell_deps: deps.collect(),
        headers: info.header_deps.iter().map(|header| copied(header.data().as_slice())).collect(),
        extensions: Vec::new(),
    }
}

/// A batch of the transaction with shared cell deps.
fn batch(case: &Case) -> v1::VerifyBatchRequest {
    let transaction = |id| sharing(&case.mock, id);
    let transactions = (0..BATCH as u64).map(transaction).collect();
    v1::VerifyBatchRequest { shared: Some(common(&case.mock)), transactions }
}

/// The data that transactions like `mock` share.
pub(super) fn common(mock: &Mock) -> v1::VerifyShared {
    let v1::TransactionFields { cell_deps, headers, .. } = fields(mock);
    v1::VerifyShared { cell_deps, headers, ..v1::VerifyShared::default() }
}

/// A transaction that references everything in [`common`].
pub(super) fn sharing(mock: &Mock, id: u64) -> v1::SharedTransaction {
    let fields = fields(mock);
    let all = |count: usize| (0_u32..).take(count).collect();
    v1::SharedTransaction {
        id,
        cell_deps: all(fields.cell_deps.len()),
        headers: all(fields.headers.len()),
        transaction: Some(shared_transaction::Transaction::Fields(v1::TransactionFields {
            cell_deps: Vec::new(),
            headers: Vec::new(),
            ..fields
        })),
        ..v1::SharedTransaction::default()
    }
}

pub(super) async fn upload(channel: &Channel, mock: &Mock) -> Result<()> {
    let mut compiler = CompilerServiceClient::new(channel.clone());
    for cell in shared(mock) {
        let header = v1::BlobHeader {
            sha256: Sha256Digest::of(&cell.data).to_string(),
            size_bytes: cell.data.len() as u64,
            ..v1::BlobHeader::default()
        };
        let chunks = cell
            .data
            .chunks(256 << 10)
            .map(|chunk| upload_request::Part::Chunk(Bytes::copy_from_slice(chunk)));
        let parts: Vec<_> = std::iter::once(upload_request::Part::Header(header)).chain(chunks).collect();
        let parts = parts.into_iter().map(|part| v1::UploadRequest { part: Some(part) });
        compiler.upload(tokio_stream::iter(parts)).await?;
    }
    Ok(())
}

pub(super) fn check(answer: &v1::VerifyTransactionResponse) -> Result<()> {
    ensure!(answer.outcome() == v1::VerifyOutcome::Ok, "{answer:?}");
    Ok(())
}
