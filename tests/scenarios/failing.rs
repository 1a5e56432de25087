//! Failing full compiles: scripts run on baseline code, here and on a server. A failed compile is not retried
//! until something changes, not even by the next process.

use std::{fs, os::unix::fs::symlink, process::Command};

use antares_pool::worker_path;
use antares_proto::v1::Tier;
use antares_tests::guests;
use serde_json::Value;
use tempfile::TempDir;
use tonic::Code;

use crate::{
    client::{Client, exit_code, is, stored},
    contained::CONSTANT,
    server::{Server, until},
};

/// A transaction whose only lock is the file `lock`.
const TRANSACTION: &str = include_str!("../../cli/tests/transaction.json");

/// A folder with a compile worker that fails.
fn workers() -> TempDir {
    let workers = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_failing-compiler"), workers.path().join("antares-compile-worker")).unwrap();
    workers
}

/// A folder for a server that has these workers.
pub(crate) fn with_failing_workers() -> (TempDir, TempDir) {
    let (data, workers) = (tempfile::tempdir().unwrap(), workers());
    let folder = format!("ANTARES_WORKER_DIR={}", workers.path().display());
    fs::write(data.path().join("environment"), folder).unwrap();
    (data, workers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_that_failed_is_not_tried_again_and_the_baseline_stays() {
    let (data, _workers) = with_failing_workers();
    let elf = guests::assemble(CONSTANT).unwrap();
    for process in 0..2 {
        let server = Server::start(&data);
        let client = Client::connect(&server).await;
        client.upload(&elf).await.unwrap();
        let run = client.execute(stored(&elf, &[], Tier::Native)).await.unwrap();
        assert_eq!((exit_code(&run), run.fallback.as_str()), (Some(77), ""));
        // After the baseline's.
        let withheld = || server.metric("antares_compiles_withheld_total");
        let failed = || server.result("compiles_total", "failed");
        let tried = f64::from(1 - process);
        until("the full compile has failed or was withheld", || {
            failed() == tried && withheld() >= 1.0 - tried
        });
        let refused = async || {
            let status = client.compile(&elf).await.unwrap_err();
            is(&status, Code::Internal, "COMPILE_FAILED");
            assert!(status.message().contains("does not want to"), "{status}");
        };
        // This call may join the failed compile, which is counted before it is remembered.
        refused().await;
        let before = withheld();
        refused().await;
        refused().await;
        assert_eq!((failed(), withheld()), (tried, before + 2.0));
        let again = client.execute(stored(&elf, &[], Tier::Native)).await.unwrap();
        assert_eq!((exit_code(&again), again.fallback.as_str()), (Some(77), ""));
        server.stop();
    }
}

/// Runs `antares` in `folder`, with its cache there; returns its JSON and standard error.
fn antares(folder: &TempDir, workers: &TempDir, words: &[&str]) -> (Value, String) {
    let mut command = Command::new(worker_path("antares").expect("cargo build --workspace builds it"));
    command.current_dir(folder).args(words).env("XDG_CACHE_HOME", folder.path());
    command.env("ANTARES_WORKER_DIR", workers.path());
    let output = command.env_remove("ANTARES_CACHE").env_remove("ANTARES_SERVER").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{stderr}"));
    (json, stderr)
}

#[test]
fn a_full_compile_that_fails_leaves_a_command_the_baseline() {
    let (folder, workers) = (tempfile::tempdir().unwrap(), workers());
    let exits = "  .globl _start\n_start:\n  li a0, 0\n  li a7, 93\n  ecall\n";
    fs::write(folder.path().join("lock"), guests::assemble(exits).unwrap()).unwrap();
    fs::write(folder.path().join("tx.json"), TRANSACTION.replace("HASH_TYPE", "data1")).unwrap();
    for (cache, runs) in [(None, 2), (Some("--no-cache"), 1)] {
        for number in 0..runs {
            let words: Vec<&str> =
                ["run", "lock", "--full", "--tier", "native", "--json"].into_iter().chain(cache).collect();
            let (run, stderr) = antares(&folder, &workers, &words);
            assert_eq!((&run["exit_code"], &run["code_tier"]), (&0.into(), &"baseline".into()), "{run}");
            assert_eq!(run["native_cycles"], run["cycles"]);
            // The compile was attempted once.
            let why = if number == 0 { "does not want to" } else { "less than a day ago" };
            assert!(stderr.contains("running the baseline's code") && stderr.contains(why), "{stderr}");
        }
    }
    for tier in ["auto", "native"] {
        let words = ["verify", "--tx", "tx.json", "--full", "--tier", tier, "--json"];
        let (verdict, stderr) = antares(&folder, &workers, &words);
        assert_eq!(verdict["outcome"], "ok", "{verdict}");
        assert_eq!(verdict["groups"][0]["interpreted_cycles"], 0, "{verdict}");
        assert!(stderr.contains("running the baseline's code"), "{stderr}");
    }
}
