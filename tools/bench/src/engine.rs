//! Our engine: a compiled program with its own machine.

use std::time::Duration;

use antares_tests::{native, stopwatch::timed};
use antares_vm::{Library, Limits, Machine, Outcome, Report, RunScript, Tier};
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

    fn report(&mut self, repetitions: u32) -> Result<Report> {
        let (elf, args) = (&self.elf, &[Bytes::from(repetitions.to_string())]);
        let script = RunScript { elf, args, vm_version: OPTIONS.vm_version, isa: OPTIONS.isa.0 };
        Ok(self.machine.run(&script, &LIMITS, Tier::Native, Some(&self.library))?)
    }
}

fn exit_code(report: &Report) -> Result<i32> {
    ensure!(report.interpreted_cycles == 0, "left native code: {:?}", report.restarted);
    let Outcome::Exit(code) = report.outcome else { bail!("ended with {:?}", report.outcome) };
    Ok(i32::from(code))
}
