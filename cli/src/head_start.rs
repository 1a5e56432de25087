//! The first moments of a verification: the interpreter in a child of this process, behind its fence. What it
//! ends takes no worker and no native code; what it does not end begins again elsewhere, from the same bytes.
//! Only a plain end counts: whatever else becomes of the child, the workers find out what is to be said.

use std::{
    env,
    time::{Duration, Instant},
};

use antares_pool::{
    HostPipes, Hosted,
    job::{self, LeftOut, Lines, Tier, VerifyOutcome, VerifyReport},
};
use antares_transaction::Mock;
use antares_verifier::{
    CellName, GroupKind, GroupReport, Prepared, QuickInterpreter, Selection, StopHandle, TransactionLimits,
    TransactionOutcome, TransactionReport, Verifier,
};

use crate::{
    limits::{CYCLES_MAX_DEFAULT, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX},
    verdict::Verdict,
    verify_request::Request,
};

/// How long the interpreter has, milliseconds; 0: it does not begin.
const KEY: &str = "ANTARES_HEAD_START_MS";
/// About as long as zygote and worker take to be there.
const MS_DEFAULT: u64 = 20;
/// As long as a verification may take by default.
const MS_MAX: u64 = DEADLINE_MS_DEFAULT;

/// The verdict, if the interpreter has it by then.
pub(crate) fn verify(request: &Request, mock: &Mock) -> Option<Verdict> {
    let time = Duration::from_millis(milliseconds(env::var(KEY).ok().as_deref()));
    if request.tier == Tier::Native || request.code.full || time.is_zero() {
        return None;
    }
    let until = Instant::now() + request.deadline.map_or(time, |deadline| deadline.min(time));
    // Without a child, or with one that is lost, there are the workers.
    let mut child = Hosted::fork(|pipes| run(request, mock, &pipes)).ok()??;
    match child.verified_until(until, DEBUG_BYTES_MAX).ok()?? {
        VerifyReport::Done { outcome, cycles, groups, read_us, run_us, .. } => {
            Some(Verdict::of_worker(outcome, cycles, groups, (read_us, run_us)))
        }
        VerifyReport::Refused { .. } => None,
    }
}

/// What `text` asks for; without sense, the default.
fn milliseconds(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(MS_DEFAULT).min(MS_MAX)
}

/// In the child: verifies, and tells how that ended.
fn run(request: &Request, mock: &Mock, pipes: &HostPipes) {
    let start = Instant::now();
    let Ok(prepared) = Prepared::new(mock, &request.environment) else { return };
    let limits = TransactionLimits {
        cycles_max: request.cycles_max.unwrap_or(CYCLES_MAX_DEFAULT),
        debug_bytes_max: DEBUG_BYTES_MAX,
    };
    let selection = match request.group {
        None => Selection::All,
        Some((kind, cell)) => selection(kind, cell),
    };
    let read_us = micros(start);
    let start = Instant::now();
    let verified = Verifier::new(prepared, limits, QuickInterpreter, StopHandle::new()).verify(selection);
    let Some(report) = verified.ok().and_then(|report| to_report(report, read_us, micros(start))) else {
        return;
    };
    // Without the parent there is nothing left to do.
    let _ = pipes.tell_verified(report);
}

fn micros(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn selection(kind: job::GroupKind, cell: job::CellName) -> Selection {
    let index = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
    let kind = match kind {
        job::GroupKind::Lock => GroupKind::Lock,
        job::GroupKind::Type => GroupKind::Type,
    };
    let cell = match cell {
        job::CellName::Input(input) => CellName::Input(index(input)),
        job::CellName::Output(output) => CellName::Output(index(output)),
    };
    Selection::Group { kind, cell }
}

/// As a worker tells it; none of what is no end.
fn to_report(report: TransactionReport, read_us: u64, run_us: u64) -> Option<VerifyReport> {
    let groups = report.groups.into_iter().map(to_group).collect::<Option<_>>()?;
    Some(VerifyReport::Done {
        outcome: to_outcome(report.outcome)?,
        cycles: report.cycles,
        groups,
        hot: Vec::new(),
        seen: Vec::new(),
        ran: Vec::new(),
        samples: None,
        read_us,
        run_us,
    })
}

fn to_group(group: GroupReport) -> Option<job::GroupReport> {
    let indices = |indices: Vec<usize>| -> Vec<u32> {
        indices.into_iter().map(|index| u32::try_from(index).unwrap_or(u32::MAX)).collect()
    };
    let left_out = LeftOut { lines: group.debug_lines_left_out, bytes: group.debug_bytes_left_out };
    Some(job::GroupReport {
        script_hash: group.script_hash,
        kind: match group.kind {
            GroupKind::Lock => job::GroupKind::Lock,
            GroupKind::Type => job::GroupKind::Type,
        },
        outcome: to_outcome(group.outcome)?,
        exit_code: group.exit_code,
        error: group.error.map(|error| job::GroupError {
            kind: error.name.to_owned(),
            vm_error: error.vm_error.map(ToOwned::to_owned),
            source: error.source,
            detail: error.detail,
        }),
        cycles: group.cycles,
        native_cycles: group.counts.native_cycles,
        interpreted_cycles: group.counts.interpreted_cycles,
        restarted: group.counts.restarted.map(ToOwned::to_owned),
        debug: Lines::from(group.debug).and_left_out(left_out),
        inputs: indices(group.inputs),
        outputs: indices(group.outputs),
    })
}

fn to_outcome(outcome: TransactionOutcome) -> Option<VerifyOutcome> {
    match outcome {
        TransactionOutcome::Ok => Some(VerifyOutcome::Ok),
        TransactionOutcome::Failed => Some(VerifyOutcome::Failed),
        TransactionOutcome::NotRun => Some(VerifyOutcome::NotRun),
        TransactionOutcome::Cancelled => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_start_is_a_number_within_bounds() {
        assert_eq!([None, Some("x"), Some("-1")].map(milliseconds), [MS_DEFAULT; 3]);
        assert_eq!([Some("0"), Some("7"), Some("99999")].map(milliseconds), [0, 7, MS_MAX]);
    }
}
