//! Benchmarks one program: compiles it, then runs it and its peers round by round.

use std::{
    fs,
    time::{Duration, Instant},
};

use antares_abi::FrameTable;
use antares_compiler::Stage;
use antares_tests::{
    guests, native,
    oracle::{self, Case},
};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;

use crate::{
    engine::{CYCLES_MAX, Engine},
    peers::{self, Peer},
    programs::{OPTIONS, Program},
    report::{Row, Spread},
    twin::Twin,
};

/// Interleaved rounds. In each round, every side runs [`RUNS`] times and its best run counts.
pub(crate) const ROUNDS: usize = 15;
/// Rounds with `--quick`.
pub(crate) const QUICK_ROUNDS: usize = 3;
/// Number of compiles; the median counts.
const COMPILES: usize = 3;
/// Runs of each side per round; the slow peers run once.
const RUNS: usize = 2;
/// The interpreter runs one in `INTERPRETER_PART` repetitions; its time is scaled up.
const INTERPRETER_PART: u32 = 20;
/// The interpreter's name in tables.
const INTERPRETER: &str = "ckb-vm AsmMachine";
/// clang's name in tables.
const CLANG: &str = "clang-22 -O3";

pub(crate) fn measure(program: &Program, rounds: usize) -> Result<Row> {
    let elf = guests::bytes(program.guest)?;
    let first_native = first_native(&elf)?;
    forget_peak_memory();
    let started = Instant::now();
    let output = native::library_in_parallel(&elf, OPTIONS)?;
    let mut compiles = vec![started.elapsed()];
    let peak_memory_bytes = peak_memory_bytes().unwrap_or(0);
    let engine = Engine::new(elf, &output.bytes)?;
    for _ in 1..COMPILES {
        let started = Instant::now();
        native::library_in_parallel(engine.elf(), OPTIONS)?;
        compiles.push(started.elapsed());
    }
    let compile = Spread::of(compiles.iter().map(Duration::as_secs_f64).collect()).median;
    let (peers, missing) = if peers::are_built() { peers::start(program.guest) } else { Default::default() };
    let mut sides = Sides {
        gcc: Twin::start(program.guest, "gcc")?,
        clang: Twin::start(program.guest, "clang-22")?,
        engine,
        peers,
        repetitions: program.repetitions,
    };
    let rounds: Vec<Round> = (0..rounds).map(|_| sides.round()).collect::<Result<_>>()?;
    let ratio = |of: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(of).collect());
    let mut peers = vec![
        (CLANG, ratio(&|round| round.clang / round.gcc)),
        (INTERPRETER, ratio(&|round| round.interpreter / round.gcc)),
    ];
    for (at, peer) in sides.peers.iter().enumerate() {
        peers.push((peer.name, ratio(&|round| round.peers[at] / round.gcc)));
    }
    let frame_table_bytes = frame_table_bytes(&output.bytes);
    Ok(Row {
        name: program.name.to_owned(),
        gcc: ratio(&|round| round.engine / round.gcc),
        clang: ratio(&|round| round.engine / round.clang),
        peers,
        missing,
        rounds: rounds.len(),
        compile_s: compile,
        guest_text_bytes: output.guest_code_bytes,
        code_bytes: output.bytes.len() as u64 - frame_table_bytes,
        frame_table_bytes,
        first_native_ms: first_native.as_secs_f64() * 1000.0,
        engine_ms: ratio(&|round| round.engine * 1000.0).median,
        cycles: rounds.first().map_or(0, |round| round.cycles),
        peak_memory_bytes,
    })
}

/// Time from ELF bytes to the end of a first short native run with baseline code, as for a new script.
fn first_native(elf: &[u8]) -> Result<Duration> {
    let started = Instant::now();
    let output = native::output(elf, OPTIONS, Stage::Baseline)?;
    Engine::new(elf.to_vec(), &output.bytes)?.run(1)?;
    Ok(started.elapsed())
}

struct Sides {
    gcc: Twin,
    clang: Twin,
    engine: Engine,
    peers: Vec<Peer>,
    repetitions: u32,
}

/// Processor time of each side in one round, in seconds.
struct Round {
    gcc: f64,
    clang: f64,
    engine: f64,
    interpreter: f64,
    /// Times in the order of [`Sides::peers`].
    peers: Vec<f64>,
    cycles: u64,
}

impl Sides {
    fn round(&mut self) -> Result<Round> {
        let (mut gcc, mut clang, mut engine) = (f64::MAX, f64::MAX, f64::MAX);
        let (mut codes, mut cycles) = (Vec::new(), 0);
        for _ in 0..RUNS {
            // Subtract an empty run, to exclude loading and preparation.
            let (code, time) = self.gcc.work(self.repetitions)?;
            codes.push(code);
            gcc = gcc.min(time.as_secs_f64());
            let loading = self.engine.run(0)?.time;
            let run = self.engine.run(self.repetitions)?;
            codes.push(run.code);
            engine = engine.min(run.time.saturating_sub(loading).as_secs_f64());
            cycles = run.cycles;
            let (code, time) = self.clang.work(self.repetitions)?;
            codes.push(code);
            clang = clang.min(time.as_secs_f64());
        }
        let mut peers = Vec::new();
        for peer in &mut self.peers {
            let (code, time) = peer.twin.work(self.repetitions).context(peer.name)?;
            codes.push(code);
            peers.push(time.as_secs_f64());
        }
        ensure!(codes.iter().all(|code| *code == codes[0]), "the sides exit differently: {codes:?}");
        Ok(Round { gcc, clang, engine, interpreter: self.interpret()?, peers, cycles })
    }

    /// Time of ckb-vm's `AsmMachine` for all repetitions, extrapolated from some of them.
    fn interpret(&mut self) -> Result<f64> {
        let repetitions = (self.repetitions / INTERPRETER_PART).max(1);
        let run = |times: u32| {
            oracle::run(&Case {
                elf: self.engine.elf().clone(),
                args: vec![Bytes::from(times.to_string())],
                options: OPTIONS,
                cycles_max: CYCLES_MAX,
                code: None,
            })
        };
        let (idle, some) = (run(0), run(repetitions));
        let ours = self.engine.run(repetitions)?;
        ensure!(some.cycles == ours.cycles, "cycles differ: {} here, {} there", ours.cycles, some.cycles);
        ensure!(some.outcome == format!("Exit({})", ours.code), "{} there, {} here", some.outcome, ours.code);
        let part = f64::from(repetitions) / f64::from(self.repetitions);
        Ok(some.time.saturating_sub(idle.time).as_secs_f64() / part)
    }
}

/// Bytes of the frame table at the end of a library.
fn frame_table_bytes(library: &[u8]) -> u64 {
    let tail = &library[library.len().saturating_sub(FrameTable::TAIL_BYTES)..];
    FrameTable::length(tail, library.len() as u64).unwrap_or(0) as u64
}

/// Resets the kernel's peak memory counter of this process.
fn forget_peak_memory() {
    // If this fails, the peak includes earlier programs.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Peak memory of this process.
fn peak_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
