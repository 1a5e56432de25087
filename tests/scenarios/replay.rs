//! A chain of many transactions, replayed by the command line beside a node of the tests' own whose cycles
//! are ckb-script's.

use std::process::Command;

use antares_chain::{Chain, Fault, TestNode};
use antares_pool::worker_path;
use antares_tests::{
    locks,
    transaction_campaign::{Images, draw},
    transactions::by_ckb_script,
};
use antares_transaction::Environment;
use bytes::Bytes;
use ckb_types::{
    core::TransactionView,
    packed::{CellOutput, OutPoint},
};
use serde_json::Value;

/// First epochs of the VM versions 1 and 2, and one in which each is the newest.
const FORKS: [u64; 2] = [10, 20];
const EPOCHS: [u64; 3] = [5, 15, 25];
/// Transactions of each newest version with scripts that are drawn, and transactions that are signed.
const DRAWN: usize = 40;
const SIGNED: u32 = 100;
const CYCLES_MAX: u64 = 30_000_000;

fn environment(epoch: u64) -> Environment {
    Environment { vm_1_epoch: FORKS[0], vm_2_epoch: FORKS[1], epoch }
}

/// Blocks with drawn transactions, in an epoch of each version.
fn add_drawn(chain: &mut Chain) -> usize {
    let images = Images::get().unwrap();
    let mut all = 0;
    for (newest, epoch) in (0..).zip(EPOCHS) {
        chain.epoch = epoch;
        let mut accepted: Vec<(TransactionView, u64)> = Vec::new();
        let drawn = (0..10_000).map(|number| draw(images, 40, number)).filter(|it| it.newest == newest);
        for (number, scenario) in drawn.enumerate() {
            let mock = scenario.mock(images).unwrap();
            let before = chain.clone();
            chain.extension = (number % 3 == 0).then(|| vec![7; 32]);
            // Some may ask for the blocks that made their cells.
            let moved = chain.embed(mock.as_ckb(), number % 3);
            match by_ckb_script(&moved, &environment(epoch), CYCLES_MAX) {
                Ok(cycles) => accepted.push((moved.core_transaction(), cycles)),
                Err(_) => *chain = before,
            }
            if accepted.len() == DRAWN {
                break;
            }
        }
        all += accepted.len();
        for part in accepted.chunks(6) {
            chain.push(&[], part.to_vec());
        }
    }
    all
}

/// Blocks with transactions that are signed for the default lock.
fn add_signed(chain: &mut Chain) {
    let (cell, deps) = locks::distinct_cells().unwrap();
    let deps: Vec<(CellOutput, Bytes)> = deps.into_iter().map(|data| (CellOutput::default(), data)).collect();
    let count = u32::try_from(deps.len()).unwrap();
    let spent = (0..SIGNED).map(|_| (cell.clone(), Bytes::new()));
    let made = chain.push(&deps.into_iter().chain(spent).collect::<Vec<_>>(), Vec::new()).hash();
    let place = |index: u32| OutPoint::new(made.clone(), index);
    let deps: Vec<OutPoint> = (0..count).map(place).collect();
    let environment = environment(chain.epoch);
    let signed: Vec<(TransactionView, u64)> = (0..SIGNED)
        .map(|number| {
            let mock = locks::distinct_at(number.into(), place(count + number), deps.clone()).unwrap();
            let cycles = by_ckb_script(mock.as_ckb(), &environment, CYCLES_MAX).unwrap();
            (mock.as_ckb().core_transaction(), cycles)
        })
        .collect();
    for part in signed.chunks(10) {
        chain.push(&[], part.to_vec());
    }
}

#[test]
fn a_chain_of_hundreds_of_transactions_has_no_differences() {
    let mut chain = Chain::new();
    chain.forks = FORKS.map(Some);
    let drawn = add_drawn(&mut chain);
    add_signed(&mut chain);
    let all = drawn + SIGNED as usize;
    assert!(drawn == EPOCHS.len() * DRAWN && all >= 200, "{all} transactions");
    let node = TestNode::start(chain.clone());
    // It is busy now and then.
    let faults = [Fault::Status(503), Fault::Cut(1000), Fault::Closed, Fault::Status(429)];
    node.fail(faults.clone());
    let folder = tempfile::tempdir().unwrap();
    let replay = |tier: &str| {
        let mut command = Command::new(worker_path("antares").unwrap());
        command.env("XDG_CACHE_HOME", folder.path().join("kept")).args(["replay", "--from", "0", "--json"]);
        command.args(["--rpc", &node.url, "--tier", tier, "--rpc-cache"]).arg(folder.path().join("had"));
        let output = command.output().unwrap();
        let (stdout, stderr) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
        assert_eq!(output.status.code(), Some(0), "{}{stderr}", String::from_utf8_lossy(&stdout));
        let summary: Value =
            serde_json::from_slice(stdout.trim_ascii().split(|it| *it == b'\n').next_back().unwrap())
                .unwrap();
        assert_eq!((&summary["kind"], &summary["differences"]), (&"summary".into(), &0.into()), "{summary}");
        assert_eq!((&summary["transactions"], &summary["blocks"]), (&all.into(), &(chain.tip() + 1).into()));
        eprintln!("{tier}: {summary}");
        summary
    };
    let native = replay("auto");
    assert!(native["native_cycles"].as_u64() > Some(100_000_000), "{native}");
    node.fail(faults);
    let interpreted = replay("interpreter");
    assert_eq!((&interpreted["cycles"], &interpreted["native_cycles"]), (&native["cycles"], &0.into()));
}
