//! `bench [--quick | --instructions] [NAME...]`: how fast scripts run, as ratios to peers in one interleaved
//! loop: programs to the same C built for this machine, `transactions`, `failures` and `corpus` (today's
//! scripts) to ckb-vm's `AsmMachine`; `rsa-cycles` stand beside published numbers, `profiling` is what
//! always-on samples cost, and `service` (only when it is named) is the way through pool and gRPC beside its
//! targets, `service-transactions` its transactions alone, `transactions-elsewhere` those by the command line
//! and by the crate `antares`, `corpus-service` and `corpus-cli` (likewise) are today's scripts on that way
//! and by `antares run`. `shapes` (only when it
//! is named) are the times that shapes of code take to compile, and their doubles; `start` (likewise) are
//! whole processes beside the published ckb-debugger, which `ANTARES_ORIGINAL` names.
//!
//! With `--quick` there are three rounds instead of fifteen. With `--instructions` instructions are counted
//! instead of time, by callgrind; of `shapes` those that the baseline's compiles take. Prints tables and
//! writes JSON files and a plot to `target/bench`.
#![allow(clippy::print_stdout, reason = "a command line tool")]
#![forbid(unsafe_code)]

mod corpus;
mod engine;
mod failures;
mod instructions;
mod measure;
mod peers;
mod plot;
mod profiling;
mod programs;
mod report;
mod rsa;
mod service;
mod shapes;
mod start;
mod transactions;
mod twin;

use std::env;

use anyhow::{Result, bail};
use serde_json::json;

use crate::{
    corpus::through::{self, CommandLine, OneService, Way},
    measure::measure,
    programs::PROGRAMS,
    report::Report,
};

/// Names of what is measured beside programs.
const TRANSACTIONS: &str = "transactions";
const FAILURES: &str = "failures";
const RSA: &str = "rsa-cycles";
const CORPUS: &str = "corpus";
const CORPUS_SERVICE: &str = "corpus-service";
const CORPUS_CLI: &str = "corpus-cli";
const SERVICE: &str = "service";
const SERVICE_TRANSACTIONS: &str = "service-transactions";
/// For profilers: `service-calls NAME SECONDS`.
const SERVICE_CALLS: &str = "service-calls";
const TRANSACTIONS_ELSEWHERE: &str = "transactions-elsewhere";
const PROFILING: &str = "profiling";
const SHAPES: &str = "shapes";
const START: &str = "start";
const BESIDE: [&str; 12] = [
    TRANSACTIONS,
    FAILURES,
    RSA,
    CORPUS,
    CORPUS_SERVICE,
    CORPUS_CLI,
    SERVICE,
    SERVICE_TRANSACTIONS,
    TRANSACTIONS_ELSEWHERE,
    PROFILING,
    SHAPES,
    START,
];

fn corpus_through<W: Way>(file: &str, rounds: usize) -> Result<()> {
    report::write(file, &serde_json::to_string_pretty(&through::measure::<W>(rounds)?)?)
}

/// The programs that are wanted, against their twins and peers.
fn programs(is_wanted: &impl Fn(&str) -> bool, rounds: usize) -> Result<()> {
    if !PROGRAMS.iter().any(|program| is_wanted(program.name)) {
        return Ok(());
    }
    if !peers::are_built() {
        println!("without qemu, Wasmtime and PolkaVM: the package tools/bench/peers is not built");
    }
    let mut report = Report::default();
    for program in &PROGRAMS {
        if is_wanted(program.name) {
            let row = measure(program, rounds)?;
            println!("{row}");
            report.programs.push(row);
        }
    }
    report.finish()?;
    Ok(())
}

/// What is measured against `AsmMachine` in this process.
fn in_process(is_wanted: &impl Fn(&str) -> bool) -> Result<()> {
    if is_wanted(TRANSACTIONS) || is_wanted(FAILURES) {
        let transactions = if is_wanted(TRANSACTIONS) { transactions::measure()? } else { Vec::new() };
        let failures = if is_wanted(FAILURES) { failures::measure()? } else { Vec::new() };
        let results = json!({ "transactions": transactions, "failures": failures });
        report::write("transactions.json", &serde_json::to_string_pretty(&results)?)?;
    }
    Ok(())
}

/// What is measured only when it is named, and waits for nothing.
fn when_named(is_named: &impl Fn(&str) -> bool, rounds: usize, is_quick: bool) -> Result<()> {
    if is_named(SHAPES) {
        report::write("shapes.json", &serde_json::to_string_pretty(&shapes::measure(rounds)?)?)?;
    }
    if is_named(START) {
        report::write("start.json", &serde_json::to_string_pretty(&start::measure(is_quick)?)?)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut wanted: Vec<String> = env::args().skip(1).collect();
    if let Some(mode) = wanted
        .first()
        .filter(|mode| [instructions::ONCE, instructions::ONCE_SAMPLED].contains(&mode.as_str()))
    {
        std::process::exit(instructions::run_once(mode, &wanted[1..])?);
    }
    if wanted.first().is_some_and(|mode| mode == shapes::ONCE_COMPILED) {
        return shapes::compile_once(&wanted[1..]);
    }
    if wanted.first().is_some_and(|mode| mode == SERVICE_CALLS) {
        return service::call(&wanted[1..]);
    }
    let mut take = |switch: &str| {
        let before = wanted.len();
        wanted.retain(|name| name != switch);
        wanted.len() < before
    };
    let (is_counting, is_quick) = (take("--instructions"), take("--quick"));
    let is_known = |name: &String| {
        BESIDE.contains(&name.as_str()) || PROGRAMS.iter().any(|program| program.name == *name)
    };
    if let Some(unknown) = wanted.iter().find(|name| !is_known(name)) {
        bail!("no program is named {unknown:?}");
    }
    let is_named = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let is_wanted = |name: &str| is_named(name) || wanted.is_empty();
    if is_counting && is_named(SHAPES) {
        return shapes::count();
    }
    if is_counting {
        let programs: Vec<_> = PROGRAMS.iter().filter(|program| is_wanted(program.name)).collect();
        return instructions::measure(&programs);
    }
    in_process(&is_wanted)?;
    let rounds = if is_quick { measure::QUICK_ROUNDS } else { measure::ROUNDS };
    if is_wanted(PROFILING) {
        let results = profiling::measure(rounds)?;
        report::write("profiling.json", &serde_json::to_string_pretty(&results)?)?;
    }
    if is_wanted(RSA) {
        report::write("rsa.json", &serde_json::to_string_pretty(&rsa::measure()?)?)?;
    }
    if is_wanted(CORPUS) {
        report::write("corpus.json", &serde_json::to_string_pretty(&corpus::measure(rounds)?)?)?;
    }
    when_named(&is_named, rounds, is_quick)?;
    // They wait for full compiles, which takes minutes.
    if is_named(CORPUS_SERVICE) {
        corpus_through::<OneService>("corpus-service.json", rounds)?;
    }
    if is_named(CORPUS_CLI) {
        corpus_through::<CommandLine>("corpus-cli.json", rounds)?;
    }
    // It measures the machine's processors together, and so has none to spare for the others.
    if is_named(SERVICE_TRANSACTIONS) {
        service::measure_transactions(is_quick)?;
    }
    if is_named(TRANSACTIONS_ELSEWHERE) {
        service::measure_elsewhere(is_quick)?;
    }
    if is_named(SERVICE) {
        service::measure(is_quick)?;
    }
    programs(&is_wanted, rounds)
}
