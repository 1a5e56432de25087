//! What was measured, as the simulation takes it: from `target/bench/service.json`.

use std::fs;

use antares_capacity::{Measured, Times};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::report;

/// Steps between the least and the greatest time that are written down.
const STEPS: usize = 20;

/// Times at equal steps from the least to the greatest.
pub(crate) fn to_json(times: &Times) -> Value {
    let at = |step: usize| (times.at(step as f64 / STEPS as f64) * 10.0).round() / 10.0;
    json!((0..=STEPS).map(at).collect::<Vec<_>>())
}

fn from_json(value: &Value) -> Option<Times> {
    let times: Vec<f64> = value.as_array()?.iter().filter_map(Value::as_f64).collect();
    (!times.is_empty()).then(|| Times::of(times))
}

/// Which share of the calls runs which script.
pub(crate) const MIX: [(&str, f64); 3] = [("trivial", 0.3), ("secp256k1", 0.6), ("script_1_ms", 0.1)];

/// As the last `make bench-service` has found it.
pub(crate) fn read() -> Result<Measured> {
    let path = report::folder().join("service.json");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("{}: `make bench-service` writes it", path.display()))?;
    let json: Value = serde_json::from_str(&text)?;
    let times = |name: &str| {
        let found = from_json(&json["distributions"][name]);
        found.with_context(|| format!("{} has no {name}: run `make bench-service`", path.display()))
    };
    let call = |(name, share): &(&str, f64)| Ok((*share, times(&format!("call_{name}_us"))?));
    Ok(Measured {
        calls: MIX.iter().map(call).collect::<Result<_>>()?,
        get_us: times("get_us")?,
        store_us: times("store_us")?,
        compile_us: times("baseline_compile_us")?,
        full_us: times("full_compile_us")?,
        artifact_bytes: times("artifact_bytes")?,
    })
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
        let back = from_json(&to_json(&times)).unwrap();
        assert!((back.at(0.37) - 370.0).abs() < 1e-6 && (back.mean() - times.mean()).abs() < 1e-6);
    }
}
