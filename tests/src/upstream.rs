//! ckb-script's own test suite, from the published source, in our own build folder.
//!
//! The suite needs parts of ckb's workspace outside the crate: its sibling `test-chain-utils` at a relative
//! path, and a RocksDB store, which is empty in all of its tests. We copy the former and replace the latter
//! by stubs.

mod ours;
mod patch;
mod sources;

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result, bail};

use crate::{
    crates::{cargo, target_folder},
    kept,
};

/// The machine for the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// ckb-vm's `AsmMachine`, as published.
    Stock,
    /// `NativeMachine` in a tier: auto, native or interpreter.
    Ours(&'static str),
}

impl Machine {
    fn folder(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Ours(_) => "ours",
        }
    }
}

/// The suite, ready to build.
#[derive(Clone, Debug)]
pub struct Suite {
    folder: PathBuf,
    machine: Machine,
}

/// Cycles by tier, over all script groups of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Completed script groups.
    pub groups: u64,
    /// Cycles in native code.
    pub native_cycles: u64,
    /// Cycles in the interpreter.
    pub interpreted_cycles: u64,
    /// Script groups that the interpreter ran again, by reason.
    pub restarts: BTreeMap<String, u64>,
    /// Cycles of those runs by test and reason. Runs on other threads than the test's have no test name.
    pub restarted_tests: BTreeMap<String, u64>,
}

/// Result of a run of the suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests by name, and whether they passed.
    pub tests: BTreeMap<String, bool>,
    pub output: String,
    /// Cycles by tier, if the machine is ours.
    pub shares: Shares,
}

impl Counts {
    /// Names of the tests that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<&str> {
        self.tests.iter().filter(|(_, passed)| !**passed).map(|(name, _)| name.as_str()).collect()
    }
}

impl Suite {
    /// Writes the suite's build folder. Does not write unchanged files, to avoid rebuilds.
    ///
    /// # Errors
    /// A crate is not found, or its source does not match the patches.
    pub fn prepare(machine: Machine) -> Result<Self> {
        let folder = target_folder().join("upstream").join(machine.folder());
        sources::write(&folder, machine).with_context(|| format!("preparing {}", folder.display()))?;
        Ok(Self { folder, machine })
    }

    /// Builds and runs the tests whose names contain `filter`.
    ///
    /// # Errors
    /// The suite cannot be built or started. Failing tests are not an error.
    pub fn run(&self, filter: &str) -> Result<Counts> {
        self.build()?;
        let shares = tempfile::NamedTempFile::new()?;
        let mut command = cargo();
        command.args(["test", "--offline", "--package=ckb-script", "--lib", "--", filter]);
        command.current_dir(&self.folder);
        if let Machine::Ours(tier) = self.machine {
            command.env("ANTARES_TIER", tier).env("ANTARES_COUNTS", shares.path());
            command.env("ANTARES_LIBRARIES", std::path::absolute(kept::folder()?)?);
        }
        let output = command.output().context("starting cargo")?;
        let output =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let tests = output.lines().filter_map(result_line).collect::<BTreeMap<_, _>>();
        if !output.contains("\ntest result: ") {
            bail!("the suite did not run to its end:\n{output}");
        }
        let shares = Shares::read(&std::fs::read_to_string(shares.path())?)?;
        Ok(Counts { tests, output, shares })
    }

    /// Builds the tests offline if possible; otherwise fetches missing crates.
    ///
    /// # Errors
    /// The suite cannot be built.
    pub fn build(&self) -> Result<()> {
        let mut output = String::new();
        for offline in [true, false] {
            let mut command = cargo();
            command.args(["test", "--no-run", "--package=ckb-script", "--lib"]).current_dir(&self.folder);
            if offline {
                command.arg("--offline");
            }
            let ended = command.output().context("starting cargo")?;
            if ended.status.success() {
                return Ok(());
            }
            output = String::from_utf8_lossy(&ended.stderr).into_owned();
        }
        bail!("building the suite in {}:\n{output}", self.folder.display())
    }
}

impl Shares {
    /// Sums up the lines that the hook wrote.
    fn read(text: &str) -> Result<Self> {
        let mut shares = Self::default();
        for line in text.lines() {
            let [native, interpreted, left, test] = line.split(' ').collect::<Vec<_>>()[..] else {
                bail!("not a line of counts: {line:?}")
            };
            shares.groups += 1;
            shares.native_cycles += native.parse::<u64>()?;
            shares.interpreted_cycles += interpreted.parse::<u64>()?;
            if left != "-" {
                *shares.restarts.entry(left.to_owned()).or_default() += 1;
                let cycles = shares.restarted_tests.entry(format!("{test} {left}")).or_default();
                *cycles += interpreted.parse::<u64>()?;
            }
        }
        Ok(shares)
    }
}

/// The name and result in a line such as `test verify::tests::x ... ok`. Lines of other threads may be
/// interleaved.
fn result_line(line: &str) -> Option<(String, bool)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    match result.trim_end() {
        result if result.ends_with("ok") => Some((name.to_owned(), true)),
        result if result.ends_with("FAILED") => Some((name.to_owned(), false)),
        _ => None,
    }
}
