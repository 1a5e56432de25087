//! Compile time of shapes of code: processor time of both generators, for a size and its double. It fails
//! where the double takes more than [`RATIO_MAX`] times as long, or the full tier more than
//! [`SECONDS_PER_100_KB_MAX`]. Or instructions of the baseline, which are the same however busy the machine
//! is.

use std::{ffi::OsStr, fs};

use antares_abi::{CodeTier, Hints};
use antares_tests::{
    native,
    shapes::{SHAPES, Shape, code_bytes},
    stopwatch::timed,
};
use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::{instructions, programs::OPTIONS};

/// First argument of the process that is counted: compiles the next one with the baseline, if there is one.
pub(crate) const ONCE_COMPILED: &str = "--once-compiled";

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

impl Cost {
    fn per_100_kb(&self) -> f64 {
        self.seconds * 1e5 / self.code_bytes as f64
    }
}

/// What the process behind [`ONCE_COMPILED`] does.
pub(crate) fn compile_once(files: &[String]) -> Result<()> {
    for file in files {
        let library = native::library_with(&fs::read(file)?, OPTIONS, CodeTier::Baseline, &Hints::default())?;
        library.map_err(|reason| anyhow!("{file}: {reason}"))?;
    }
    Ok(())
}

/// Counts what the baseline takes; prints a line for each shape.
pub(crate) fn count() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let once: &OsStr = ONCE_COMPILED.as_ref();
    let start = instructions::of_this_program("no-shape", &[once])?;
    println!("shapes: KB of code, millions of instructions of the baseline, of twice the size, ratio");
    let mut failed = Vec::new();
    for shape in &SHAPES {
        let counted = |times: usize| -> Result<(u64, u64)> {
            let elf = shape.elf(times * shape.count)?;
            let path = folder.path().join("shape");
            fs::write(&path, &elf)?;
            let all = instructions::of_this_program("shape", &[once, path.as_os_str()])?;
            Ok((code_bytes(&elf, OPTIONS)?, all.saturating_sub(start)))
        };
        let ((bytes, one), (_, two)) = (counted(1)?, counted(2)?);
        let ratio = two as f64 / one as f64;
        let [kilobytes, one, two] = [bytes as f64 / 1e3, one as f64 / 1e6, two as f64 / 1e6];
        println!("{:<24} {kilobytes:>6.1} {one:>7.0} {two:>7.0} {ratio:>5.2}", shape.name);
        if ratio > RATIO_MAX {
            failed.push(shape.name);
        }
    }
    ensure!(failed.is_empty(), "these take too much longer for twice the size: {}", failed.join(", "));
    Ok(())
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
        "shapes: KB of code, seconds of processor time, the most for 100 KB, of twice the size, ratio, bytes of library"
    );
    for shape in &SHAPES {
        for tier in CodeTier::ALL {
            let [one, two] = [1, 2].map(|times| cost(shape, times * shape.count, (tier, rounds)));
            let (one, two) = (one?, two?);
            let ratio = two.seconds / one.seconds;
            // What takes long at one size may be beyond a limit at twice that.
            let per_100_kb = [&one, &two].map(Cost::per_100_kb).into_iter().fold(0.0, f64::max);
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
