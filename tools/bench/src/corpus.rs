//! Benchmarks published scripts of today against the interpreter, in one loop.

use std::fmt;

use antares_abi::{CodeTier, Hints};
use antares_tests::{
    corpus::{Form, OPTIONS, Program, RUNS, case, learn, programs},
    native,
    oracle::Case,
    stopwatch::timed,
};
use antares_vm::{Library, Limits, Machine, Report, RunScript, Tier};
use anyhow::{Result, anyhow, ensure};
use bytes::Bytes;
use serde::Serialize;

use crate::{engine::CYCLES_MAX, report::Spread};

/// Repetitions of guests in Rust and Lua, if they take at least [`CYCLES_MIN`]; otherwise more.
const REPETITIONS: u32 = 200;

/// Minimum cycles of a run, so that the fixed costs of a run do not dominate.
const CYCLES_MIN: u64 = 20_000_000;

const LIMITS: Limits = Limits { cycles_max: CYCLES_MAX, debug_bytes_max: 1 << 20 };

const SHARE_MIN: f64 = 0.99;
const FASTER_MIN: f64 = 8.0;
const FIRST_MAX: f64 = 1.3;
const COMPILE_S_MAX: f64 = 12.0;
const CODE_BYTES_MAX: usize = 6 << 20;

#[derive(Serialize)]
pub(crate) struct Row {
    name: String,
    cycles: u64,
    /// Native share of the last of [`RUNS`] runs with baseline code.
    share: f64,
    /// Ratio of the interpreter's time to that of the first run, without hints.
    first: Spread,
    /// Ratios of the interpreter's time to baseline and full-tier code, with hints.
    baseline: Spread,
    full: Spread,
    interpreter_ms: f64,
    compile_s: f64,
    code_bytes: usize,
}

/// Measures all programs; prints a line for each and the missed targets.
pub(crate) fn measure(rounds: usize) -> Result<Vec<Row>> {
    println!(
        "corpus: time of AsmMachine to that of the full tier's code, the baseline's, and of a first run without hints"
    );
    let mut rows = Vec::new();
    for program in programs(REPETITIONS)? {
        let row = one(&program, rounds)?;
        println!("{row}");
        rows.push(row);
    }
    rows.iter().flat_map(gaps).for_each(|gap| println!("not reached: {gap}"));
    Ok(rows)
}

fn one(program: &Program, rounds: usize) -> Result<Row> {
    let mut machine = Machine::new()?;
    let mut case = case(&Form::Stripped.of(&program.elf)?, &program.args);
    let (short, _) = run(&mut machine, &case, None)?;
    if short.cycles < CYCLES_MIN && *case.args == [Bytes::from(REPETITIONS.to_string())] {
        let times = u64::from(REPETITIONS) * CYCLES_MIN / short.cycles.max(1);
        case.args = vec![times.to_string().into()];
    }
    let learnt = learn(&mut machine, &case, RUNS)?;
    let compile = |tier, hints: &Hints| -> Result<Vec<u8>> {
        native::library_with(&case.elf, OPTIONS, tier, hints)?.map_err(|reason| anyhow!("refused: {reason}"))
    };
    let (full, compile_time) = timed(|| compile(CodeTier::Full, &learnt.hints));
    let full = full?;
    let first = native::load(&compile(CodeTier::Baseline, &Hints::default())?)?;
    let baseline = native::load(&compile(CodeTier::Baseline, &learnt.hints)?)?;
    let full_library = native::load(&full)?;
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        for (at, library) in
            [None, Some(&first), Some(&baseline), Some(&full_library)].into_iter().enumerate()
        {
            let (report, time) = run(&mut machine, &case, library)?;
            ensure!(report.cycles == learnt.runs[0].cycles, "{}: cycles differ", program.name);
            ensure!(at < 2 || report.interpreted_cycles == 0, "{}: {:?}", program.name, report.restarted);
            times[at].push(time);
        }
    }
    let faster =
        |at: usize| Spread::of(times[0].iter().zip(&times[at]).map(|(theirs, ours)| theirs / ours).collect());
    Ok(Row {
        name: program.name.clone(),
        cycles: learnt.runs[0].cycles,
        share: learnt.share(RUNS - 1) as f64 / 1000.0,
        first: faster(1),
        baseline: faster(2),
        full: faster(3),
        interpreter_ms: Spread::of(times[0].clone()).median * 1e3,
        compile_s: compile_time.as_secs_f64(),
        code_bytes: full.len(),
    })
}

fn run(machine: &mut Machine, case: &Case, library: Option<&Library>) -> Result<(Report, f64)> {
    let script =
        RunScript { elf: &case.elf, args: &case.args, vm_version: OPTIONS.vm_version, isa: OPTIONS.isa.0 };
    let tier = if library.is_some() { Tier::Native } else { Tier::Interpreter };
    let (report, time) = timed(|| machine.run(&script, &LIMITS, tier, library));
    Ok((report?, time.as_secs_f64()))
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, cycles, share, first, baseline, full, interpreter_ms, compile_s, code_bytes } = self;
        write!(f, "{name:<18} {full} times, baseline {baseline}, first {first}   ")?;
        write!(f, "{interpreter_ms:.1} ms interpreted, {cycles} cycles, native {share:.4}   ")?;
        write!(f, "compile {compile_s:.2} s, {code_bytes} bytes")
    }
}

/// Missed targets of a program.
fn gaps(row: &Row) -> Vec<String> {
    let Row { name, share, compile_s, code_bytes, .. } = row;
    let (faster, first) = (row.full.median, 1.0 / row.first.median);
    let (percent, percent_min) = (share * 100.0, SHARE_MIN * 100.0);
    let wanted = [
        (*share < SHARE_MIN, format!("{percent:.1} % native in run {RUNS}, of {percent_min:.0} %")),
        (faster < FASTER_MIN, format!("{faster:.1} times the interpreter's speed, of {FASTER_MIN:.0}")),
        (
            first > FIRST_MAX,
            format!("a first run takes {first:.2} of the interpreter's time, of {FIRST_MAX}"),
        ),
        (*compile_s > COMPILE_S_MAX, format!("{compile_s:.1} s of compile time, of {COMPILE_S_MAX:.0} s")),
        (*code_bytes > CODE_BYTES_MAX, format!("{code_bytes} bytes of code, of {CODE_BYTES_MAX}")),
    ];
    let missed = wanted.into_iter().filter(|(is_missed, _)| *is_missed);
    missed.map(|(_, gap)| format!("{name}: {gap}")).collect()
}
