//! One program: compile it, then run it and its peers round by round.

use std::time::Instant;

use antares_compiler::Stage;
use antares_tests::{
    guests, native,
    oracle::{self, Case},
};
use anyhow::{Result, ensure};
use bytes::Bytes;

use crate::{
    engine::{CYCLES_MAX, Engine},
    programs::{OPTIONS, Program},
    report::{Row, Spread},
    twin::Twin,
};

/// Interleaved rounds. In each, every side runs [`RUNS`] times and its best run counts.
const ROUNDS: usize = 15;
/// Runs of one side in one round.
const RUNS: usize = 2;

/// Measures `program`.
pub(crate) fn measure(program: &Program) -> Result<Row> {
    let elf = guests::bytes(program.guest)?;
    let started = Instant::now();
    let output = native::output(&elf, OPTIONS, Stage::Library)?;
    let compile = started.elapsed();
    let mut engine = Engine::new(elf, &output.bytes)?;
    engine.run(1)?;
    let first_native = started.elapsed();
    let mut sides = Sides {
        gcc: Twin::start(program.guest, "gcc")?,
        clang: Twin::start(program.guest, "clang-22")?,
        engine,
        repetitions: program.repetitions,
    };
    let rounds: Vec<Round> = (0..ROUNDS).map(|_| sides.round()).collect::<Result<_>>()?;
    let ratio = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of).collect());
    Ok(Row {
        name: program.name.to_owned(),
        gcc: ratio(|round| round.engine / round.gcc),
        clang: ratio(|round| round.engine / round.clang),
        clang_to_gcc: ratio(|round| round.clang / round.gcc),
        interpreter_to_gcc: ratio(|round| round.interpreter / round.gcc),
        rounds: ROUNDS,
        compile_s: compile.as_secs_f64(),
        guest_text_bytes: output.guest_code_bytes,
        code_bytes: output.bytes.len() as u64,
        first_native_ms: first_native.as_secs_f64() * 1000.0,
        engine_ms: ratio(|round| round.engine * 1000.0).median,
        cycles: rounds.first().map_or(0, |round| round.cycles),
    })
}

struct Sides {
    gcc: Twin,
    clang: Twin,
    engine: Engine,
    repetitions: u32,
}

/// Seconds of processor time of each side in one round.
struct Round {
    gcc: f64,
    clang: f64,
    engine: f64,
    interpreter: f64,
    cycles: u64,
}

impl Sides {
    fn round(&mut self) -> Result<Round> {
        let mut best =
            Round { gcc: f64::MAX, clang: f64::MAX, engine: f64::MAX, interpreter: f64::MAX, cycles: 0 };
        let mut codes = Vec::new();
        for _ in 0..RUNS {
            // Loading and preparing are not counted: a run without any work is taken off.
            let (code, time) = self.gcc.work(self.repetitions)?;
            codes.push(code);
            best.gcc = best.gcc.min(time.as_secs_f64());
            let loading = self.engine.run(0)?.time;
            let run = self.engine.run(self.repetitions)?;
            let time = run.time.saturating_sub(loading);
            codes.push(run.code);
            (best.engine, best.cycles) = (best.engine.min(time.as_secs_f64()), run.cycles);
            let (code, time) = self.clang.work(self.repetitions)?;
            codes.push(code);
            best.clang = best.clang.min(time.as_secs_f64());
        }
        ensure!(codes.iter().all(|code| *code == codes[0]), "the sides exit differently: {codes:?}");
        let case = Case {
            elf: self.engine.elf().clone(),
            args: vec![Bytes::from(self.repetitions.to_string())],
            options: OPTIONS,
            cycles_max: CYCLES_MAX,
            code: None,
        };
        let interpreted = oracle::run(&case);
        ensure!(interpreted.cycles == best.cycles, "cycles differ from the interpreter's");
        best.interpreter = interpreted.time.as_secs_f64();
        Ok(best)
    }
}
