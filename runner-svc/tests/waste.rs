//! Cost of a transaction in addition to its scripts: bytes copied and hashed for it. The only test of its
//! process, since both counters are global.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    future::pending,
    time::{Duration, Instant},
};

use antares_config::{ConfigFile, Role};
use antares_pool::digested_bytes;
use antares_proto::v1::{
    self, Tier, VerifyOutcome, compiler_service_client::CompilerServiceClient,
    runner_service_client::RunnerServiceClient, shared_transaction::Transaction,
    shared_transaction_result::Result as Outcome, upload_request::Part,
};
use antares_runner_svc::{app::layer_names, embedded};
use antares_serve::{Metrics, Server};
use antares_transaction::hashed_bytes;
use bytes::Bytes;
use ckb_types::{core::ScriptHashType, prelude::*};
use prost::Message as _;
use tempfile::TempDir;
use tonic::transport::Channel;

/// Timeout of everything that the test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both services in this process.
async fn serve(data: &TempDir) -> Channel {
    let file = format!(
        "listen.address = \"127.0.0.1:0\"\nmetrics.address = \"\"\nrunner.recheck_one_in = 0\ncache.dir = {:?}\n",
        data.path().join("store")
    );
    let file: ConfigFile = file.parse().unwrap();
    let config = file.check(Role::Both, &layer_names()).unwrap();
    let metrics = Metrics::new();
    let both = embedded::build(&config, embedded::start_pools(&config).unwrap(), &metrics).unwrap();
    let app = both.app(&config);
    let server = Server::bind(&config, app, metrics).await.unwrap();
    let address = server.address();
    both.watch_health(&server.health());
    tokio::spawn(server.run(pending()));
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

async fn upload(channel: &Channel, data: &Bytes) {
    let sha256 = antares_abi::Sha256Digest::of(data).to_string();
    let header = v1::BlobHeader { sha256, size_bytes: data.len() as u64, ..Default::default() };
    let parts = [Part::Header(header), Part::Chunk(data.clone())];
    let parts = parts.map(|part| v1::UploadRequest { part: Some(part) });
    CompilerServiceClient::new(channel.clone()).upload(tokio_stream::iter(parts)).await.unwrap();
}

/// Cells that transactions share, in addition to the lock.
const CELLS: u8 = 20;
const CELL_BYTES: usize = 100_000;
/// Transactions measured together.
const TRANSACTIONS: u64 = 100;

/// A lock that loads the data of the second cell dep, and exits with that call's result.
fn lock() -> Vec<u8> {
    antares_chain::elf(&[
        0xff01_0113, // addi sp, sp, -16
        0x0002_02b7, // lui t0, 0x20
        0x0051_3023, // sd t0, 0(sp)
        0x0020_0537, // lui a0, 0x200
        0x0001_0593, // mv a1, sp
        0x0000_0613, // li a2, 0
        0x0010_0693, // li a3, 1
        0x0030_0713, // li a4, 3
        0x7ff0_0893, // li a7, 2047
        0x02d8_8893, // addi a7, a7, 45
        0x0000_0073, // ecall: load_cell_data
        0x05d0_0893, // li a7, 93
        0x0000_0073, // ecall: exit
    ])
}

/// The shared parts, and one transaction.
fn parts() -> (v1::VerifyShared, v1::TransactionFields) {
    let data = |index: u8| if index == 0 { lock() } else { vec![index; CELL_BYTES] };
    let deps: Vec<_> = (0..=CELLS).map(|index| Bytes::from(data(index))).collect();
    let mock = antares_chain::locked_by(&deps, ScriptHashType::Data1);
    let (tx, info) = (&mock.tx, &mock.mock_info);
    let copied = Bytes::copy_from_slice;
    let cell = |output: &[u8], data: &Bytes| v1::CellFields {
        output: copied(output),
        data: data.clone(),
        ..Default::default()
    };
    let deps = info.cell_deps.iter().map(|dep| v1::CellDepFields {
        out_point: copied(dep.cell_dep.out_point().as_slice()),
        cell: Some(cell(dep.output.as_slice(), &dep.data)),
    });
    let shared = v1::VerifyShared { cell_deps: deps.collect(), ..Default::default() };
    let inputs = info.inputs.iter().map(|input| cell(input.output.as_slice(), &input.data)).collect();
    (shared, v1::TransactionFields { tx: copied(tx.as_slice()), inputs, ..Default::default() })
}

/// Bytes that this process has copied for transactions.
fn copied_bytes() -> u64 {
    antares_pool::copied_bytes() + antares_transaction::copied_bytes()
}

/// Verifies a batch; returns the bytes of both messages.
async fn verify(
    channel: &Channel,
    shared: &v1::VerifyShared,
    fields: &v1::TransactionFields,
    count: u64,
) -> u64 {
    let one = |id| v1::SharedTransaction {
        id,
        transaction: Some(Transaction::Fields(fields.clone())),
        cell_deps: (0..=CELLS.into()).collect(),
        ..Default::default()
    };
    let batch =
        v1::VerifyBatchRequest { shared: Some(shared.clone()), transactions: (0..count).map(one).collect() };
    let sent = batch.encoded_len();
    let answer = RunnerServiceClient::new(channel.clone()).verify_batch(batch).await.unwrap().into_inner();
    for result in &answer.results {
        let Some(Outcome::Response(answer)) = &result.result else { panic!("{result:?}") };
        assert_eq!(answer.outcome(), VerifyOutcome::Ok, "{answer:?}");
    }
    (sent + answer.encoded_len()) as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_hashed_once_and_copied_for_nobody() {
    let data = tempfile::tempdir().unwrap();
    let channel = serve(&data).await;
    let (mut shared, fields) = parts();
    // Compiled code would be hashed too.
    shared.tier = Tier::Interpreter.into();
    let blobs = (lock().len() + usize::from(CELLS) * CELL_BYTES) as u64;
    let (digested, hashed, copied) = (digested_bytes(), hashed_bytes(), copied_bytes());
    let messages = verify(&channel, &shared, &fields, 1).await;
    let (digested, hashed, copied) =
        (digested_bytes() - digested, hashed_bytes() - hashed, copied_bytes() - copied);
    println!("{blobs} bytes of blobs that came along: {digested} and {hashed} hashed, {copied} copied");
    let once = blobs..blobs + CELL_BYTES as u64;
    assert!(once.contains(&digested) && once.contains(&hashed), "each blob once for each of its hashes");
    // Once, into memory files.
    assert!(copied < 2 * blobs, "{messages} bytes of messages");

    // By reference, as in every batch after the first.
    for dep in &mut shared.cell_deps {
        let cell = dep.cell.as_mut().unwrap();
        let data = std::mem::take(&mut cell.data);
        upload(&channel, &data).await;
        cell.data_sha256 = Some(antares_abi::Sha256Digest::of(&data).to_string());
    }
    for tier in [Tier::Interpreter, Tier::Native] {
        shared.tier = tier.into();
        let end = Instant::now() + PATIENCE;
        let (copied, messages) = loop {
            let (digested, hashed, copied) = (digested_bytes(), hashed_bytes(), copied_bytes());
            let messages = verify(&channel, &shared, &fields, TRANSACTIONS).await;
            let copied = copied_bytes() - copied;
            if (digested_bytes(), hashed_bytes()) == (digested, hashed) {
                break (copied, messages);
            }
            // Fetching and compiling may continue after the first batches.
            assert!(Instant::now() < end, "{tier:?}: blobs are hashed again and again");
        };
        // Each byte of a message is copied from the kernel, and once more to assemble the message.
        let beside = (copied + 2 * messages) / TRANSACTIONS;
        let loaded = (lock().len() + CELL_BYTES) as u64;
        println!("{tier:?}: nothing is hashed, each loads {loaded} bytes and copies {beside} beside that");
        assert!(loaded + beside <= 2 * loaded, "{tier:?}");
    }
}
