//! The native twin of a guest: the same C in a separate process, which is controlled over pipes and times
//! itself.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use antares_tests::guests;
use anyhow::{Context, Result, ensure};

pub(crate) struct Twin {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Builds the twin of `guest` with `compiler`.
pub(crate) fn build(guest: &str, compiler: &str) -> Result<PathBuf> {
    let guest = guests::guest_named(guest).with_context(|| format!("no guest is named {guest:?}"))?;
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("native/twin.c");
    guests::native_compile(&guest, compiler, &driver)
}

impl Twin {
    pub(crate) fn start(guest: &str, compiler: &str) -> Result<Self> {
        Self::spawn(&mut Command::new(build(guest, compiler)?))
    }

    /// Starts a peer with the protocol of twins, which first prints `ready`.
    pub(crate) fn foreign(command: &mut Command) -> Result<Self> {
        let mut twin = Self::spawn(command.stderr(Stdio::null()))?;
        let mut line = String::new();
        twin.answers.read_line(&mut line)?;
        ensure!(line.trim() == "ready", "{command:?} does not start");
        Ok(twin)
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("starting {command:?}"))?;
        let requests = child.stdin.take().context("a piped stdin")?;
        let answers = BufReader::new(child.stdout.take().context("a piped stdout")?);
        Ok(Self { child, requests, answers })
    }

    /// Runs the program once; returns its exit code and the processor time of the repetitions.
    pub(crate) fn work(&mut self, repetitions: u32) -> Result<(i32, Duration)> {
        let (_, idle) = self.run(0)?;
        let (code, time) = self.run(repetitions)?;
        Ok((code, time.saturating_sub(idle)))
    }

    /// Runs the program once; returns its exit code and processor time.
    fn run(&mut self, repetitions: u32) -> Result<(i32, Duration)> {
        writeln!(self.requests, "{repetitions}")?;
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "the twin died");
        let (code, nanoseconds) = line.trim().split_once(' ').context("a code and a time")?;
        Ok((code.parse()?, Duration::from_nanos(nanoseconds.parse()?)))
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // The process has no state to lose, and may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
