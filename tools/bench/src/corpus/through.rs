//! Today's scripts through one service and through the command line: native code against the interpreter on
//! the same way, by wall time as a caller sees it.

use std::{
    thread,
    time::{Duration, Instant},
};

use antares_tests::{
    corpus::{Form, Program, RUNS, case, programs},
    oracle::Case,
};
use antares_vm::Machine;
use anyhow::{Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{FASTER_MIN, FIRST_MAX, REPETITIONS, SHARE_MIN, run};
use crate::report::Spread;

mod command;
mod service;

pub(crate) use command::CommandLine;
pub(crate) use service::OneService;

/// Of the runs whose speed counts: on some hundred milliseconds in the interpreter the start of a process is
/// little.
const CYCLES: u64 = 200_000_000;
/// Of a first run, which has its compile beside it: some 50 ms and more in the interpreter.
const FIRST_CYCLES: u64 = 60_000_000;
/// How long the full tier's code may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks for it.
const PAUSE: Duration = Duration::from_millis(200);

/// A way to run scripts, with nothing kept yet.
pub(crate) trait Way: Sized {
    /// Its name in tables.
    const NAME: &str;

    /// One in which nothing else is compiled while runs are measured, if it can be had.
    fn start(is_quiet: bool) -> Result<Self>;

    /// Runs a script; a first run brings it along. In the interpreter, or in what there is.
    fn run(&mut self, case: &Case, is_interpreted: bool) -> Result<Told>;
}

/// What a run told.
pub(crate) struct Told {
    /// Wall time, seconds.
    time: f64,
    cycles: u64,
    native_cycles: u64,
    is_full: bool,
    compile_ms: u64,
}

impl Told {
    fn share(&self) -> f64 {
        self.native_cycles as f64 / self.cycles.max(1) as f64
    }
}

/// What one program took on a way.
struct Row {
    name: String,
    /// The first run's time to the interpreter's, its compile included, and that in milliseconds.
    first: Spread,
    compile_ms: f64,
    /// The least native share of the runs number [`RUNS`], and the interpreter's time to theirs.
    share: f64,
    third: Spread,
    /// The same of runs on the full tier's code.
    full_share: f64,
    full: Spread,
    first_ms: f64,
    interpreter_ms: f64,
}

/// Measures all of them; prints a line for each, and what is not reached.
pub(crate) fn measure<W: Way>(rounds: usize) -> Result<Vec<Value>> {
    println!("corpus, {}: time of the interpreter to that of native code, on the same way", W::NAME);
    let mut way = W::start(false)?;
    let mut rows = Vec::new();
    for program in programs(REPETITIONS)? {
        let row = one(&program, &mut way, rounds)?;
        println!(
            "{:<18} full {} times, native {:.4}   run {RUNS} {} times, native {:.4}   {:.1} ms interpreted   first run {} of {:.1} ms, compile {:.0} ms",
            row.name,
            row.full,
            row.full_share,
            row.third,
            row.share,
            row.interpreter_ms,
            row.first,
            row.first_ms,
            row.compile_ms
        );
        rows.push(row);
    }
    rows.iter().flat_map(gaps).for_each(|gap| println!("not reached, {}: {gap}", W::NAME));
    Ok(rows.iter().map(to_json).collect())
}

fn one<W: Way>(program: &Program, way: &mut W, rounds: usize) -> Result<Row> {
    let mut machine = Machine::new()?;
    let short = case(&Form::Stripped.of(&program.elf)?, &program.args);
    let (report, _) = run(&mut machine, &short, None)?;
    let (mut first, mut third, mut firsts, mut compiles) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut share = f64::MAX;
    let brief = lasting(&short, report.cycles, FIRST_CYCLES);
    for _ in 0..rounds {
        let mut fresh = W::start(true)?;
        fresh.run(&brief, true)?;
        let interpreted = fresh.run(&brief, true)?;
        let runs = (0..RUNS).map(|_| fresh.run(&brief, false)).collect::<Result<Vec<_>>>()?;
        ensure!(runs.iter().all(|run| run.cycles == interpreted.cycles), "{}: cycles differ", program.name);
        first.push(runs[0].time / interpreted.time);
        compiles.push(runs[0].compile_ms as f64);
        third.push(interpreted.time / runs[RUNS - 1].time);
        share = share.min(runs[RUNS - 1].share());
        firsts.push(interpreted.time * 1e3);
    }
    let long = lasting(&short, report.cycles, CYCLES);
    let end = Instant::now() + PATIENCE;
    loop {
        let told = way.run(&long, false)?;
        if told.is_full && told.share() >= SHARE_MIN || Instant::now() > end {
            break;
        }
        thread::sleep(PAUSE);
    }
    let (mut full, mut times, mut full_share) = (Vec::new(), Vec::new(), f64::MAX);
    for _ in 0..rounds {
        let interpreted = way.run(&long, true)?;
        let native = way.run(&long, false)?;
        ensure!(interpreted.cycles == native.cycles, "{}: cycles differ", program.name);
        full_share = full_share.min(if native.is_full { native.share() } else { 0.0 });
        full.push(interpreted.time / native.time);
        times.push(interpreted.time * 1e3);
    }
    Ok(Row {
        name: program.name.clone(),
        first: Spread::of(first),
        compile_ms: Spread::of(compiles).median,
        share,
        third: Spread::of(third),
        full_share,
        full: Spread::of(full),
        first_ms: Spread::of(firsts).median,
        interpreter_ms: Spread::of(times).median,
    })
}

/// The same work so often that it takes about `wanted` cycles.
fn lasting(short: &Case, cycles: u64, wanted: u64) -> Case {
    let mut case = short.clone();
    match &*short.args {
        [option, source] => {
            let (times, source) = (wanted.div_ceil(cycles.max(1)), String::from_utf8_lossy(source));
            let repeated =
                format!("for (let round = 0; round < {times}; round++) (() => {{\n{source}\n}})();");
            case.args = vec![option.clone(), repeated.into()];
        }
        _ => {
            let times = u64::from(REPETITIONS) * wanted / cycles.max(1);
            case.args = vec![Bytes::from(times.max(1).to_string())];
        }
    }
    case
}

/// What is wanted of a program and not reached.
fn gaps(row: &Row) -> Vec<String> {
    let speed = |run: &str, speed: &Spread| {
        format!("{:.1} times the interpreter's speed in {run}, of {FASTER_MIN:.0}", speed.median)
    };
    let share = row.share.min(row.full_share);
    let wanted = [
        (share < SHARE_MIN, format!("{:.1} % native, of {:.0} %", share * 100.0, SHARE_MIN * 100.0)),
        (row.full.median < FASTER_MIN, speed("the full tier", &row.full)),
        (
            row.first.median > FIRST_MAX,
            format!("a first run takes {:.2} of the interpreter's time, of {FIRST_MAX}", row.first.median),
        ),
    ];
    let missed = wanted.into_iter().filter(|(is_missed, _)| *is_missed);
    missed.map(|(_, gap)| format!("{}: {gap}", row.name)).collect()
}

fn to_json(row: &Row) -> Value {
    json!({
        "name": row.name,
        "faster": row.full.median,
        "faster_quartiles": [row.full.low, row.full.high],
        "native_share": row.full_share,
        "interpreter_ms": row.interpreter_ms,
        "faster_third": row.third.median,
        "native_share_third": row.share,
        "first_over_interpreter": row.first.median,
        "first_over_interpreter_quartiles": [row.first.low, row.first.high],
        "first_interpreter_ms": row.first_ms,
        "first_compile_ms": row.compile_ms,
    })
}
