//! Which calls to a compiler are hedged, and what is counted of it.

use std::time::Duration;

use antares_client::hedge::{Hedge, HedgeBudget, HedgeEvent};
use antares_serve::Metrics;
use prometheus::IntCounterVec;

/// How long a compiler is waited for that is as good as gone, where it may have what another one has not: a
/// script is read in less. A compile may take long.
const SCRIPT_SILENCE_MAX: Duration = Duration::from_secs(2);

/// A call that may be made twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The bytes of a script.
    Script,
    /// Native code, compiled if need be. Only those that were compiled say how long it takes: a compile that
    /// takes no longer than others is not made by two.
    Artifact,
}

/// Names of calls and results for the metric.
const CALLS: [&str; 2] = ["script", "artifact"];
const RESULTS: [&str; 3] = ["won", "lost", "no_budget"];

/// The calls that are hedged. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Hedges {
    budget: HedgeBudget,
    calls: [Hedge; CALLS.len()],
    counts: IntCounterVec,
}

impl Hedges {
    /// Of a hundred calls, `percent` may be made twice; 0 for none.
    pub(crate) fn new(percent: u64, metrics: &Metrics) -> Self {
        let help = "Calls to a compiler that took longer than most and may be made by the next one too, by what became of them.";
        let counts = metrics.counters("antares_compiler_hedges_total", help, &["call", "result"]);
        for call in CALLS {
            RESULTS.iter().for_each(|result| drop(counts.with_label_values(&[call, result])));
        }
        let budget = HedgeBudget::new(percent);
        let calls = [Some(SCRIPT_SILENCE_MAX), None].map(|silence| Hedge::new(budget.clone(), silence));
        Self { budget, calls, counts }
    }

    /// Whether calls are made twice at all.
    pub(crate) fn is_on(&self) -> bool {
        self.budget.is_on()
    }

    pub(crate) fn of(&self, asked: Asked) -> &Hedge {
        &self.calls[asked as usize]
    }

    pub(crate) fn count(&self, asked: Asked, event: HedgeEvent) {
        let result = match event {
            HedgeEvent::Won { .. } => "won",
            HedgeEvent::Lost => "lost",
            HedgeEvent::NoBudget => "no_budget",
        };
        self.counts.with_label_values(&[CALLS[asked as usize], result]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_call_has_its_counters_and_its_patience() {
        let metrics = Metrics::new();
        let hedges = Hedges::new(10, &metrics);
        hedges.count(Asked::Artifact, HedgeEvent::Won { is_gone: true });
        let text = String::from_utf8(metrics.text().unwrap()).unwrap();
        for line in [
            "antares_compiler_hedges_total{call=\"artifact\",result=\"won\"} 1",
            "antares_compiler_hedges_total{call=\"artifact\",result=\"no_budget\"} 0",
            "antares_compiler_hedges_total{call=\"script\",result=\"lost\"} 0",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        let silence = |asked| hedges.of(asked).silence_max();
        assert_eq!((silence(Asked::Script), silence(Asked::Artifact)), (Some(SCRIPT_SILENCE_MAX), None));
        assert!(hedges.is_on() && !Hedges::new(0, &metrics).is_on());
    }
}
