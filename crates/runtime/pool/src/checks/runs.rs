//! Checks reports on the run of one script.

use std::time::Duration;

use antares_abi::{BailoutReason, Seen};

use super::{
    Checked, KnownRun, LINE_BYTES_MAX, TEXT_BYTES_MAX, Terms, ensure, micros, profiles::check_samples,
};
use crate::job::{Lines, RunOutcome, RunReport, VM_ERRORS};

/// Maximum cycles for loading a script: an ELF file's maximum number of segments, each as large as guest
/// memory, with four bytes per cycle.
const LOAD_CYCLES_MAX: u64 = (1 << 16) * (LINE_BYTES_MAX / 4 + 1);

pub(super) fn check(report: &RunReport, known: &KnownRun) -> Checked {
    let RunReport { cycles, native_cycles, interpreted_cycles, .. } = *report;
    let terms = known.terms;
    match &report.outcome {
        RunOutcome::Exit(_) => {
            ensure(cycles > 0, "an exit without a cycle")?;
            ensure(cycles <= terms.cycles_max, "an exit past the cycle limit")?;
        }
        RunOutcome::Error { name, detail } => {
            ensure(VM_ERRORS.contains(&&**name), "an error that no VM has")?;
            ensure(detail.as_ref().is_none_or(|text| text.len() <= TEXT_BYTES_MAX), "too long a text")?;
        }
        RunOutcome::CyclesExceeded => {}
    }
    ensure(cycles <= terms.cycles_end(), "more cycles than the limit")?;
    ensure(report.load_cycles <= LOAD_CYCLES_MAX, "more cycles of loading than a script can have")?;
    ensure(native_cycles.checked_add(interpreted_cycles) == Some(cycles), "cycles that are no tier's")?;
    ensure(native_cycles == 0 || interpreted_cycles == 0, "a run in both tiers")?;
    ensure(native_cycles == 0 || terms.may_be_native, "native cycles without native code")?;
    let reason = report.restarted;
    ensure(reason.is_none() || terms.may_be_native, "a restart without native code")?;
    ensure(native_cycles == 0 || reason.is_none(), "a restart that stayed in native code")?;
    check_seen(report.seen.as_ref(), reason)?;
    check_lines(&report.debug, terms)?;
    check_samples(report.samples.as_ref(), terms, &[known.script])
}

pub(super) fn time(report: &RunReport) -> Duration {
    micros(report.load_us, report.run_us)
}

fn check_seen(seen: Option<&Seen>, reason: Option<BailoutReason>) -> Checked {
    let is_astray = matches!(reason, Some(BailoutReason::UnknownTarget | BailoutReason::Unsupported));
    ensure(seen.is_none() || is_astray, "places that native code does not know, without going there")
}

/// Each line has an end, and costs cycles.
pub(super) fn check_lines(lines: &Lines, terms: Terms) -> Checked {
    ensure(lines.are_whole(), "debug output without an end")?;
    let left_out = lines.omitted();
    let written = left_out.lines.saturating_add(lines.count() as u64);
    ensure(written <= terms.cycles_end(), "more lines than cycles")?;
    let most = left_out.lines.saturating_mul(LINE_BYTES_MAX);
    ensure((left_out.lines..=most).contains(&left_out.bytes), "lines left out of another length")
}
