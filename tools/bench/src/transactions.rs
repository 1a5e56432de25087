//! Whole transactions compared with ckb-script and ckb-vm's `AsmMachine`, in the same loop: already parsed,
//! and from JSON.

use std::fs;

use antares_tests::{guests::debugger_examples, stopwatch::timed, transactions::Native};
use antares_transaction::{Environment, Mock};
use antares_verifier::{
    Engine, Interpreter, Prepared, StopHandle, TransactionLimits, TransactionReport, Verifier, VerifyOutcome,
};
use antares_vm::{Tier, reserve_machines};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::report::Spread;

const ROUNDS: usize = 31;
/// The limits of a mainnet block.
const LIMITS: TransactionLimits = TransactionLimits { cycles_max: 3_500_000_000, debug_bytes_max: 1 << 20 };
/// Examples of ckb-debugger.
const NAMES: [&str; 3] = ["mock_tx", "dynamic", "spawn_cycle_mismatch_tx"];

/// Processor time of one verification in seconds: of a parsed transaction, and of parsing.
struct Round {
    ours: f64,
    theirs: f64,
    parsing: f64,
}

/// Measures all transactions; prints a line for each.
pub(crate) fn measure() -> Result<Vec<Value>> {
    println!("transactions: time of ckb-script with AsmMachine to ours, by transaction");
    // As in a long-lived worker: machines stay mapped between verifications.
    reserve_machines()?;
    NAMES.iter().map(|name| one(name)).collect()
}

fn one(name: &str) -> Result<Value> {
    let json = fs::read(debugger_examples()?.join(format!("{name}.json")))?;
    let environment = Environment::default();
    let mock = Mock::from_json(&json)?;
    let prepared = Prepared::new(&mock, &environment)?;
    let engine = Native::new(&mock, &prepared, &environment, Tier::Auto)?;
    let verify = |prepared: Prepared| verify(prepared, engine.clone());
    let first = verify(prepared.clone())?.0;
    let (native, interpreted) = first.groups.iter().fold((0, 0), |(native, interpreted), group| {
        (native + group.native_cycles, interpreted + group.interpreted_cycles)
    });
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let (parsed, parsing) = timed(|| Mock::from_json(&json));
        parsed?;
        let (ours, our_time) = verify(prepared.clone())?;
        let (theirs, their_time) = self::verify(prepared.clone(), Interpreter)?;
        ensure!(ours.cycles == theirs.cycles && ours.cycles == first.cycles, "{name}: cycles differ");
        rounds.push(Round { ours: our_time, theirs: their_time, parsing: parsing.as_secs_f64() });
    }
    let spread = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of).collect());
    let faster = spread(|round| round.theirs / round.ours);
    let with_parsing = spread(|round| (round.theirs + round.parsing) / (round.ours + round.parsing));
    let milliseconds = [
        spread(|round| round.ours * 1e3).median,
        spread(|round| round.theirs * 1e3).median,
        spread(|round| round.parsing * 1e3).median,
    ];
    let share = native as f64 / (native + interpreted).max(1) as f64;
    println!(
        "{name:<24} {faster} times   with JSON {with_parsing}   ours {:.3} ms, theirs {:.3} ms, JSON {:.3} ms   {} cycles, native {:.4}",
        milliseconds[0], milliseconds[1], milliseconds[2], first.cycles, share
    );
    Ok(json!({
        "name": name,
        "faster": faster.median,
        "faster_quartiles": [faster.low, faster.high],
        "faster_with_json": with_parsing.median,
        "ours_ms": milliseconds[0],
        "asm_ms": milliseconds[1],
        "json_ms": milliseconds[2],
        "rounds": ROUNDS,
        "cycles": first.cycles,
        "native_share": share,
    }))
}

/// Report and processor time of one verification, in seconds.
fn verify<E: Engine>(prepared: Prepared, engine: E) -> Result<(TransactionReport, f64)> {
    let (report, time) = timed(|| Verifier::new(prepared, LIMITS, engine, StopHandle::new()).verify(None));
    let report = report?;
    ensure!(report.outcome == VerifyOutcome::Ok, "ended with {:?}", report.error());
    Ok((report, time.as_secs_f64()))
}
