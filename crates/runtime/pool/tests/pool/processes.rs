//! Processes of a pool as seen from outside.

use std::{collections::BTreeSet, env, fs, process::Command, thread, time::Instant};

use antares_pool::Pool;
use rustix::process::{Pid, Signal, kill_process};

use crate::hostile::PATIENCE;

/// Set in the separate process in which a test runs itself.
pub(crate) const ALONE: &str = "ANTARES_TEST_ALONE";

/// Runs `body` in a process that runs the test `test` only: concurrent tests open descriptors.
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let mut command = Command::new(env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(ALONE, "1").output();
    let output = output.unwrap();
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    println!("{stdout}");
    assert!(output.status.success() && stdout.contains("1 passed"), "{stderr}");
}

/// Waits until `condition` holds.
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        thread::yield_now();
    }
}

pub(crate) fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

pub(crate) fn kill(number: u32) {
    kill_process(pid(number), Signal::KILL).unwrap();
}

/// Parent of process `number`, and whether it is a zombie; `None` if there is no such process.
pub(crate) fn stat(number: u32) -> Option<(u32, bool)> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let is_zombie = fields.next()? == "Z";
    Some((fields.next()?.parse().ok()?, is_zombie))
}

/// Processes whose parent is `parent`.
pub(crate) fn children(parent: u32) -> BTreeSet<u32> {
    let numbers =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|number| stat(*number).is_some_and(|(found, _)| found == parent)).collect()
}

pub(crate) fn zygote(pool: &Pool) -> u32 {
    pool.stats().zygote_pid.unwrap()
}
