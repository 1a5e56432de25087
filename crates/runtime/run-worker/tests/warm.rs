//! A reused worker: what it retains between jobs.

use crate::{
    jobs::{pool, report, run},
    memory::{find, forgets, workers},
    short::{EXIT, FIRST_BYTE, PRINT, elf},
};

#[test]
fn a_worker_that_rests_holds_nothing_of_the_run_before() {
    let pool = pool();
    // As long as a page, so that the read buffer's end never cuts every copy.
    let canary: Vec<u8> = b"a canary that sings, ".iter().copied().cycle().take(4096).collect();
    let elf = elf(&[&PRINT, &FIRST_BYTE, &EXIT]);
    let report = report(&pool, &run(&[&canary]), &elf);
    assert!(report.debug.iter().eq([String::from_utf8_lossy(&canary)]));
    let [worker] = workers(&pool, 3)[..] else { panic!("{:?}", workers(&pool, 3)) };
    if !forgets(worker, &canary[..21]) {
        return;
    }
    // The search works: our own memory contains the canary.
    assert_ne!(find(std::process::id(), &canary[..21], "rw"), Some(Vec::new()));
}
