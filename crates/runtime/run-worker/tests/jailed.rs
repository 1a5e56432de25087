//! A script in a sandboxed child: its results, and the handling of failures.

use std::time::{Duration, Instant};

use antares_pool::{
    Pool, Sealed, Verdict,
    job::{ProfileJob, ProfiledReport, RunJob, RunOutcome, RunReport, Tier},
};
use antares_profile::Profile;

use crate::{
    jobs::{self, pool},
    short::EXIT,
};

/// `addi a0, zero, 7`.
const SEVEN: u32 = 0x0070_0513;
/// `jal zero, 0`: loops forever.
const LOOP: u32 = 0x0000_006f;
/// `ld a0, 8(sp)`, `lui a7, 1`, `addi a7, a7, -1919`, `ecall`, `jal zero, -16`: prints its first argument
/// forever.
const PRINT: [u32; 5] = [0x0081_3503, 0x0000_18b7, 0x8818_8893, 0x0000_0073, 0xff1f_f06f];
/// `ld a0, -1(zero)`.
const LOAD_FAR: u32 = 0xfff0_3503;

/// An RV64 executable of `code`.
fn elf(code: &[u32]) -> Sealed {
    Sealed::new("elf", &antares_chain::elf(code)).unwrap()
}

fn job(cycles_max: u64, args: &[&[u8]], debug_bytes_max: u64) -> RunJob {
    RunJob { cycles_max, debug_bytes_max, ..jobs::run(args) }
}

fn run(pool: &Pool, code: &[u32], cycles_max: u64, within: Duration) -> Verdict<RunReport> {
    pool.run(&job(cycles_max, &[b"x"], 1), &elf(code), None, Instant::now() + within).unwrap()
}

#[track_caller]
fn outcome(verdict: Verdict<RunReport>) -> RunOutcome {
    match verdict {
        Verdict::Done(report) => report.outcome,
        other => panic!("{other:?}"),
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_script_runs_to_its_exit() {
    let pool = pool();
    let verdict = run(&pool, &[SEVEN, EXIT[0], EXIT[1]], 1_000_000, PATIENCE);
    let Verdict::Done(report) = verdict else { panic!("{verdict:?}") };
    assert_eq!(report.outcome, RunOutcome::Exit(7));
    assert!(report.cycles > 500, "an ecall costs 500 cycles: {report:?}");
    assert_eq!((report.interpreted_cycles, report.native_cycles), (report.cycles, 0));
}

#[test]
fn scripts_end_as_ckb_vm_says() {
    let pool = pool();
    let error = outcome(run(&pool, &[LOAD_FAR, EXIT[0], EXIT[1]], 1_000_000, PATIENCE));
    assert!(matches!(&error, RunOutcome::Error { name, .. } if name == "MemOutOfBound"), "{error:?}");
    assert_eq!(outcome(run(&pool, &[LOOP], 10_000, PATIENCE)), RunOutcome::CyclesExceeded);
}

#[test]
fn a_library_that_is_none_fails_its_own_job_only() {
    let pool = pool();
    let job = RunJob { tier: Tier::Auto, ..job(1, &[], 1) };
    let junk = Sealed::new("library", b"junk").unwrap();
    let verdict = pool.run(&job, &elf(&EXIT), Some(&junk), Instant::now() + PATIENCE).unwrap();
    assert!(matches!(verdict, Verdict::WorkerLost { .. }), "{verdict:?}");
    assert_eq!(pool.stats().violations_total, 0);
}

/// A worker cannot request memory while a script runs: memory for debug output must be reserved.
#[test]
fn as_much_debug_output_as_allowed_arrives() {
    let pool = pool();
    let long = vec![b'x'; 100_000];
    for (arg, debug_bytes_max, lines_least) in
        [(&long[..], 32 << 20, 300), (b"", 32 << 20, 65_000), (b"xy", 3000, 900)]
    {
        let job = job(200_000_000, &[arg], debug_bytes_max);
        let verdict = pool.run(&job, &elf(&PRINT), None, Instant::now() + PATIENCE).unwrap();
        let Verdict::Done(report) = verdict else { panic!("{} bytes a line: {verdict:?}", arg.len()) };
        assert_eq!(report.outcome, RunOutcome::CyclesExceeded);
        assert!(report.debug.omitted().lines > 0);
        assert!(report.debug.count() >= lines_least, "{} lines", report.debug.count());
        assert!(report.debug.iter().all(|line| line.as_bytes() == arg));
    }
}

#[test]
fn a_profile_adds_up_to_the_cycles_of_the_same_run() {
    let pool = pool();
    let code = [SEVEN, EXIT[0], EXIT[1]];
    for (code, cycles_max) in
        [(code.as_slice(), 1_000_000), (&[LOAD_FAR], 1_000), (&[LOOP], 1_000), (&PRINT, 9_000)]
    {
        let job = job(cycles_max, &[b"x"], 1 << 20);
        let until = Instant::now() + PATIENCE;
        let plain = match pool.run(&job, &elf(code), None, until).unwrap() {
            Verdict::Done(report) => report,
            other => panic!("{other:?}"),
        };
        let verdict = pool.profile(&ProfileJob::Run(job), &elf(code), &[], until).unwrap();
        let Verdict::Done(profiled) = verdict else { panic!("{verdict:?}") };
        let ProfiledReport::Run(report) = profiled.report else { panic!("not a run") };
        assert_eq!((&report.outcome, report.cycles), (&plain.outcome, plain.cycles));
        let profile = Profile::decode(&profiled.profile).unwrap();
        assert_eq!((profile.sum().cycles, profiled.mismatch_cycles), (plain.cycles, 0));
    }
}
