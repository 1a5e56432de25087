//! A case file: directives, code, expectations.

use std::fmt::Write as _;

use antares_abi::{CodeTier, CompileLimits, CompileOptions, Hints, Isa};
use antares_compiler::{Optimize, optimize_counted};
use antares_ir::Module;
use antares_program::Program;
use antares_tests::{guests, oracle};
use anyhow::{Context, Result, bail, ensure};

use crate::show::{Shown, show};

/// Prefix of an expectation; the stage's name follows.
const EXPECTATION: &str = "#=== ";

/// Cycle limit of runs.
const CYCLES_MAX: u64 = 1_000_000;

pub(crate) struct Case {
    /// Directives and code, verbatim.
    pub(crate) head: String,
    pub(crate) options: CompileOptions,
    args: Vec<String>,
    stages: Vec<String>,
}

impl Case {
    /// Reads a case file.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let head = text.split_once(EXPECTATION).map_or(text, |(head, _)| head);
        let directive = |name: &str| {
            let start = format!("# {name}: ");
            head.lines().find_map(|line| line.strip_prefix(&start).map(str::trim))
        };
        let vm_version = directive("version").context("no directive `version`")?.parse()?;
        let isa = directive("isa").map_or(Ok(Isa::of_version(vm_version)), str::parse)?;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let stages = words(directive("show").context("no directive `show`")?);
        if stages.is_empty() {
            bail!("nothing is shown");
        }
        Ok(Self {
            head: format!("{}\n", head.trim_end()),
            options: CompileOptions { vm_version, isa },
            args: directive("args").map(words).unwrap_or_default(),
            stages,
        })
    }

    pub(crate) fn elf(&self) -> Result<Vec<u8>> {
        guests::assemble(&self.head)
    }

    /// The run of the code.
    pub(crate) fn oracle_case(&self) -> Result<oracle::Case> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        Ok(oracle::Case::new(&self.elf()?, &args, self.options, CYCLES_MAX))
    }

    /// The current output of each stage.
    pub(crate) fn shown(&self) -> Result<Vec<Shown>> {
        let elf = self.elf()?;
        self.stages.iter().map(|stage| show(self, &elf, stage)).collect()
    }

    /// The functions and blocks of the code.
    pub(crate) fn program(&self) -> Result<Program> {
        let limits = CompileLimits::default();
        let image = antares_program::read(&self.elf()?, self.options, &limits)?;
        Ok(antares_program::recover(&image, &limits, &Hints::default())?)
    }

    /// The IR of the code, for the generator of `tier`.
    pub(crate) fn module(&self, tier: CodeTier) -> Result<Module> {
        self.lowered(antares_opt::optimize, tier)
    }

    /// The IR of the code, with counters of its control flow.
    pub(crate) fn counted_module(&self) -> Result<Module> {
        self.lowered(optimize_counted, CodeTier::Baseline)
    }

    fn lowered(&self, optimize: Optimize, tier: CodeTier) -> Result<Module> {
        let lowered = antares_compiler::lower(optimize, &self.program()?, 1 << 20, tier)?;
        ensure!(lowered.unproved_functions == 0, "the verifier refuses what was optimised");
        Ok(lowered.module)
    }

    /// The file with these expectations.
    pub(crate) fn with_expectations(&self, shown: &[Shown]) -> String {
        let mut text = self.head.clone();
        for Shown { stage, lines } in shown {
            let _ = writeln!(text, "\n{EXPECTATION}{stage}");
            for line in lines {
                text.push_str(format!("# {line}").trim_end());
                text.push('\n');
            }
        }
        text
    }
}
