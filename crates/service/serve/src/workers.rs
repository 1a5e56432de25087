//! A service's worker pool: its configuration and metrics.

use antares_config::{Config, SpeculationLimit};
use antares_pool::{
    GroupConfig, Layer, Pool, PoolConfig, PoolError, PoolStats, Renewal, Speculation, worker_path,
};

use crate::metrics::{Metrics, set_gauge, set_total};

/// Names of the sandbox's layers, as `sandbox.allow_degraded` may list them.
pub fn layer_names() -> [&'static str; Layer::ALL.len()] {
    Layer::ALL.map(Layer::name)
}

/// Configuration of a pool of workers of the program `worker`, from `config`. In a control group a worker may
/// use `memory_bytes_max`.
///
/// # Errors
/// The program is missing.
pub fn pool_config(
    config: &Config,
    worker: &str,
    workers: usize,
    memory_bytes_max: u64,
) -> Result<PoolConfig, PoolError> {
    let sandbox = &config.sandbox;
    let has = |limit| sandbox.speculation_limits.contains(&limit);
    Ok(PoolConfig {
        allow_degraded: sandbox.allow_degraded.iter().filter_map(|name| name.parse().ok()).collect(),
        renewal: Renewal { workers_max: sandbox.zygote_workers_max, age_max: sandbox.zygote_age_max },
        speculation: Speculation {
            limit_store_bypass: has(SpeculationLimit::StoreBypass),
            limit_indirect_branches: has(SpeculationLimit::IndirectBranches),
            own_core: has(SpeculationLimit::CoreScheduling),
        },
        group: sandbox.cgroup.clone().map(|folder| GroupConfig { folder, memory_bytes_max }),
        ..PoolConfig::new(worker_path(worker)?, workers)
    })
}

macro_rules! numbers {
    ($($field:ident: $make:ident, $set:ident, $name:literal, $help:literal;)*) => {
        impl Metrics {
            fn watch_workers(&self, role: &'static str, read: impl Fn() -> PoolStats + Send + 'static) {
                $(let $field = self.$make($name, $help, &["role"]).with_label_values(&[role]);)*
                self.before_scrape(move || {
                    let now = read();
                    $($set(&$field, now.$field as u64);)*
                });
            }
        }
    };
}

numbers! {
    busy: gauges, set_gauge, "antares_workers_busy", "Worker processes with a job.";
    resting: gauges, set_gauge, "antares_workers_resting", "Worker processes that wait for another job.";
    workers_max: gauges, set_gauge, "antares_workers_max", "Worker processes with a job at once, at most.";
    spawned_total: counters, set_total, "antares_workers_spawned_total", "Worker processes started.";
    reused_total: counters, set_total, "antares_workers_reused_total",
        "Jobs done by workers that had done one before.";
    lost_total: counters, set_total, "antares_workers_lost_total", "Workers that died without an answer.";
    violations_total: counters, set_total, "antares_sandbox_violations_total",
        "Workers killed because they broke a rule.";
    false_reports_total: counters, set_total, "antares_false_reports_total",
        "Violations by workers and zygotes whose report cannot be true.";
    wild_faults_total: counters, set_total, "antares_wild_faults_total",
        "Violations by native code that touched memory far from all that it may touch.";
    code_refused_total: counters, set_total, "antares_code_refused_total",
        "Compiled libraries whose machine code was refused.";
    deadline_total: counters, set_total, "antares_workers_deadline_total",
        "Workers killed because their time was up.";
    inspected_total: counters, set_total, "antares_workers_inspected_total",
        "Workers looked at, as the kernel sees them.";
    unfenced_total: counters, set_total, "antares_workers_unfenced_total",
        "Of these, workers with an incomplete sandbox.";
    blind_total: counters, set_total, "antares_workers_blind_total",
        "Inspections of workers that found no process, not even the zygote, because /proc hides them.";
    not_forked_total: counters, set_total, "antares_workers_not_forked_total",
        "Workers that the kernel did not let be made: too many processes, or too little memory.";
    zygote_restarts_total: counters, set_total, "antares_zygote_restarts_total",
        "Times that the zygote was lost and replaced.";
    zygote_renewals_total: counters, set_total, "antares_zygote_renewals_total",
        "Times that the zygote was replaced by a new one in time.";
}

impl Metrics {
    /// Exports `pool` under `role`: its workers, and their sandbox layers.
    pub fn watch_pool(&self, role: &'static str, pool: Pool) {
        self.sandbox_layers(role, pool.layers().iter().map(|status| (status.layer.name(), status.active)));
        self.watch_workers(role, move || {
            pool.inspect();
            pool.stats()
        });
    }

    fn sandbox_layers<'a>(&self, role: &str, layers: impl IntoIterator<Item = (&'a str, bool)>) {
        let help = "Layers of the workers' sandbox: 1 if the layer is in place.";
        let family = self.gauges("antares_sandbox_info", help, &["role", "layer"]);
        for (layer, active) in layers {
            family.with_label_values(&[role, layer]).set(active.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pools_share_their_families() {
        let metrics = Metrics::new();
        metrics.watch_workers("compile", || PoolStats { lost_total: 1, ..PoolStats::default() });
        metrics.watch_workers("run", || PoolStats { lost_total: 2, ..PoolStats::default() });
        metrics.sandbox_layers("run", [("seccomp", true), ("namespaces", false)]);
        let text = String::from_utf8(metrics.text().unwrap()).unwrap();
        for line in [
            "antares_workers_lost_total{role=\"compile\"} 1",
            "antares_workers_lost_total{role=\"run\"} 2",
            "antares_sandbox_info{layer=\"seccomp\",role=\"run\"} 1",
            "antares_sandbox_info{layer=\"namespaces\",role=\"run\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
