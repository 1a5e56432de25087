//! Cells shared by transactions, in the memory of a pod of the chart.

use std::fs;

use antares_chain::exits;
use antares_proto::v1::{
    self, Tier, VerifyOutcome, shared_transaction, shared_transaction_result::Result as Outcome,
    verify_session_request::Message,
};
use bytes::Bytes;
use ckb_types::{core::ScriptHashType, packed, prelude::*};

use crate::{
    client::{digest, locked, serving},
    server::{Server, kib_of},
    transactions::fields,
    verify_sessions::{open, result, send},
};

const MIB: usize = 1 << 20;
/// Concurrent sessions.
const SESSIONS: u32 = 64;
/// Shared cells of 1 MiB: what one tenant may pin of the chart's 256 MiB.
const CELLS: u32 = 120;
/// Cells in one transaction.
const CELLS_EACH: u32 = 40;

/// A number in the section `runner` of the chart's values.
fn of_chart(key: &str) -> u64 {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../helm/antares/values.yaml");
    let text = fs::read_to_string(path).unwrap();
    let section = text.split("\nrunner:\n").nth(1).unwrap();
    let line =
        section.lines().find_map(|line| line.strip_prefix("  ")?.strip_prefix(key)?.strip_prefix(": "));
    line.unwrap().parse().unwrap()
}

/// The memory limit of a runner's pod, as in `_config.tpl`, MiB.
fn pod_mib() -> u64 {
    let service = 256 + 2 * of_chart("requestsMiB") + 1024 / 4;
    let workers = 32 * (of_chart("workers") + of_chart("idleWorkers"));
    service + workers + of_chart("readyMiB") + of_chart("hotCellsMiB")
}

/// The chart's configuration of a runner, with peers within it.
fn of_pod() -> String {
    // One peer may use half of the requests that the pod has memory for.
    let requests = of_chart("requestsMiB") << 21;
    format!(
        "[listen]\nrequest_bytes_max = {requests}\n[runner]\nworkers_max = {}\n\
         idle_workers_max = {}\nready_bytes_max = {}\nhot_cells_bytes_max = {}\n",
        of_chart("workers"),
        of_chart("idleWorkers"),
        of_chart("readyMiB") << 20,
        of_chart("hotCellsMiB") << 20
    )
}

/// Memory of the server and all of its workers.
fn memory_of_all(server: &Server) -> u64 {
    let (zygotes, workers) = server.family();
    // With a proportional part of shared memory.
    let memory = |pid| kib_of(pid, "smaps_rollup", "Pss:").unwrap_or(0) << 10;
    [server.pid()].into_iter().chain(zygotes).chain(workers).map(memory).sum()
}

fn blob(number: u32) -> Vec<u8> {
    let mut blob = vec![7; MIB];
    blob[..4].copy_from_slice(&number.to_le_bytes());
    blob
}

/// A unique out point for each cell.
fn place(number: u32) -> packed::OutPoint {
    packed::OutPoint::new(packed::Byte32::new([0x33; 32]), number)
}

/// A cell with `data` that was uploaded.
fn cell(number: u32, data: &[u8]) -> v1::CellDepFields {
    let output = packed::CellOutput::default();
    v1::CellDepFields {
        out_point: Bytes::copy_from_slice(place(number).as_slice()),
        cell: Some(v1::CellFields {
            output: Bytes::copy_from_slice(output.as_slice()),
            data_sha256: Some(digest(data)),
            ..Default::default()
        }),
    }
}

/// A transaction of `lock` that also has the cells `numbers`; its own cell dep is omitted.
fn transaction(numbers: &[u32]) -> v1::TransactionFields {
    let whole = fields(&locked(&[exits(0).into()], ScriptHashType::Data1));
    let tx = packed::Transaction::from_slice(&whole.tx).unwrap();
    let deps = numbers.iter().map(|number| packed::CellDep::new_builder().out_point(place(*number)).build());
    let deps: Vec<_> = tx.raw().cell_deps().into_iter().chain(deps).collect();
    let raw = tx.raw().as_builder().cell_deps(deps).build();
    let tx = tx.as_builder().raw(raw).build();
    v1::TransactionFields { tx: Bytes::copy_from_slice(tx.as_slice()), ..whole }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_share_cells_stay_within_the_memory_of_a_pod() {
    let (_data, server, client) = serving(&of_pod()).await;
    let mut cell_deps = Vec::new();
    for number in 0..CELLS {
        let blob = blob(number);
        client.upload(&blob).await.unwrap();
        cell_deps.push(cell(number, &blob));
    }
    let shared = v1::VerifyShared { cell_deps, tier: Tier::Interpreter.into(), ..Default::default() };
    let (mut sessions, mut most) = (Vec::new(), 0);
    for session in 0..SESSIONS {
        let (sender, mut reported) = open(&client, shared.clone()).await;
        let numbers: Vec<_> = (0..CELLS_EACH).map(|at| (3 * session + at) % CELLS).collect();
        let fields = transaction(&numbers);
        let transaction = Some(shared_transaction::Transaction::Fields(fields));
        let one = v1::SharedTransaction { transaction, cell_deps: numbers, ..Default::default() };
        send(&sender, Message::Transaction(one)).await;
        let Some(Outcome::Response(answer)) = result(&mut reported).await.result else {
            panic!("no verdict")
        };
        assert_eq!(answer.outcome(), VerifyOutcome::Ok);
        sessions.push((sender, reported));
        most = most.max(memory_of_all(&server));
    }
    let [hot, misses] =
        ["bytes", "misses_total"].map(|name| server.metric(&format!("antares_hot_cells_{name}")));
    println!("{SESSIONS} sessions over {CELLS} cells: {} of {} MiB", most >> 20, pod_mib());
    assert!(most >> 20 < pod_mib());
    // All of them are stored once, and nothing was fetched twice.
    assert!(hot >= f64::from(CELLS) * 1_048_576.0, "{hot}");
    assert!(misses <= f64::from(CELLS) + 8.0, "{misses}");
    drop(sessions);
    assert!(server.is_live() && server.is_ready());
}
