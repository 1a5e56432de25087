//! What was measured, as the simulation takes it: times as they are spread, from `target/bench/service.json`.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::report;

/// Steps between the least and the greatest time that are written down.
const STEPS: usize = 20;

/// Times in their order; any share of them is as long as it says, or shorter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    /// Of `times`, in any order.
    pub(crate) fn of(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        Self(times)
    }

    /// What `share` of them do not pass, from 0 to 1; between two that were measured, what lies between.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a length")]
    pub(crate) fn at(&self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return 0.0 };
        let place = share.clamp(0.0, 1.0) * last as f64;
        let below = (place as usize).min(last);
        let (low, high) = (self.0[below], self.0[(below + 1).min(last)]);
        low + (high - low) * (place - below as f64)
    }

    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The same spread around another mean.
    pub(crate) fn with_mean(&self, mean: f64) -> Self {
        let factor = mean / self.mean();
        Self(self.0.iter().map(|time| time * factor).collect())
    }

    /// At equal steps from the least to the greatest.
    pub(crate) fn to_json(&self) -> Value {
        let at = |step: usize| (self.at(step as f64 / STEPS as f64) * 10.0).round() / 10.0;
        json!((0..=STEPS).map(at).collect::<Vec<_>>())
    }

    fn from_json(value: &Value) -> Option<Self> {
        let times: Vec<f64> = value.as_array()?.iter().filter_map(Value::as_f64).collect();
        (!times.is_empty()).then(|| Self::of(times))
    }
}

/// All that a cluster is made of, microseconds of processor time where nothing else is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// What calls take of a runner and its workers: their share of all calls, and their times.
    pub(crate) calls: Vec<(f64, Times)>,
    /// What a compiler takes to hand out an artifact.
    pub(crate) get_us: Times,
    /// How long the object store takes where the compiler has not got it; wall time.
    pub(crate) store_us: Times,
    /// A baseline compile.
    pub(crate) compile_us: Times,
    /// The full compile behind it.
    pub(crate) full_us: Times,
    /// Lengths of artifacts, bytes.
    pub(crate) artifact_bytes: Times,
}

/// Which share of the calls runs which script.
pub(crate) const MIX: [(&str, f64); 3] = [("trivial", 0.3), ("secp256k1", 0.6), ("script_1_ms", 0.1)];

impl Measured {
    /// As the last `make bench-service` has found it.
    pub(crate) fn read() -> Result<Self> {
        let path = report::folder().join("service.json");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{}: `make bench-service` writes it", path.display()))?;
        let json: Value = serde_json::from_str(&text)?;
        let times = |name: &str| {
            let found = Times::from_json(&json["distributions"][name]);
            found.with_context(|| format!("{} has no {name}: run `make bench-service`", path.display()))
        };
        let call = |(name, share): &(&str, f64)| Ok((*share, times(&format!("call_{name}_us"))?));
        Ok(Self {
            calls: MIX.iter().map(call).collect::<Result<_>>()?,
            get_us: times("get_us")?,
            store_us: times("store_us")?,
            compile_us: times("baseline_compile_us")?,
            full_us: times("full_compile_us")?,
            artifact_bytes: times("artifact_bytes")?,
        })
    }

    /// What a call takes: which script it is for is drawn by `which`, and how long that takes by `share`.
    pub(crate) fn call(&self, which: f64, share: f64) -> f64 {
        let mut left = which;
        for (part, times) in &self.calls {
            if left < *part {
                return times.at(share);
            }
            left -= part;
        }
        self.calls.last().map_or(0.0, |(_, times)| times.at(share))
    }

    pub(crate) fn call_mean_us(&self) -> f64 {
        self.calls.iter().map(|(part, times)| part * times.mean()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_all_calls() {
        assert!((MIX.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn times_come_back_as_they_were_written() {
        let times = Times::of((0..=1_000).map(f64::from).rev().collect());
        assert_eq!(
            [times.at(0.0), times.at(0.5), times.at(0.9995), times.at(1.0)],
            [0.0, 500.0, 999.5, 1_000.0]
        );
        let back = Times::from_json(&times.to_json()).unwrap();
        assert!((back.at(0.37) - 370.0).abs() < 1e-6 && (back.mean() - times.mean()).abs() < 1e-6);
        assert!((times.with_mean(10.0).at(0.5) - 10.0).abs() < 1e-9);
        assert_eq!((Times::default().at(0.5), Times::default().mean()), (0.0, 0.0));
    }

    #[test]
    fn a_call_is_of_the_script_that_was_drawn() {
        let one = |time: f64| Times::of(vec![time]);
        let measured = Measured { calls: vec![(0.3, one(1.0)), (0.7, one(2.0))], ..Measured::default() };
        assert_eq!([0.0, 0.29, 0.31, 0.9999999].map(|which| measured.call(which, 0.5)), [1.0, 1.0, 2.0, 2.0]);
        assert!((measured.call_mean_us() - 1.7).abs() < 1e-9);
    }
}
