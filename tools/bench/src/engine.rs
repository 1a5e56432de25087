//! Our engine: a compiled program with its own machine.

use std::time::Duration;

use antares_tests::{native, stopwatch::timed};
use antares_vm::{
    Library, Limits, Machine, Outcome, Report, RunScript, Sampling, Tier, limits::SAMPLE_CYCLES,
};
use anyhow::{Result, bail, ensure};
use bytes::Bytes;

use crate::programs::OPTIONS;

/// A limit that no program reaches.
pub(crate) const CYCLES_MAX: u64 = 1 << 50;

const LIMITS: Limits = Limits { cycles_max: CYCLES_MAX, debug_bytes_max: 0 };

pub(crate) struct Engine {
    machine: Machine,
    library: Library,
    elf: Bytes,
}

pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) cycles: u64,
    /// Processor time, including loading.
    pub(crate) time: Duration,
}

impl Engine {
    pub(crate) fn new(elf: Vec<u8>, library: &[u8]) -> Result<Self> {
        Ok(Self { machine: Machine::new()?, library: native::load(library)?, elf: elf.into() })
    }

    pub(crate) fn elf(&self) -> &Bytes {
        &self.elf
    }

    /// Runs the program once; fails if native code bails out.
    pub(crate) fn run(&mut self, repetitions: u32) -> Result<Run> {
        let (report, time) = timed(|| self.report(repetitions));
        let report = report?;
        Ok(Run { code: exit_code(&report)?, cycles: report.cycles, time })
    }

    /// As [`Engine::run`], but without the clock: rustix's clocks loop forever under valgrind, which hides
    /// the vDSO from its programs.
    pub(crate) fn run_untimed(&mut self, repetitions: u32) -> Result<i32> {
        exit_code(&self.report(repetitions)?)
    }

    /// As [`Engine::run`], sampled as by a runner, with a random `seed`. Also returns the number of samples.
    pub(crate) fn run_sampled(&mut self, repetitions: u32, seed: u64) -> Result<(Run, u64)> {
        let (sampled, time) = timed(|| self.sampled_report(repetitions, seed));
        let (report, samples) = sampled?;
        Ok((Run { code: exit_code(&report)?, cycles: report.cycles, time }, samples))
    }

    /// As [`Engine::run_untimed`], sampled.
    pub(crate) fn run_sampled_untimed(&mut self, repetitions: u32) -> Result<i32> {
        exit_code(&self.sampled_report(repetitions, 1)?.0)
    }

    fn sampled_report(&mut self, repetitions: u32, seed: u64) -> Result<(Report, u64)> {
        let args = [Bytes::from(repetitions.to_string())];
        let script = script(&self.elf, &args);
        let sampling = Sampling { period: SAMPLE_CYCLES, seed };
        let native = (Tier::Native, Some(&self.library));
        let (report, recording) = self.machine.run_sampled(&script, &LIMITS, native, sampling)?;
        ensure!(recording.cycles() == report.cycles, "samples do not add up to the cycles of the run");
        let sampled = recording.contexts().iter().filter(|context| context.cycles > 0).count();
        Ok((report, sampled as u64))
    }

    fn report(&mut self, repetitions: u32) -> Result<Report> {
        let args = [Bytes::from(repetitions.to_string())];
        let script = script(&self.elf, &args);
        Ok(self.machine.run(&script, &LIMITS, Tier::Native, Some(&self.library))?)
    }
}

fn script<'a>(elf: &'a Bytes, args: &'a [Bytes]) -> RunScript<'a> {
    RunScript { elf, args, vm_version: OPTIONS.vm_version, isa: OPTIONS.isa.0 }
}

fn exit_code(report: &Report) -> Result<i32> {
    ensure!(report.interpreted_cycles == 0, "left native code: {:?}", report.restarted);
    let Outcome::Exit(code) = report.outcome else { bail!("ended with {:?}", report.outcome) };
    Ok(i32::from(code))
}
