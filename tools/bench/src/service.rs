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

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::report;

/// A number, or the state of a mitigation of speculation.
#[derive(Serialize)]
struct Measured {
    name: String,
    value: f64,
    unit: String,
}

#[derive(Default)]
pub(crate) struct Results(Vec<Measured>);

/// A limit of a value.
enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Results {
    /// Records a value. If the name has the unit, `unit` is empty.
    fn record(&mut self, name: impl Into<String>, value: f64, unit: impl Into<String>) {
        let (name, unit) = (name.into(), unit.into());
        println!("{name:40} {value:12.3} {unit}");
        self.0.push(Measured { name, value, unit });
    }

    /// Records the mean rate of all rounds for each number of clients or threads.
    fn rates<const N: usize>(&mut self, counts: [usize; N], sums: [f64; N], name: impl Fn(usize) -> String) {
        for (count, sum) in counts.into_iter().zip(sums) {
            self.record(name(count), sum / f64::from(transactions::ROUNDS), "/s");
        }
    }

    /// The median and the 99th percentile of `times`.
    fn latency(&mut self, name: impl Into<String>, mut times: Vec<Duration>) {
        let name = name.into();
        times.sort_unstable();
        for percent in [50, 99] {
            let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
            let time = times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6);
            self.record(format!("{name} p{percent}"), time, "us");
        }
    }

    /// The largest value of this unit with one of the names between `|`; those with `*` at their end are
    /// beginnings of names.
    fn best(&self, names: &str, unit: &str) -> f64 {
        let is_named = |measured: &&Measured| {
            names.split('|').any(|name| match name.strip_suffix('*') {
                Some(start) => measured.name.starts_with(start),
                None => measured.name == name,
            })
        };
        let found = self.0.iter().filter(is_named).filter(|measured| measured.unit == unit);
        found.map(|measured| measured.value).fold(f64::NAN, f64::max)
    }

    /// Prints each target, and whether it is met.
    fn print_targets(&self) {
        use Target::{AtLeast, AtMost};
        let targets = [
            ("worker_round_trip p50", "us", AtMost(15.0)),
            ("reset_64_kib p50", "us", AtMost(10.0)),
            ("reset_4_mib p50", "us", AtMost(200.0)),
            ("new_artifact p50", "us", AtMost(500.0)),
            ("new_zygote p50", "us", AtMost(3_000.0)),
            ("deadline_to_free_slot p50", "us", AtMost(10_000.0)),
            ("grpc_unary p50", "us", AtMost(250.0)),
            ("mock_tx_unary p50", "us", AtMost(1_500.0)),
            ("mock_tx_run p50", "us", AtMost(400.0)),
            ("dynamic_unary p50", "us", AtMost(3_000.0)),
            ("nothing_unary p50", "us", AtMost(400.0)),
            ("idle_worker_private_kib", "", AtMost(1_024.0)),
            ("unary_*", "/s", AtLeast(8_000.0)),
            ("batched_*", "/s", AtLeast(50_000.0)),
            ("mock_tx_over_library", "", AtLeast(10.0)),
            ("dynamic_over_library", "", AtLeast(10.0)),
            ("nothing_over_library", "", AtLeast(1.5)),
            ("distinct_over_library", "", AtLeast(10.0)),
            ("distinct_sessions_64_over_1", "", AtLeast(0.9)),
            ("mock_tx_facade_over_library_2", "", AtLeast(15.0)),
            ("mock_tx_facade_2_over_1", "", AtLeast(1.9)),
            ("dynamic_facade_over_library_2", "", AtLeast(15.0)),
            ("dynamic_facade_2_over_1", "", AtLeast(1.9)),
            ("nothing_facade_over_library_2", "", AtLeast(5.0)),
            ("secp256k1_once", "of bare", AtLeast(0.90)),
        ];
        let sandboxed = pool::PROGRAMS.map(|(name, _)| (name, "of bare", AtLeast(0.97)));
        for (name, unit, target) in targets.into_iter().chain(sandboxed) {
            let value = self.best(name, unit);
            let (sign, limit, is_met) = match target {
                AtMost(limit) => ("<=", limit, value <= limit),
                AtLeast(limit) => (">=", limit, value >= limit),
            };
            let verdict = if is_met { "ok" } else { "MISSED" };
            println!("{name:34} {value:11.3} {unit:7} {sign} {limit:<8} {verdict}");
        }
    }
}

/// Measures transactions by the command line and by the crate `antares` in this process.
pub(crate) fn measure_elsewhere(rounds: usize, results: &mut Results) -> Result<()> {
    facade::measure(Duration::from_millis(600 * rounds as u64), results)?;
    command::measure(rounds, results)
}

/// Measures transactions alone.
pub(crate) fn measure_transactions(rounds: usize, results: &mut Results) -> Result<()> {
    transactions::measure(Duration::from_millis(600 * rounds as u64), results)?;
    measure_elsewhere(rounds, results)
}

/// Measures everything.
pub(crate) fn measure(rounds: usize, results: &mut Results) -> Result<()> {
    pool::measure(rounds, results)?;
    grpc::measure(Duration::from_millis(400 * rounds as u64), results)?;
    measure_transactions(rounds, results)?;
    println!();
    results.print_targets();
    report::write("service.json", &results.0)
}
