//! Compile time of shapes of code: processor time of both generators, for a size and its double. It fails where the double takes
//! more than [`RATIO_MAX`] times as long, or the full tier more than [`SECONDS_PER_100_KB_MAX`].

use antares_abi::{CodeTier, Hints};
use antares_tests::{
    native,
    shapes::{SHAPES, Shape, code_bytes},
    stopwatch::timed,
};
use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::programs::OPTIONS;

/// How much longer twice the size may take.
const RATIO_MAX: f64 = 2.3;

/// What 100 KB of code may take in the full tier.
const SECONDS_PER_100_KB_MAX: f64 = 3.0;

/// Compiles of each size at most, of which the shortest counts.
const ROUNDS_MAX: usize = 3;

/// Less is not compared with its double: what does not depend on the size is most of it.
const SECONDS_MIN: f64 = 0.005;

/// What a size of a shape takes.
struct Cost {
    code_bytes: u64,
    seconds: f64,
    library_bytes: usize,
}

fn cost(shape: &Shape, count: usize, (tier, rounds): (CodeTier, usize)) -> Result<Cost> {
    let elf = shape.elf(count)?;
    let code_bytes = code_bytes(&elf, OPTIONS)?;
    let mut best: Option<Cost> = None;
    for _ in 0..rounds {
        let (library, time) = timed(|| native::library_with(&elf, OPTIONS, tier, &Hints::default()));
        let library_bytes = library?.map_err(|reason| anyhow!("{}: {reason}", shape.name))?.len();
        let seconds = time.as_secs_f64();
        if best.as_ref().is_none_or(|best| seconds < best.seconds) {
            best = Some(Cost { code_bytes, seconds, library_bytes });
        }
    }
    best.ok_or_else(|| anyhow!("nothing was compiled"))
}

/// Prints a line for each shape and tier.
pub(crate) fn measure(rounds: usize) -> Result<Vec<Value>> {
    let rounds = rounds.min(ROUNDS_MAX);
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    println!(
        "shapes: KB of code, seconds of processor time, for 100 KB, of twice the size, ratio, bytes of library"
    );
    for shape in &SHAPES {
        for tier in CodeTier::ALL {
            let [one, two] = [1, 2].map(|times| cost(shape, times * shape.count, (tier, rounds)));
            let (one, two) = (one?, two?);
            let ratio = two.seconds / one.seconds;
            let per_100_kb = two.seconds * 1e5 / two.code_bytes as f64;
            println!(
                "{:<24} {:<8} {:>6.1} {:>7.3} {per_100_kb:>6.2} {:>7.3} {ratio:>5.2} {:>9}",
                shape.name,
                tier.to_string(),
                one.code_bytes as f64 / 1e3,
                one.seconds,
                two.seconds,
                two.library_bytes,
            );
            let is_dear = tier == CodeTier::Full && per_100_kb > SECONDS_PER_100_KB_MAX;
            if is_dear || (ratio > RATIO_MAX && one.seconds > SECONDS_MIN) {
                failed.push(format!("{} ({tier})", shape.name));
            }
            rows.push(json!({
                "shape": shape.name, "tier": tier.to_string(), "code_bytes": [one.code_bytes, two.code_bytes],
                "seconds": [one.seconds, two.seconds], "library_bytes": [one.library_bytes, two.library_bytes],
            }));
        }
    }
    ensure!(
        failed.is_empty(),
        "these take too long, or too much longer for twice the size: {}",
        failed.join(", ")
    );
    Ok(rows)
}
