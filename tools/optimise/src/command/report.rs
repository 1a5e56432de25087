//! The rewriter's report: cycles before and after, rewrites, and unchanged functions.

use std::{fmt::Write as _, path::Path};

use antares_abi::Sha256Digest;
use antares_cli::{args::share, commands::profile::Profiled, failure::Failure, output};
use antares_optimise::{Optimised, Rewrite, Untouched};
use antares_profile_view::{View, diff_markdown};
use anyhow::Context as _;
use serde::Serialize;

/// Maximum findings and functions shown.
const ROWS: usize = 10;

/// Maximum rewrites shown in Markdown; JSON has all.
const REWRITES: usize = 40;

/// A report.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    sha256_before: String,
    sha256_after: String,
    /// Measured; `None` if nothing was run.
    cycles_before: Option<u64>,
    cycles_after: Option<u64>,
    /// Savings in the inputs, according to the cost model.
    saved_by_model: u64,
    /// Number of pieces that the search tried.
    tried: usize,
    rewrites: &'a [Rewrite],
    /// Functions that must not change.
    untouched: &'a [Untouched],
    #[serde(skip)]
    functions: Vec<String>,
}

impl<'a> Report<'a> {
    /// Creates the report for the file `elf` and its runs before and after.
    pub(crate) fn new(made: &'a Optimised, elf: &[u8], before: &[Profiled], after: &[Profiled]) -> Self {
        let sum = |runs: &[Profiled]| -> Option<u64> {
            (!runs.is_empty()).then(|| runs.iter().map(|run| run.profile.sum().cycles).sum())
        };
        let pairs = before.iter().zip(after);
        let functions = pairs.map(|(before, after)| {
            let [before, after] = [before, after].map(|run| View::new(&run.profile, &run.programs));
            diff_markdown(&before, &after, ROWS)
        });
        let written = made.rewrites.iter().filter(|rewrite| rewrite.refused.is_none());
        Self {
            sha256_before: Sha256Digest::of(elf).to_string(),
            sha256_after: Sha256Digest::of(&made.elf).to_string(),
            cycles_before: sum(before),
            cycles_after: sum(after),
            saved_by_model: written.map(Rewrite::saved).sum(),
            tried: made.tried,
            rewrites: &made.rewrites,
            untouched: &made.untouched,
            functions: functions.collect(),
        }
    }

    /// Writes the report to `path`, as JSON if it ends in `.json`.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        match path.extension() {
            Some(end) if end == "json" => output::write(path, &self.json()?),
            _ => output::write(path, output::printable(&self.markdown()).as_bytes()),
        }
    }

    fn json(&self) -> Result<Vec<u8>, Failure> {
        serde_json::to_vec_pretty(self).context("the report cannot be written").map_err(Failure::Service)
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("# Fewer cycles\n\n");
        if let (Some(before), Some(after)) = (self.cycles_before, self.cycles_after) {
            let saved = share(before.saturating_sub(after), before);
            let _ = writeln!(text, "{before} cycles before, {after} after: {saved} % fewer, measured.\n");
        }
        let refused = self.rewrites.iter().filter(|rewrite| rewrite.refused.is_some()).count();
        let _ = writeln!(
            text,
            "{} pieces of code were tried. {} were rewritten, and {refused} more that the checker refused.\n",
            self.tried,
            self.rewrites.len() - refused
        );
        let Self { sha256_before, sha256_after, .. } = self;
        let _ = writeln!(text, "The script's SHA-256 changes from {sha256_before} to {sha256_after}.\n");
        for functions in &self.functions {
            let _ = writeln!(text, "## Functions\n\n{functions}");
        }
        self.write_rewrites(&mut text);
        self.write_untouched(&mut text);
        text
    }

    fn write_rewrites(&self, text: &mut String) {
        text.push_str(
            "## Rewrites\n\n| at | function | bytes | runs | cycles before | after | what | refused |\n",
        );
        text.push_str("|---|---|---:|---:|---:|---:|---|---|\n");
        for rewrite in self.rewrites.iter().take(REWRITES) {
            let Rewrite { pc, bytes, runs, cycles_before, cycles_after, rules, .. } = rewrite;
            let rules: Vec<_> = rules.iter().map(|(rule, count)| format!("{count} {rule:?}")).collect();
            let function = cell(&rewrite.function);
            let (rules, refused) = (rules.join(", "), rewrite.refused.as_deref().unwrap_or_default());
            let _ = writeln!(
                text,
                "| {pc:#x} | `{function}` | {bytes} | {runs} | {cycles_before} | {cycles_after} | {rules} | {refused} |"
            );
        }
    }

    fn write_untouched(&self, text: &mut String) {
        text.push_str("\n## Functions that stay as they are\n\n| function | why | where |\n|---|---|---|\n");
        for Untouched { name, why, at } in self.untouched {
            let _ = writeln!(text, "| `{}` | {why} | {at:#x} |", cell(name));
        }
    }
}

fn cell(name: &str) -> String {
    name.replace(['|', '`', '\n'], "'")
}
