//! The registry behind `/metrics`, and gauges and counters that are read at every scrape.

use std::{any::Any, collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use prometheus::{
    CounterVec, Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder, core::Collector, process_collector::ProcessCollector,
    proto::MetricFamily,
};

use crate::openmetrics::{self, Exemplars, TracedHistograms};

/// Seconds of a gRPC call, from the semantic conventions, with extra steps for local calls and for the
/// longest runs.
pub const RPC_SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5,
    5.0, 7.5, 10.0, 30.0, 60.0, 120.0,
];

/// Seconds of a run, in steps of a factor up to 2.5, which bounds the error of quantiles between 5 us and two
/// minutes. Alerts select 0.05.
pub const RUN_SECONDS: &[f64] = &[
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 120.0,
];

/// Seconds of a compile.
pub const COMPILE_SECONDS: &[f64] =
    &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// All metrics of a process. Cheap to clone. Registering a family twice returns the same one, so that both
/// services can count workers in one process. Names and labels are constants of this workspace: an invalid
/// one is a bug and panics at start.
#[derive(Clone, Default)]
pub struct Metrics {
    registry: Registry,
    families: Arc<Mutex<HashMap<String, Box<dyn Any + Send>>>>,
    hooks: Arc<Mutex<Vec<Hook>>>,
    exemplars: Arc<Mutex<HashMap<String, Exemplars>>>,
}

type Hook = Box<dyn Fn() + Send>;

/// A metric without labels: its name, its help, and its value in a struct of numbers.
pub type MetricRow<T> = (&'static str, &'static str, fn(&T) -> u64);

impl Metrics {
    /// A registry with the process's own metrics (memory, file descriptors, CPU seconds).
    pub fn new() -> Self {
        let metrics = Self::default();
        made(metrics.registry.register(Box::new(ProcessCollector::for_self())));
        metrics
    }

    /// Sets `antares_build_info`: always 1, labelled with the running version. The log starts with the same.
    pub fn build_info(&self, facts: &[(&str, String)]) {
        let names: Vec<_> = facts.iter().map(|(name, _)| *name).collect();
        let values: Vec<_> = facts.iter().map(|(_, value)| value.as_str()).collect();
        let family = self.gauges("antares_build_info", "Version of the running program; always 1.", &names);
        family.with_label_values(&values).set(1);
        let fact =
            |wanted| facts.iter().find(|(name, _)| *name == wanted).map_or("unknown", |(_, value)| value);
        tracing::info!(
            version = fact("version"),
            revision = fact("revision"),
            engine = fact("engine"),
            llvm = fact("llvm"),
            "starting"
        );
    }

    pub fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.family(name, || IntCounter::new(name, help))
    }

    /// Counters with labels.
    pub fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.family(name, || IntCounterVec::new(Opts::new(name, help), labels))
    }

    /// Counters with one label, with all its `values` as zeros from the start.
    pub fn counters_of(&self, name: &str, help: &str, label: &str, values: &[&str]) -> IntCounterVec {
        let counters = self.counters(name, help, &[label]);
        values.iter().for_each(|value| drop(counters.with_label_values(&[value])));
        counters
    }

    /// Floating-point counters with labels.
    pub fn float_counters(&self, name: &str, help: &str, labels: &[&str]) -> CounterVec {
        self.family(name, || CounterVec::new(Opts::new(name, help), labels))
    }

    pub fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.family(name, || IntGauge::new(name, help))
    }

    /// Gauges with labels.
    pub fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.family(name, || IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        let opts = || HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.family(name, || Histogram::with_opts(opts()))
    }

    /// Histograms with labels.
    pub fn histograms(&self, name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> HistogramVec {
        let opts = || HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.family(name, || HistogramVec::new(opts(), labels))
    }

    /// Histograms with labels, sorted by name, and an example trace in each bucket.
    pub(crate) fn traced_histograms(
        &self,
        name: &str,
        help: &str,
        bounds: &'static [f64],
        labels: &[&str],
    ) -> TracedHistograms {
        let family = self.histograms(name, help, bounds, labels);
        let exemplars = self.exemplars.lock().entry(name.to_owned()).or_default().clone();
        TracedHistograms { family, bounds, exemplars }
    }

    /// Exports the values of `read` at every scrape: a gauge for each row of a name, a help and a value, or a
    /// counter if the name ends so.
    pub fn watch<T: 'static, const N: usize>(
        &self,
        rows: [MetricRow<T>; N],
        read: impl Fn() -> T + Send + 'static,
    ) {
        let rows = rows.map(|(name, help, value)| {
            let set: Box<dyn Fn(&T) + Send> = if name.ends_with("_total") {
                let counter = self.counter(name, help);
                Box::new(move |now| set_total(&counter, value(now)))
            } else {
                let gauge = self.gauge(name, help);
                Box::new(move |now| set_gauge(&gauge, value(now)))
            };
            set
        });
        self.before_scrape(move || {
            let now = read();
            rows.iter().for_each(|set| set(&now));
        });
    }

    /// Calls `hook` before every scrape: it sets metrics to external numbers.
    pub fn before_scrape(&self, hook: impl Fn() + Send + 'static) {
        self.hooks.lock().push(Box::new(hook));
    }

    /// The text format of all metrics. Runs the hooks, which may wait for locks.
    ///
    /// # Errors
    /// A metric cannot be written (a bug in its registration).
    pub fn text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.gather(), &mut text)?;
        Ok(text)
    }

    /// Like [`Self::text`], in the OpenMetrics format, with exemplars.
    pub fn open_metrics(&self) -> String {
        let families = self.gather();
        openmetrics::text(&families, &self.exemplars.lock())
    }

    fn gather(&self) -> Vec<MetricFamily> {
        // One scrape at a time: a hook resets a counter before it sets it.
        let hooks = self.hooks.lock();
        hooks.iter().for_each(|hook| hook());
        self.registry.gather()
    }

    #[track_caller]
    fn family<C>(&self, name: &str, make: impl Fn() -> prometheus::Result<C>) -> C
    where
        C: Collector + Clone + 'static,
    {
        let mut families = self.families.lock();
        if let Some(family) = families.get(name).and_then(|family| family.downcast_ref::<C>()) {
            return family.clone();
        }
        let family = made(make());
        made(self.registry.register(Box::new(family.clone())));
        families.insert(name.to_owned(), Box::new(family.clone()));
        family
    }
}

/// Sets `counter` to `total`, counted elsewhere.
pub fn set_total(counter: &IntCounter, total: u64) {
    counter.reset();
    counter.inc_by(total);
}

/// Adds `number`, reported by a worker, to `counter`, saturating at its maximum.
pub fn add_saturating(counter: &IntCounter, number: u64) {
    counter.inc_by(number.min(u64::MAX - counter.get()));
}

/// Sets `gauge` to `value`, which is in range in practice.
pub fn set_gauge(gauge: &IntGauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// Counts in a gauge during its lifetime.
#[derive(Debug)]
pub struct Counted(IntGauge);

impl Counted {
    /// Adds one to `gauge`.
    pub fn one_in(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[track_caller]
fn made<T>(result: prometheus::Result<T>) -> T {
    match result {
        Ok(metric) => metric,
        Err(error) => panic!("a metric is declared wrongly: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_run_before_a_scrape_and_totals_do_not_add_up() {
        let metrics = Metrics::new();
        metrics
            .watch([("antares_test_total", "T.", |now| *now), ("antares_test", "T.", |now| now + 1)], || 7);
        for _ in 0..2 {
            let text = String::from_utf8(metrics.text().unwrap()).unwrap();
            assert!(text.contains("\nantares_test_total 7\n"), "{text}");
            assert!(text.contains("# TYPE antares_test gauge\nantares_test 8\n"), "{text}");
        }
    }

    #[test]
    fn no_run_is_far_from_a_bound() {
        assert_eq!((RUN_SECONDS[0], RUN_SECONDS[RUN_SECONDS.len() - 1]), (0.000_005, 120.0));
        for pair in RUN_SECONDS.windows(2) {
            assert!(pair[0] < pair[1] && pair[1] / pair[0] < 2.5001, "{pair:?}");
        }
        assert!(RUN_SECONDS.contains(&0.05));
        assert!(RPC_SECONDS.is_sorted() && RPC_SECONDS.contains(&120.0));
    }

    #[test]
    fn counters_do_not_begin_again() {
        let counter = Metrics::new().counter("antares_test_total", "Test.");
        for number in [5, u64::MAX, u64::MAX, 7] {
            add_saturating(&counter, number);
        }
        assert_eq!(counter.get(), u64::MAX);
    }
}
