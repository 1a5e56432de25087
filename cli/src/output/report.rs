//! Outcome of a run: one shape for runs here and on a server, for JSON and for people, with exit statuses.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    process::ExitCode,
};

use antares_abi::{ArtifactKey, CodeTier, Isa};
use antares_pool::job::{RunOutcome, RunReport};
use serde::{Serialize, Serializer};

use crate::{
    args::percent::share,
    local::system_calls::{RunLocation, explain},
    output::color::{Mood, paint},
    output::printable,
};

/// Numbers by name, such as the cycles of functions.
pub(crate) type Numbers = BTreeMap<String, u64>;

/// Outcome of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// It exited.
    #[default]
    Exit,
    /// The VM stopped it.
    Error,
    /// It exceeded its cycle limit.
    CyclesExceeded,
    /// It exceeded its wall time.
    DeadlineExceeded,
    /// Its worker violated the sandbox policy and was killed.
    SandboxViolation,
    /// Its worker died for another reason.
    WorkerLost,
}

/// A server's diagnosis of a failed script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDiagnosis {
    /// The diagnosis in JSON; empty if there is none.
    pub json: String,
    /// Why there is none.
    pub missing: String,
}

/// Source of the native code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), expect(dead_code, reason = "only a server keeps artifacts"))]
pub(crate) enum CacheUse {
    /// It was stored.
    Hit,
    /// It was compiled for this run and stored.
    Miss,
    /// No cache was queried or written.
    #[default]
    None,
}

/// Output of `antares run --json`: these keys, in this order, for every run. A contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    pub outcome: Outcome,
    /// With [`Outcome::Exit`]: the exit code.
    pub exit_code: Option<i8>,
    /// With [`Outcome::Error`]: name of the variant of ckb-vm's `Error`.
    pub error: Option<String>,
    /// Details, if any.
    pub error_detail: Option<String>,
    /// Cycles of the run, without [`Report::load_cycles`].
    pub cycles: u64,
    /// ceil(loaded bytes / 4).
    pub load_cycles: u64,
    /// Cycles that ran in native code.
    pub native_cycles: u64,
    /// Cycles that ran in the interpreter.
    pub interpreted_cycles: u64,
    /// Why native code bailed out, if it did.
    pub restarted: Option<String>,
    /// Explanation of `restarted`, if every run of the script bails out.
    pub restarted_detail: Option<&'static str>,
    /// Wall time of a compile for this run, milliseconds; 0 if there was none.
    pub compile_ms: u64,
    /// Wall time of the run itself, microseconds.
    pub run_us: u64,
    /// Key of this script's artifact under these options, used or not.
    #[serde(serialize_with = "as_text")]
    pub artifact: ArtifactKey,
    /// Source of the native code.
    pub cache: CacheUse,
    /// Generator of the native code; none without native code.
    #[serde(serialize_with = "as_name")]
    pub code_tier: Option<CodeTier>,
    /// Lines of debug output, in order.
    pub debug: Vec<String>,
    /// Omitted debug lines: the first beyond the limit, and all after it.
    pub debug_lines_left_out: u64,
    /// Bytes of the omitted lines, plus one for the end of each.
    pub debug_bytes_left_out: u64,
    /// The server's diagnosis, if requested and received.
    #[serde(skip)]
    pub reported: Option<ServerDiagnosis>,
}

fn as_text<S: Serializer>(key: &ArtifactKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}

pub(crate) fn as_name<S: Serializer>(tier: &Option<CodeTier>, serializer: S) -> Result<S::Ok, S::Error> {
    tier.map(CodeTier::name).serialize(serializer)
}

impl Report {
    /// A report of a run without statistics.
    pub(crate) fn without_figures(outcome: Outcome, detail: Option<String>, artifact: ArtifactKey) -> Self {
        Self { outcome, error_detail: detail, artifact, ..Self::default() }
    }

    /// A report of a local worker's answer.
    pub(crate) fn of_worker(run: RunReport, artifact: ArtifactKey) -> Self {
        let (outcome, exit_code, error, error_detail) = match run.outcome {
            RunOutcome::Exit(code) => (Outcome::Exit, Some(code), None, None),
            RunOutcome::Error { name, detail } => (Outcome::Error, None, Some(name), detail),
            RunOutcome::CyclesExceeded => (Outcome::CyclesExceeded, None, None, None),
        };
        Self {
            exit_code,
            error,
            cycles: run.cycles,
            load_cycles: run.load_cycles,
            native_cycles: run.native_cycles,
            interpreted_cycles: run.interpreted_cycles,
            restarted: run.restarted.map(|reason| reason.name().to_owned()),
            run_us: run.run_us,
            debug_lines_left_out: run.debug.omitted().lines,
            debug_bytes_left_out: run.debug.omitted().bytes,
            debug: run.debug.into(),
            ..Self::without_figures(outcome, error_detail, artifact)
        }
    }

    /// 0: exited with 0. 1: ended otherwise. 3: the worker was lost, so the script's outcome is unknown.
    pub(crate) fn exit_status(&self) -> ExitCode {
        ExitCode::from(match (self.outcome, self.exit_code) {
            (Outcome::Exit, Some(0)) => 0,
            (Outcome::WorkerLost, _) => 3,
            _ => 1,
        })
    }

    /// The report for people: outcome first, then its cost.
    pub(crate) fn to_text(&self) -> String {
        let mut text = debug_text(&self.debug, self.debug_lines_left_out, self.debug_bytes_left_out);
        let is_good = (self.outcome, self.exit_code) == (Outcome::Exit, Some(0));
        let mood = if is_good { Mood::Good } else { Mood::Bad };
        let _ = writeln!(text, "{}", paint(&self.ending(), mood));
        if let Some(call) = self.unknown_call() {
            let _ = writeln!(text, "  {}", explain(call, RunLocation::Alone));
        }
        if matches!(self.outcome, Outcome::DeadlineExceeded | Outcome::SandboxViolation | Outcome::WorkerLost)
        {
            return text;
        }
        let _ =
            writeln!(text, "  cycles   {} and {} to load", grouped(self.cycles), grouped(self.load_cycles));
        let _ = writeln!(text, "  tiers    {}{}", self.shares(), left_text(self.restarted.as_deref()));
        if let Some(detail) = self.restarted_detail {
            let _ = writeln!(text, "           {detail}");
        }
        let _ = writeln!(text, "  run      {}", microseconds(self.run_us));
        let _ = writeln!(text, "  compile  {}", self.compile());
        text
    }

    /// The unknown system call that ended the script, if one did.
    fn unknown_call(&self) -> Option<u64> {
        let is_call = self.error.as_deref() == Some("InvalidEcall");
        self.error_detail.as_ref().filter(|_| is_call)?.parse().ok()
    }

    /// Names the exceeded limit, if known.
    pub(crate) fn name_limit(&mut self, cycles_max: Option<u64>) {
        if let (Outcome::CyclesExceeded, None, Some(limit)) = (self.outcome, &self.error_detail, cycles_max) {
            self.error_detail = Some(format!("the limit is {} cycles", grouped(limit)));
        }
    }

    /// Explains whether every run of the script bails out of native code, given its extensions `isa`.
    pub(crate) fn explain_restart(&mut self, isa: Isa) {
        self.restarted_detail = self.restarted.as_deref().and_then(|reason| always_bails_out(reason, isa));
    }

    fn ending(&self) -> String {
        let detail = self.error_detail.as_deref().map(|detail| format!(": {}", printable(detail)));
        let ending = match self.outcome {
            Outcome::Exit => format!("exit {}", self.exit_code.unwrap_or_default()),
            Outcome::Error => format!("error {}", printable(self.error.as_deref().unwrap_or("unknown"))),
            Outcome::CyclesExceeded => "cycle limit exceeded".to_owned(),
            Outcome::DeadlineExceeded => "deadline exceeded; the worker was killed".to_owned(),
            Outcome::SandboxViolation => "violated the sandbox policy; the worker was killed".to_owned(),
            Outcome::WorkerLost => "the worker was lost".to_owned(),
        };
        ending + &detail.unwrap_or_default()
    }

    fn shares(&self) -> String {
        match (self.native_cycles, self.interpreted_cycles) {
            (0, 0) => "nothing was run".to_owned(),
            (_, 0) => self.native(),
            (0, _) => "interpreter".to_owned(),
            (native, interpreted) => {
                format!("{} {}, interpreter {}", self.native(), grouped(native), grouped(interpreted))
            }
        }
    }

    fn native(&self) -> String {
        self.code_tier.map_or_else(|| "native".to_owned(), |tier| format!("native ({tier} code)"))
    }

    fn compile(&self) -> String {
        let key = &self.artifact.to_string()[..16];
        match (self.cache, self.compile_ms) {
            (CacheUse::Hit, _) => format!("none: found in the cache as {key}…"),
            (CacheUse::None, 0) => "none".to_owned(),
            (CacheUse::Miss, ms) => format!("{ms} ms, stored as {key}…"),
            (CacheUse::None, ms) => format!("{ms} ms"),
        }
    }
}

/// Why every run bails out of native code, if it does for `reason` in a script with the extensions `isa`.
fn always_bails_out(reason: &str, isa: Isa) -> Option<&'static str> {
    match reason {
        "ecall" => Some(
            "a system call that a run by itself does not serve: interpreted from the start, in every run",
        ),
        "unsupported" if isa.has(Isa::A) => {
            Some("atomics (+a) have no native code: it is left at the first of them, in every run")
        }
        _ => None,
    }
}

/// The `shown` debug lines, and the number and bytes of those left out.
pub(crate) fn debug_text(shown: &[String], lines: u64, bytes: u64) -> String {
    let shown = shown.iter().map(|line| format!("| {}\n", printable(line.trim_end_matches('\n'))));
    let omitted = match lines {
        0 => String::new(),
        lines => format!("| … {} more lines left out ({} bytes)\n", grouped(lines), grouped(bytes)),
    };
    shown.chain([omitted]).collect()
}

/// Why native code was left, after the figures of a run.
pub(crate) fn left_text(restarted: Option<&str>) -> String {
    restarted.map(|reason| format!(" (native code was left: {})", printable(reason))).unwrap_or_default()
}

/// Rows of functions with self and total cycles, and their shares of all `cycles`.
pub(crate) fn functions_table<'a>(rows: impl Iterator<Item = (&'a str, u64, u64)>, cycles: u64) -> String {
    let mut text = format!("{:>14} {:>7}  {:>14} {:>7}  function\n", "self", "%", "total", "%");
    for (name, own, total) in rows {
        let [own_share, total_share] = [own, total].map(|part| share(part, cycles));
        let _ = writeln!(text, "{own:>14} {own_share:>7}  {total:>14} {total_share:>7}  {name}");
    }
    text
}

/// The names whose numbers differ, with both numbers, those that changed most first.
pub(crate) fn changes<'a>(old: &'a Numbers, new: &'a Numbers) -> Vec<(&'a String, u64, u64)> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let of = |numbers: &Numbers, name: &String| numbers.get(name).copied().unwrap_or(0);
    let both = names.into_iter().map(|name| (name, of(old, name), of(new, name)));
    let mut changed: Vec<_> = both.filter(|(_, old, new)| old != new).collect();
    changed.sort_by_key(|(name, old, new)| (Reverse(old.abs_diff(*new)), *name));
    changed
}

/// A row of a change in Markdown; `note` follows the difference.
pub(crate) fn change_row(name: &str, old: u64, new: u64, note: &str) -> String {
    let sign = if new >= old { '+' } else { '-' };
    let (before, after, by) = (grouped(old), grouped(new), grouped(old.abs_diff(new)));
    format!("| {name} | {before} | {after} | {sign}{by}{note} |\n")
}

/// Digits in groups of three: 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn microseconds(us: u64) -> String {
    if us < 10_000 { format!("{us} us") } else { format!("{}.{} ms", us / 1000, us % 1000 / 100) }
}

#[cfg(test)]
mod tests {
    use antares_abi::Sha256Digest;

    use super::*;

    fn exited(code: i8) -> Report {
        let run = RunReport {
            outcome: RunOutcome::Exit(code),
            cycles: 1_234_567,
            load_cycles: 9,
            native_cycles: 1_234_567,
            interpreted_cycles: 0,
            restarted: None,
            seen: None,
            debug: vec!["hello \u{1b}[31m".to_owned()].into(),
            load_us: 1,
            run_us: 12_345,
            samples: None,
        };
        Report::of_worker(run, Sha256Digest::of(b""))
    }

    #[test]
    fn outcomes_are_named_as_in_the_contract() {
        let names = [
            (Outcome::Exit, "exit"),
            (Outcome::Error, "error"),
            (Outcome::CyclesExceeded, "cycles_exceeded"),
            (Outcome::DeadlineExceeded, "deadline_exceeded"),
            (Outcome::SandboxViolation, "sandbox_violation"),
            (Outcome::WorkerLost, "worker_lost"),
        ];
        for (outcome, name) in names {
            assert_eq!(serde_json::to_value(outcome).unwrap(), name);
        }
    }

    #[test]
    fn exit_status_tells_success_failure_and_ours() {
        let lost = |outcome| Report::without_figures(outcome, None, Sha256Digest::of(b""));
        let status = |report: &Report| format!("{:?}", report.exit_status());
        assert_eq!(status(&exited(0)), format!("{:?}", ExitCode::from(0)));
        assert_eq!(status(&exited(1)), format!("{:?}", ExitCode::from(1)));
        assert_eq!(status(&lost(Outcome::DeadlineExceeded)), format!("{:?}", ExitCode::from(1)));
        assert_eq!(status(&lost(Outcome::WorkerLost)), format!("{:?}", ExitCode::from(3)));
    }

    #[test]
    fn text_is_short_and_harmless() {
        let text = exited(0).to_text();
        let begin = "| hello \\u001b[31m\nexit 0\n  cycles   1,234,567 and 9 to load\n";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("12.3 ms"), "{text}");
        let lost =
            Report::without_figures(Outcome::WorkerLost, Some("signal 9".to_owned()), Sha256Digest::of(b""));
        assert_eq!(lost.to_text(), "the worker was lost: signal 9\n");
    }

    #[test]
    fn what_every_run_leaves_native_code_for_is_said() {
        let reported = |reason: Option<&str>, isa| {
            let mut report = exited(0);
            report.restarted = reason.map(str::to_owned);
            report.explain_restart(isa);
            let detail = report.restarted_detail.unwrap_or_default();
            assert!(detail.is_empty() || report.to_text().contains(&format!("\n           {detail}\n")));
            detail
        };
        assert!(reported(Some("ecall"), Isa::IMC).contains("system call"));
        assert!(reported(Some("unsupported"), Isa(Isa::IMC.0 | Isa::A.0)).contains("atomics"));
        for (reason, isa) in [(None, Isa::A), (Some("unsupported"), Isa::IMC), (Some("bad_address"), Isa::A)]
        {
            assert_eq!(reported(reason, isa), "");
        }
    }
}
