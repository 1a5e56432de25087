//! `bench [--quick | --instructions] [NAME...]`: measures how fast scripts run, as ratios to peers in one
//! interleaved loop. Programs are compared with the same C compiled for this machine. `corpus` (published
//! scripts of today) is compared with ckb-vm's `AsmMachine`.
//!
//! These run only by name: `service` (pool and gRPC, with their targets), `service-transactions` (its
//! transactions alone), and `transactions-elsewhere` (transactions by the command line and by the crate
//! `antares`).
//!
//! `--quick` runs three rounds instead of fifteen. `--instructions` counts instructions with callgrind
//! instead of time. Prints tables and writes JSON files to `target/bench`.
#![allow(clippy::print_stdout, reason = "a command line tool")]

mod corpus;
mod engine;
mod instructions;
mod measure;
mod peers;
mod programs;
mod report;
mod service;
mod twin;

use std::env;

use anyhow::{Result, bail};

use crate::{measure::measure, programs::PROGRAMS, service::Results};

/// Names of benchmarks other than programs.
const CORPUS: &str = "corpus";
const SERVICE: &str = "service";
const SERVICE_TRANSACTIONS: &str = "service-transactions";
const TRANSACTIONS_ELSEWHERE: &str = "transactions-elsewhere";
const FAMILIES: [&str; 4] = [CORPUS, SERVICE, SERVICE_TRANSACTIONS, TRANSACTIONS_ELSEWHERE];

/// Measures the selected programs against their twins and peers.
fn programs(is_wanted: &impl Fn(&str) -> bool, rounds: usize) -> Result<()> {
    if !PROGRAMS.iter().any(|program| is_wanted(program.name)) {
        return Ok(());
    }
    if !peers::are_built() {
        println!("without qemu, Wasmtime and PolkaVM: the package tools/bench/peers is not built");
    }
    let mut rows = Vec::new();
    for program in PROGRAMS.iter().filter(|program| is_wanted(program.name)) {
        let row = measure(program, rounds)?;
        println!("{row}");
        rows.push(row);
    }
    report::finish(&rows)
}

/// Runs measurements that are only selected by name.
fn when_named(is_named: &impl Fn(&str) -> bool, is_quick: bool) -> Result<()> {
    type Measure = fn(usize, &mut Results) -> Result<()>;
    // These benchmarks use all processors, so they cannot run concurrently with others.
    let named: [(_, Measure); 3] = [
        (SERVICE_TRANSACTIONS, service::measure_transactions),
        (TRANSACTIONS_ELSEWHERE, service::measure_elsewhere),
        (SERVICE, service::measure),
    ];
    let mut named = named.iter().filter(|(name, _)| is_named(name));
    named.try_for_each(|(_, measure)| measure(if is_quick { 1 } else { 5 }, &mut Results::default()))
}

fn main() -> Result<()> {
    let mut wanted: Vec<String> = env::args().skip(1).collect();
    if wanted.first().is_some_and(|mode| mode == instructions::ONCE) {
        std::process::exit(instructions::run_once(&wanted[1..])?);
    }
    let mut take = |switch: &str| {
        let before = wanted.len();
        wanted.retain(|name| name != switch);
        wanted.len() < before
    };
    let (is_counting, is_quick) = (take("--instructions"), take("--quick"));
    let is_known = |name: &String| {
        FAMILIES.contains(&name.as_str()) || PROGRAMS.iter().any(|program| program.name == *name)
    };
    if let Some(unknown) = wanted.iter().find(|name| !is_known(name)) {
        bail!("no program is named {unknown:?}");
    }
    let is_named = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let is_wanted = |name: &str| is_named(name) || wanted.is_empty();
    if is_counting {
        let programs: Vec<_> = PROGRAMS.iter().filter(|program| is_wanted(program.name)).collect();
        return instructions::measure(&programs);
    }
    let rounds = if is_quick { measure::QUICK_ROUNDS } else { measure::ROUNDS };
    if is_wanted(CORPUS) {
        report::write("corpus.json", &corpus::measure(rounds)?)?;
    }
    when_named(&is_named, is_quick)?;
    programs(&is_wanted, rounds)
}
