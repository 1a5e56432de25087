//! A script in a sandboxed child: its results, and the handling of failures.

use std::time::Instant;

use antares_pool::{
    Sealed, Verdict,
    job::{ProfileJob, ProfiledReport, RunJob, RunOutcome, Tier},
};
use antares_profile::Profile;

use crate::{
    jobs::{self, PATIENCE, pool, report},
    short::{EXIT, elf},
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

fn job(cycles_max: u64, args: &[&[u8]], debug_bytes_max: u64) -> RunJob {
    RunJob { cycles_max, debug_bytes_max, ..jobs::run(args) }
}

#[test]
fn a_library_that_is_none_fails_its_own_job_only() {
    let pool = pool();
    let job = RunJob { tier: Tier::Auto, ..job(1, &[], 1) };
    let junk = Sealed::new("library", b"junk").unwrap();
    let verdict = pool.run(&job, &elf(&[&EXIT]), Some(&junk), Instant::now() + PATIENCE).unwrap();
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
        let report = report(&pool, &job(200_000_000, &[arg], debug_bytes_max), &elf(&[&PRINT]));
        assert_eq!(report.outcome, RunOutcome::CyclesExceeded);
        assert!(report.debug.omitted().lines > 0);
        assert!(report.debug.count() >= lines_least, "{} lines", report.debug.count());
        assert!(report.debug.iter().all(|line| line.as_bytes() == arg));
    }
}

#[test]
fn scripts_end_as_ckb_vm_says_and_profiles_add_up_to_their_cycles() {
    let pool = pool();
    let (seven, far) = ([SEVEN, EXIT[0], EXIT[1]], [LOAD_FAR, EXIT[0], EXIT[1]]);
    for (code, cycles_max, end) in [
        (&seven[..], 1_000_000, "Exit(7)"),
        (&far, 1_000_000, "Error { name: \"MemOutOfBound\""),
        (&[LOOP], 10_000, "CyclesExceeded"),
        (&PRINT, 9_000, "CyclesExceeded"),
    ] {
        let job = job(cycles_max, &[b"x"], 1 << 20);
        let (elf, until) = (elf(&[code]), Instant::now() + PATIENCE);
        let plain = report(&pool, &job, &elf);
        assert!(format!("{:?}", plain.outcome).starts_with(end), "{plain:?}");
        assert_eq!((plain.interpreted_cycles, plain.native_cycles), (plain.cycles, 0));
        assert!(code != seven || plain.cycles > 500, "an ecall costs 500 cycles: {plain:?}");
        let verdict = pool.profile(&ProfileJob::Run(job), &elf, &[], until).unwrap();
        let Verdict::Done(profiled) = verdict else { panic!("{verdict:?}") };
        let ProfiledReport::Run(report) = profiled.report else { panic!("not a run") };
        assert_eq!((&report.outcome, report.cycles), (&plain.outcome, plain.cycles));
        let profile = Profile::decode(&profiled.profile).unwrap();
        assert_eq!((profile.sum().cycles, profiled.mismatch_cycles), (plain.cycles, 0));
    }
}
