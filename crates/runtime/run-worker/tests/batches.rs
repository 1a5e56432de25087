//! Batches in a sandboxed child: each run is independent, and the rest of a batch after a failed run.

use std::time::{Duration, Instant};

use antares_pool::{
    BatchEnd, Verdict,
    job::{BatchJob, Omitted, RunJob, RunOutcome},
};

use crate::{
    jobs::{self, PATIENCE, batch, pool, report},
    short::{COUNT, EXIT, FIRST_BYTE, PRINT, elf},
};

/// `addi a1, zero, 120`, `beq a0, a1, 0`: loops forever if the byte is `x`.
const LOOP_AT_X: [u32; 2] = [0x0780_0593, 0x00b5_0063];

fn outcomes(end: &BatchEnd) -> Vec<RunOutcome> {
    end.reports.iter().map(|report| report.outcome.clone()).collect()
}

#[test]
fn each_run_is_as_if_it_were_alone_and_all_share_a_worker() {
    let pool = pool();
    let elf = elf(&[&FIRST_BYTE, &COUNT, &EXIT]);
    // No more output than the worker has memory for.
    let mut job = BatchJob { output_bytes_max: 1 << 20, ..batch(&["a", "b", "c"]) };
    // Without an argument the pointer is null, and memory at address 0 is readable.
    job.inputs.push(Vec::new());
    let runs = job.inputs.iter().map(|args| RunJob { args: args.clone(), ..jobs::run(&[]) });
    let alone: Vec<_> = runs.map(|job| report(&pool, &job, &elf)).collect();
    let end = pool.batch(&job, &elf, None, Instant::now() + PATIENCE).unwrap();
    assert!(matches!(end.verdict, Verdict::Done(report) if report.runs == 4), "{end:?}");
    // An earlier run would count if memory survived.
    assert_eq!(outcomes(&end), [97, 98, 99, 0].map(RunOutcome::Exit));
    for (alone, found) in alone.iter().zip(&end.reports) {
        assert_eq!(
            (&alone.outcome, alone.cycles, alone.load_cycles),
            (&found.outcome, found.cycles, found.load_cycles)
        );
    }
    let stats = pool.stats();
    assert_eq!((stats.spawned_total, stats.reused_total, stats.resting), (1, 4, 1));
}

#[test]
fn what_was_run_before_the_deadline_is_known() {
    let elf = elf(&[&FIRST_BYTE, &LOOP_AT_X, &EXIT]);
    let end =
        pool().batch(&batch(&["a", "b", "x", "c"]), &elf, None, Instant::now() + Duration::from_millis(500));
    let end = end.unwrap();
    assert_eq!(end.verdict, Verdict::DeadlineExceeded);
    assert_eq!(outcomes(&end), [97, 98].map(RunOutcome::Exit));
    let limited = BatchJob { cycles_max: 100_000, ..batch(&["a", "x", "c"]) };
    let end = pool().batch(&limited, &elf, None, Instant::now() + PATIENCE).unwrap();
    assert_eq!(outcomes(&end), [RunOutcome::Exit(97), RunOutcome::CyclesExceeded, RunOutcome::Exit(99)]);
}

#[test]
fn output_of_all_runs_together_has_a_limit() {
    let pool = pool();
    let elf = elf(&[&PRINT, &FIRST_BYTE, &EXIT]);
    let long = "z".repeat(1000);
    let all = vec![&*long; 1024];
    let end = pool.batch(&batch(&all), &elf, None, Instant::now() + PATIENCE).unwrap();
    assert_eq!(end.reports.len(), 1024);
    assert!(end.reports.iter().all(|report| report.debug.iter().eq([&*long])));
    let little = BatchJob { output_bytes_max: 2500, ..batch(&all) };
    let end = pool.batch(&little, &elf, None, Instant::now() + PATIENCE).unwrap();
    // All run; the lines after the limit are dropped and counted.
    assert!(matches!(end.verdict, Verdict::Done(report) if report.runs == 1024), "{:?}", end.verdict);
    let kept = end.reports.iter().take_while(|report| report.debug.iter().eq([&*long])).count();
    let left_out =
        end.reports.iter().filter(|report| report.debug.omitted() == Omitted { lines: 1, bytes: 1001 });
    assert_eq!((kept, left_out.count()), (3, 1021));
}
