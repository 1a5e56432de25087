//! After a run: its cost, for its tenant and for traces.

use std::time::{Duration, Instant, SystemTime};

use antares_pool::{
    BatchEnd, Verdict,
    job::{RunReport, VerifyReport},
};
use antares_serve::{Account, fact, past_span};

/// Charges a shadow run to its requester, even if the requester has gone away.
pub(crate) struct Bill<'a> {
    account: &'a Account,
    began: Instant,
    /// None if it reported none: then its time counts.
    cycles: Option<u64>,
}

impl<'a> Bill<'a> {
    /// For a run that starts now.
    pub(crate) fn begin(account: &'a Account) -> Self {
        Self { account, began: Instant::now(), cycles: None }
    }

    /// Records the reported cycles.
    pub(crate) fn reported(&mut self, cycles: u64) {
        self.cycles = Some(cycles);
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        match self.cycles {
            Some(cycles) => self.account.ran(1, cycles, self.began.elapsed()),
            None => self.account.ran_for(self.began.elapsed(), u64::MAX),
        }
    }
}

/// Charges a run: its cycles, or its time if it reported none.
pub(crate) fn charge_run(account: &Account, verdict: &Verdict<RunReport>, time: Duration, cycles_max: u64) {
    match verdict {
        Verdict::Done(report) => account.ran(1, report.cycles, time),
        Verdict::FalseReport { .. } => {}
        _ => account.ran_for(time, cycles_max),
    }
}

/// Charges the cycles of runs that reported them, and the time of the one that did not, if any.
pub(crate) fn charge_batch(
    account: &Account,
    BatchEnd { reports, verdict }: &BatchEnd,
    count: usize,
    time: Duration,
    cycles_max: u64,
) {
    if let Verdict::FalseReport { .. } = verdict {
        return;
    }
    let cycles = reports.iter().map(|report| report.cycles).fold(0, u64::saturating_add);
    let is_all = reports.len() >= count;
    let told: u64 = reports.iter().map(|report| report.run_us).fold(0, u64::saturating_add);
    let told = if is_all { time } else { time.min(Duration::from_micros(told)) };
    account.ran(reports.len() as u64, cycles, told);
    if !is_all {
        account.ran_for(time.saturating_sub(told), cycles_max);
    }
}

/// Charges a verification: its cycles, or its time if it reported none.
pub(crate) fn charge_verification(
    account: &Account,
    verdict: &Verdict<VerifyReport>,
    time: Duration,
    cycles_max: u64,
) {
    match verdict {
        Verdict::Done(VerifyReport::Done { cycles, .. }) => account.ran(1, *cycles, time),
        Verdict::Done(VerifyReport::Refused { .. }) | Verdict::FalseReport { .. } => {}
        _ => account.ran_for(time, cycles_max),
    }
}

/// Records the worker's own times as spans: loading, then running, which ended about now.
pub(crate) fn record_spans(report: &RunReport) {
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
