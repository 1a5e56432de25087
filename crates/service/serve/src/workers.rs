//! The metrics of a pool of workers, from numbers that the pool keeps.

use crate::metrics::{Metrics, set_gauge, set_total};

/// How a pool of workers does; counts are since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerNumbers {
    /// Workers with a job.
    pub busy: u64,
    /// Workers that wait for another job of their kind.
    pub resting: u64,
    /// Workers alive at once, at most.
    pub workers_max: u64,
    /// Workers started.
    pub spawned_total: u64,
    /// Jobs done by workers that had done one before.
    pub reused_total: u64,
    /// Workers that died without an answer.
    pub lost_total: u64,
    /// Workers killed because they broke a rule.
    pub violations_total: u64,
    /// Of these, workers whose native code touched memory far from all that it may touch.
    pub wild_faults_total: u64,
    /// Of these, workers whose report could not be true.
    pub false_reports_total: u64,
    /// Libraries whose machine code was refused.
    pub code_refused_total: u64,
    /// Workers killed because their time was up.
    pub deadline_total: u64,
    /// Workers that were looked at from outside.
    pub inspected_total: u64,
    /// Of these, workers whose fence was not whole.
    pub unfenced_total: u64,
    /// Looks from outside that found nobody.
    pub blind_total: u64,
    /// Workers that the kernel did not let be made.
    pub not_forked_total: u64,
    /// Times that the zygote was lost and replaced.
    pub zygote_restarts_total: u64,
    /// Times that the zygote was replaced because it had made enough workers, or was old.
    pub zygote_renewals_total: u64,
}

impl Metrics {
    /// Exports the numbers of the pool `role` (`compile`, `run`), read at every scrape.
    pub fn watch_workers(&self, role: &'static str, read: impl Fn() -> WorkerNumbers + Send + 'static) {
        let gauge = |name: &str, help: &str| self.gauges(name, help, &["role"]).with_label_values(&[role]);
        let counter =
            |name: &str, help: &str| self.counters(name, help, &["role"]).with_label_values(&[role]);
        let busy = gauge("antares_workers_busy", "Worker processes with a job.");
        let resting = gauge("antares_workers_resting", "Worker processes that wait for another job.");
        let most = gauge("antares_workers_max", "Worker processes with a job at once, at most.");
        let spawned = counter("antares_workers_spawned_total", "Worker processes started.");
        let reused =
            counter("antares_workers_reused_total", "Jobs done by workers that had done one before.");
        let lost = counter("antares_workers_lost_total", "Workers that died without an answer.");
        let violations =
            counter("antares_sandbox_violations_total", "Workers killed because they broke a rule.");
        let false_reports = counter(
            "antares_false_reports_total",
            "Violations by workers and zygotes whose report cannot be true.",
        );
        let wild = counter(
            "antares_wild_faults_total",
            "Violations by native code that touched memory far from all that it may touch.",
        );
        let refused =
            counter("antares_code_refused_total", "Compiled libraries whose machine code was refused.");
        let deadline = counter("antares_workers_deadline_total", "Workers killed because their time was up.");
        let inspected =
            counter("antares_workers_inspected_total", "Workers looked at, as the kernel sees them.");
        let unfenced =
            counter("antares_workers_unfenced_total", "Of these, workers with an incomplete sandbox.");
        let blind = counter(
            "antares_workers_blind_total",
            "Looks at workers that saw nobody, not even the zygote: /proc hides them.",
        );
        let not_forked = counter(
            "antares_workers_not_forked_total",
            "Workers that the kernel did not let be made: too many processes, or too little memory.",
        );
        let restarts =
            counter("antares_zygote_restarts_total", "Times that the zygote was lost and replaced.");
        let renewals = counter(
            "antares_zygote_renewals_total",
            "Times that the zygote was replaced by a new one in time.",
        );
        self.before_scrape(move || {
            let now = read();
            set_gauge(&busy, now.busy);
            set_gauge(&resting, now.resting);
            set_gauge(&most, now.workers_max);
            set_total(&spawned, now.spawned_total);
            set_total(&reused, now.reused_total);
            set_total(&lost, now.lost_total);
            set_total(&violations, now.violations_total);
            set_total(&wild, now.wild_faults_total);
            set_total(&false_reports, now.false_reports_total);
            set_total(&refused, now.code_refused_total);
            set_total(&deadline, now.deadline_total);
            set_total(&inspected, now.inspected_total);
            set_total(&unfenced, now.unfenced_total);
            set_total(&blind, now.blind_total);
            set_total(&not_forked, now.not_forked_total);
            set_total(&restarts, now.zygote_restarts_total);
            set_total(&renewals, now.zygote_renewals_total);
        });
    }

    /// Exports which layers of the fence stand around the workers of `role`: 1 or 0 each.
    pub fn sandbox_layers<'a>(&self, role: &str, layers: impl IntoIterator<Item = (&'a str, bool)>) {
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
        metrics.watch_workers("compile", || WorkerNumbers { lost_total: 1, ..WorkerNumbers::default() });
        metrics.watch_workers("run", || WorkerNumbers { lost_total: 2, ..WorkerNumbers::default() });
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
