//! `service`: measures the overhead of the pool and of gRPC, in addition to the script itself. Prints a table
//! with the targets, and writes `target/bench/service.json`.

mod command;
mod facade;
mod grpc;
mod pool;
mod scripts;
pub(crate) mod server;
mod sessions;
mod transactions;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use serde_json::json;

use crate::report;

/// Median and 99th percentile of a latency.
#[derive(Clone, Copy, Debug)]
struct Latency {
    p50_us: f64,
    p99_us: f64,
}

impl Latency {
    /// Statistics of `times`, which must not be empty.
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
            times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
        };
        Self { p50_us: at(50), p99_us: at(99) }
    }
}

#[derive(Debug, Default)]
struct Results {
    latencies: BTreeMap<String, Latency>,
    throughputs: BTreeMap<String, f64>,
    ratios: BTreeMap<String, f64>,
    /// Figures with other units; the name has the unit.
    figures: BTreeMap<String, f64>,
    /// Mitigations of speculation that the machine offers, and their state.
    controls: BTreeMap<&'static str, String>,
}

impl Results {
    fn latency(&mut self, name: impl Into<String>, times: Vec<Duration>) {
        let (name, latency) = (name.into(), Latency::of(times));
        println!("{name:34} p50 {:9.1} us   p99 {:9.1} us", latency.p50_us, latency.p99_us);
        self.latencies.insert(name, latency);
    }

    fn throughput(&mut self, name: impl Into<String>, per_second: f64) {
        let name = name.into();
        println!("{name:34} {per_second:9.0} /s");
        self.throughputs.insert(name, per_second);
    }

    fn ratio(&mut self, name: impl Into<String>, ratio: f64) {
        let name = name.into();
        println!("{name:34} {ratio:9.3} of bare");
        self.ratios.insert(name, ratio);
    }

    fn control(&mut self, name: &'static str, state: String) {
        println!("{name:34} {state}");
        self.controls.insert(name, state);
    }

    fn figure(&mut self, name: impl Into<String>, figure: f64) {
        let name = name.into();
        println!("{name:34} {figure:9.1}");
        self.figures.insert(name, figure);
    }

    /// All targets: name, value, comparison, limit, and whether it is met.
    fn targets(&self) -> Vec<(&'static str, f64, &'static str, f64, bool)> {
        let p50 = |name: &str| self.latencies.get(name).map_or(f64::NAN, |latency| latency.p50_us);
        let of = |map: &BTreeMap<String, f64>, name: &str| map.get(name).copied().unwrap_or(f64::NAN);
        let best = |prefix: &str| {
            let all = self.throughputs.iter().filter(|(name, _)| name.starts_with(prefix));
            all.map(|(_, value)| *value).fold(f64::NAN, f64::max)
        };
        let most = [
            ("worker_round_trip p50, us", p50("worker_round_trip"), 15.0),
            ("reset_64_kib p50, us", p50("reset_64_kib"), 10.0),
            ("reset_4_mib p50, us", p50("reset_4_mib"), 200.0),
            ("new_artifact p50, us", p50("new_artifact"), 500.0),
            ("new_zygote p50, us", p50("new_zygote"), 3_000.0),
            ("deadline_to_free_slot p50, us", p50("deadline_to_free_slot"), 10_000.0),
            ("grpc_unary p50, us", p50("grpc_unary"), 250.0),
            ("mock_tx unary p50, us", p50("mock_tx_unary"), 1_500.0),
            ("mock_tx run p50, us", p50("mock_tx_run"), 400.0),
            ("dynamic unary p50, us", p50("dynamic_unary"), 3_000.0),
            ("nothing unary p50, us", p50("nothing_unary"), 400.0),
            ("idle worker private KiB", of(&self.figures, "idle_worker_private_kib"), 1_024.0),
        ];
        let least = [
            ("unary /s, best", best("unary_"), 8_000.0),
            ("batched /s, best", best("batched_"), 50_000.0),
            ("mock_tx /s, best", best("mock_tx_batched").max(best("mock_tx_unary")), 1_500.0),
            ("mock_tx over the library", of(&self.figures, "mock_tx_over_library"), 2.0),
            ("sandboxed batch of secp256k1 once", of(&self.ratios, "secp256k1_once"), 0.90),
        ];
        let sandboxed = pool::PROGRAMS.map(|(name, _)| (name, of(&self.ratios, name), 0.97));
        let most = most.map(|(name, value, limit)| (name, value, "<=", limit, value <= limit));
        let least = least.map(|(name, value, limit)| (name, value, ">=", limit, value >= limit));
        let sandboxed = sandboxed.map(|(name, value, limit)| (name, value, ">=", limit, value >= limit));
        most.into_iter().chain(least).chain(sandboxed).collect()
    }

    fn write(&self) -> Result<()> {
        let latency = |latency: &Latency| json!({ "p50": latency.p50_us, "p99": latency.p99_us });
        let latencies: BTreeMap<_, _> = self.latencies.iter().map(|(name, of)| (name, latency(of))).collect();
        let json = json!({
            "latency_us": latencies,
            "throughput_per_s": self.throughputs,
            "sandboxed_over_bare": self.ratios,
            "figures": self.figures,
            "controls": self.controls,
        });
        report::write("service.json", &serde_json::to_string_pretty(&json)?)
    }
}

/// Measures transactions by the command line and by the crate `antares` in this process; fewer rounds if
/// `is_quick`.
pub(crate) fn measure_elsewhere(is_quick: bool) -> Result<()> {
    elsewhere(if is_quick { 1 } else { 5 }, &mut Results::default())
}

fn elsewhere(rounds: usize, results: &mut Results) -> Result<()> {
    facade::measure(Duration::from_millis(600 * rounds as u64), results)?;
    command::measure(rounds, results)
}

/// Measures transactions alone; fewer rounds if `is_quick`.
pub(crate) fn measure_transactions(is_quick: bool) -> Result<()> {
    let rounds = if is_quick { 1 } else { 5 };
    let mut results = Results::default();
    transactions::measure(Duration::from_millis(600 * rounds as u64), &mut results)?;
    elsewhere(rounds, &mut results)
}

/// Measures everything; fewer rounds if `is_quick`.
pub(crate) fn measure(is_quick: bool) -> Result<()> {
    let mut results = Results::default();
    let rounds = if is_quick { 1 } else { 5 };
    pool::measure(rounds, &mut results)?;
    grpc::measure(Duration::from_millis(400 * rounds as u64), &mut results)?;
    transactions::measure(Duration::from_millis(600 * rounds as u64), &mut results)?;
    elsewhere(rounds, &mut results)?;
    println!();
    for (name, value, sign, limit, is_reached) in results.targets() {
        let verdict = if is_reached { "ok" } else { "MISSED" };
        println!("{name:34} {value:11.3} {sign} {limit:<8} {verdict}");
    }
    results.write()
}
