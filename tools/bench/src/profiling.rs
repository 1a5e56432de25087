//! Measures the cost of always-on sampling: the time of sampled runs relative to unsampled ones in one
//! interleaved loop, and instructions by callgrind.

use antares_tests::{guests, native};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    engine::Engine,
    instructions,
    programs::{OPTIONS, PROGRAMS, Program},
    report::Spread,
};

/// Programs of each kind: long straight-line code, calls, loops, memory, jumps.
const NAMES: [&str; 8] =
    ["secp256k1", "rsa1024", "keccak", "mldsa", "sphincs", "sort", "mulmod", "interpreter"];
/// Alternating runs of each kind per round; their sums are compared.
const RUNS: u32 = 8;
/// Divisor of the repetitions under callgrind.
const PART: u32 = 25;
/// Maximum overhead of sampling.
const LIMIT: f64 = 0.01;

/// Measures all programs; prints a line for each.
pub(crate) fn measure(rounds: usize) -> Result<Vec<Value>> {
    println!("always-on profiles: what samples add to the time and to the instructions of a run, per cent");
    let programs = PROGRAMS.iter().filter(|program| NAMES.contains(&program.name));
    programs.map(|program| one(program, rounds).with_context(|| program.name)).collect()
}

fn one(program: &Program, rounds: usize) -> Result<Value> {
    let elf = guests::bytes(program.guest)?;
    let library = native::library_in_parallel(&elf, OPTIONS)?.bytes;
    let mut engine = Engine::new(elf, &library)?;
    let (mut ratios, mut stacks, mut cycles) = (Vec::new(), 0, 0);
    for round in 0..rounds as u64 {
        let (mut plain, mut sampled) = (0.0, 0.0);
        for run in 0..u64::from(RUNS) {
            // Alternate the order, so that effects of one run on the next are balanced.
            let is_first = run % 2 == 0;
            if is_first {
                plain += engine.run(program.repetitions)?.time.as_secs_f64();
            }
            let (with, count) = engine.run_sampled(program.repetitions, round * u64::from(RUNS) + run)?;
            sampled += with.time.as_secs_f64();
            (stacks, cycles) = (count, with.cycles);
            if !is_first {
                plain += engine.run(program.repetitions)?.time.as_secs_f64();
            }
        }
        ratios.push(100.0 * (sampled / plain - 1.0));
    }
    ensure!(stacks > 0, "no sample was taken");
    let time = Spread::of(ratios);
    let instructions = 100.0 * instructions::sampled_part(program, (program.repetitions / PART).max(1))?;
    let verdict = if instructions <= 100.0 * LIMIT && time.median <= 100.0 * LIMIT { "ok" } else { "MISSED" };
    println!(
        "{:<16} time {time}  instructions {instructions:7.4}  (limit {:.1}) {verdict}   {cycles} cycles, {stacks} stacks",
        program.name,
        100.0 * LIMIT
    );
    Ok(json!({
        "name": program.name,
        "time_percent": time.median,
        "time_quartiles": [time.low, time.high],
        "instructions_percent": instructions,
        "rounds": rounds,
    }))
}
