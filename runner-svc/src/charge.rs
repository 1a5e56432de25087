//! After a run: what it cost, for its tenant and for traces.

use std::time::{Duration, SystemTime};

use antares_pool::{
    Verdict,
    job::{RunReport, VerifyReport},
};
use antares_serve::{Account, fact, past_span};

/// Charges a run: its cycles, or where it told none the time that it had.
pub(crate) fn charge_run(account: &Account, verdict: &Verdict<RunReport>, time: Duration, cycles_max: u64) {
    match verdict {
        Verdict::Done(report) => account.ran(report.cycles),
        _ => account.ran_for(time, cycles_max),
    }
}

/// Charges runs that told their cycles, and the one that did not for the time, if there was one.
pub(crate) fn charge_batch(
    account: &Account,
    reports: &[RunReport],
    count: usize,
    time: Duration,
    cycles_max: u64,
) {
    account.ran(reports.iter().map(|report| report.cycles).fold(0, u64::saturating_add));
    if reports.len() < count {
        let told: u64 = reports.iter().map(|report| report.run_us).fold(0, u64::saturating_add);
        account.ran_for(time.saturating_sub(Duration::from_micros(told)), cycles_max);
    }
}

/// Charges a verification: its cycles, or where it told none the time that it had.
pub(crate) fn charge_verification(
    account: &Account,
    verdict: &Verdict<VerifyReport>,
    time: Duration,
    cycles_max: u64,
) {
    match verdict {
        Verdict::Done(VerifyReport::Done { cycles, .. }) => account.ran(*cycles),
        Verdict::Done(VerifyReport::Refused { .. }) => {}
        _ => account.ran_for(time, cycles_max),
    }
}

/// The worker's own times as spans: it ended about now, ran before that, and loaded before that.
pub(crate) fn tell_spans(report: &RunReport) {
    let (load, run) = (Duration::from_micros(report.load_us), Duration::from_micros(report.run_us));
    let end = SystemTime::now();
    let facts = vec![
        fact("cycles", report.cycles),
        fact("native_cycles", report.native_cycles),
        fact("interpreted_cycles", report.interpreted_cycles),
    ];
    past_span("load", end - run - load, load, vec![fact("load_cycles", report.load_cycles)]);
    past_span("run", end - run, run, facts);
}
