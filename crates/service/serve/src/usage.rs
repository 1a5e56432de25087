//! Usage of tenants: counted immediately for each, and summed for each call's line in the audit log.

use std::{fmt, mem};

use parking_lot::Mutex;
use prometheus::{Counter, CounterVec, IntCounter, IntCounterVec};

use crate::metrics::{Metrics, add_saturating};

/// Microseconds per second.
const SECOND_US: f64 = 1e6;

/// Amounts of usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// Calls refused for a quota, for lack of capacity, or for their caller.
    pub(crate) refused_calls: u64,
    /// Script runs and transaction verifications that used a worker.
    pub(crate) runs: u64,
    /// Guest cycles reported by workers. A run without a report adds none.
    pub(crate) guest_cycles: u64,
    /// Time of run workers, microseconds.
    pub(crate) run_us: u64,
    /// Compiles.
    pub(crate) compiles: u64,
    /// Time of compile workers, microseconds.
    pub(crate) compile_us: u64,
    /// Bytes of newly stored scripts.
    pub(crate) stored_bytes: u64,
}

impl Amounts {
    /// Adds `more`, saturating.
    fn add(&mut self, more: &Self) {
        for (sum, more) in [
            (&mut self.refused_calls, more.refused_calls),
            (&mut self.runs, more.runs),
            (&mut self.guest_cycles, more.guest_cycles),
            (&mut self.run_us, more.run_us),
            (&mut self.compiles, more.compiles),
            (&mut self.compile_us, more.compile_us),
            (&mut self.stored_bytes, more.stored_bytes),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Counters of usage: of all tenants, or of one.
#[derive(Debug)]
pub(crate) struct Counters<Count, Seconds> {
    pub(crate) calls: Count,
    refused_calls: Count,
    runs: Count,
    guest_cycles: Count,
    run_seconds: Seconds,
    compiles: Count,
    compile_seconds: Seconds,
    stored_bytes: Count,
}

pub(crate) type TenantMetrics = Counters<IntCounterVec, CounterVec>;
pub(crate) type TenantCounters = Counters<IntCounter, Counter>;

impl TenantMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let help = |what: &str| format!("{what} by tenant; the first 32 by name.");
        let counts = |name: &str, what: &str| metrics.counters(name, &help(what), &["tenant"]);
        let seconds = |name: &str, what: &str| metrics.float_counters(name, &help(what), &["tenant"]);
        Self {
            calls: counts("antares_tenant_calls_total", "Calls"),
            refused_calls: counts("antares_tenant_refused_calls_total", "Refused calls"),
            runs: counts("antares_tenant_runs_total", "Runs and verifications"),
            guest_cycles: counts("antares_tenant_guest_cycles_total", "Guest cycles"),
            run_seconds: seconds("antares_tenant_run_seconds_total", "Time of run workers"),
            compiles: counts("antares_tenant_compiles_total", "Compiles"),
            compile_seconds: seconds("antares_tenant_compile_seconds_total", "Time of compile workers"),
            stored_bytes: counts("antares_tenant_stored_bytes_total", "Bytes of newly stored scripts"),
        }
    }

    /// The counters of the tenant with this label.
    pub(crate) fn of(&self, label: &str) -> TenantCounters {
        let label = &[label];
        TenantCounters {
            calls: self.calls.with_label_values(label),
            refused_calls: self.refused_calls.with_label_values(label),
            runs: self.runs.with_label_values(label),
            guest_cycles: self.guest_cycles.with_label_values(label),
            run_seconds: self.run_seconds.with_label_values(label),
            compiles: self.compiles.with_label_values(label),
            compile_seconds: self.compile_seconds.with_label_values(label),
            stored_bytes: self.stored_bytes.with_label_values(label),
        }
    }
}

impl TenantCounters {
    #[expect(clippy::cast_precision_loss, reason = "285 years of microseconds are exact")]
    pub(crate) fn add(&self, used: &Amounts) {
        add_saturating(&self.refused_calls, used.refused_calls);
        add_saturating(&self.runs, used.runs);
        add_saturating(&self.guest_cycles, used.guest_cycles);
        self.run_seconds.inc_by(used.run_us as f64 / SECOND_US);
        add_saturating(&self.compiles, used.compiles);
        self.compile_seconds.inc_by(used.compile_us as f64 / SECOND_US);
        add_saturating(&self.stored_bytes, used.stored_bytes);
    }
}

/// Usage of a call that is not in the audit log yet. Usage after the call's line is logged when the last work
/// for the call ends, which drops this.
#[derive(Default)]
pub(crate) struct CallUsage(Mutex<Unlogged>);

#[derive(Default)]
struct Unlogged {
    used: Amounts,
    log: Option<Box<dyn FnOnce(Amounts) + Send>>,
}

impl CallUsage {
    pub(crate) fn add(&self, more: &Amounts) {
        self.0.lock().used.add(more);
    }

    /// Takes the usage so far; `log` gets later usage, if any.
    pub(crate) fn take(&self, log: impl FnOnce(Amounts) + Send + 'static) -> Amounts {
        let mut unlogged = self.0.lock();
        unlogged.log = Some(Box::new(log));
        mem::take(&mut unlogged.used)
    }
}

impl Drop for CallUsage {
    fn drop(&mut self) {
        let Unlogged { used, log } = mem::take(&mut *self.0.lock());
        if let Some(log) = log.filter(|_| used != Amounts::default()) {
            log(used);
        }
    }
}

impl fmt::Debug for CallUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallUsage").field(&self.0.lock().used).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn runs(runs: u64) -> Amounts {
        Amounts { runs, ..Amounts::default() }
    }

    #[test]
    fn sums_stay_at_the_highest_number() {
        let counters = TenantMetrics::new(&Metrics::new()).of("a");
        let usage = CallUsage::default();
        for more in [runs(7), runs(u64::MAX)] {
            counters.add(&more);
            usage.add(&more);
        }
        assert_eq!((counters.runs.get(), usage.take(drop)), (u64::MAX, runs(u64::MAX)));
    }

    #[test]
    fn what_comes_after_the_line_is_logged_once_at_the_end() {
        let late = Arc::new(Mutex::new(Vec::new()));
        let log = || {
            let late = late.clone();
            move |used| late.lock().push(used)
        };
        let usage = CallUsage::default();
        usage.add(&runs(1));
        assert_eq!(usage.take(log()), runs(1));
        usage.add(&runs(2));
        usage.add(&runs(3));
        assert!(late.lock().is_empty());
        drop(usage);
        assert_eq!(*late.lock(), [runs(5)]);
        let nothing = CallUsage::default();
        nothing.take(log());
        drop(nothing);
        assert_eq!(late.lock().len(), 1);
    }
}
