//! Published lock and type scripts accept correctly signed transactions and reject others, natively. Cycles
//! equal ckb-script's.

use std::{
    collections::HashMap,
    fmt::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use antares_abi::{CodeTier, CompileOptions, Hints, Isa, Sha256Digest};
use antares_tests::{
    corpus::RUNS,
    locks::{Passing, passing},
    native,
    stopwatch::timed,
    transaction_campaign::oracle,
    transactions::Native,
};
use antares_transaction::{Environment, Mock, programs};
use antares_verifier::{
    GroupReport, Interpreter, Prepared, StopHandle, TransactionReport, Verifier, VerifyOutcome,
};
use antares_vm::{Program, Tier};
use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;

use crate::{check::each, verdicts::LIMITS};

/// Minimum native share of cycles from the third run on, in per mille.
const SHARE_MIN: u64 = 990;

/// Minimum cycles of a case in the table of speeds, so that the fixed costs of a run do not dominate.
const CYCLES_MIN: u64 = 100_000;

/// Compiled programs shared by all transactions, by script and hints.
type Compiled = Mutex<HashMap<(Sha256Digest, CodeTier, Hints), Arc<Program>>>;

/// The native code of a transaction's programs, and the hints of their runs.
struct Code<'a> {
    compiled: &'a Compiled,
    hints: HashMap<Bytes, Hints>,
}

impl Code<'_> {
    fn program(&self, elf: &Bytes, tier: CodeTier, vm_version: u32) -> Result<Arc<Program>> {
        let hints = self.hints.get(elf).cloned().unwrap_or_default();
        let key = (Sha256Digest::of(elf), tier, hints.clone());
        if let Some(program) = self.compiled.lock().unwrap().get(&key) {
            return Ok(program.clone());
        }
        let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
        let library = native::compile_with(elf, options, tier, &hints)?;
        let library = library.map_err(|reason| anyhow!("the {tier} tier refuses it: {reason}"))?;
        let program = Arc::new(Program::new(elf.clone(), library).context("no program")?);
        self.compiled.lock().unwrap().insert(key, program.clone());
        Ok(program)
    }

    /// Verifies natively, and collects hints.
    fn run(&mut self, mock: &Mock, tier: CodeTier) -> Result<(TransactionReport, Duration)> {
        let environment = Environment::default();
        let prepared = Prepared::new(mock, &environment)?;
        let mut compiled = Vec::new();
        for candidate in programs(mock, &environment) {
            let elf = prepared.find_data(&candidate.data_hash).unwrap_or(candidate.elf);
            for vm_version in candidate.vm_versions {
                compiled.push(self.program(&elf, tier, vm_version)?);
            }
        }
        let engine = Native::of(Tier::Native, compiled);
        let verifier = Verifier::new(prepared, LIMITS, engine.clone(), StopHandle::default());
        let (report, time) = timed(|| verifier.verify(None));
        for (program, seen) in engine.seen() {
            let hints = self.hints.entry(program.elf().clone()).or_default();
            *hints = hints.learn(&seen);
        }
        Ok((report?, time))
    }
}

fn interpret(mock: &Mock) -> Result<(TransactionReport, Duration)> {
    let prepared = Prepared::new(mock, &Environment::default())?;
    let verifier = Verifier::new(prepared, LIMITS, Interpreter, StopHandle::default());
    let (report, time) = timed(|| verifier.verify(None));
    Ok((report?, time))
}

/// Native share of the executed cycles, in per mille; excludes ckb-script's cycles for loading a program.
fn share(report: &TransactionReport) -> u64 {
    let sum = |of: fn(&GroupReport) -> u64| report.groups.iter().map(of).sum::<u64>();
    let (native, interpreted) = (sum(|group| group.native_cycles), sum(|group| group.interpreted_cycles));
    native * 1000 / (native + interpreted).max(1)
}

/// The parts of a report that do not depend on the tier.
fn verdict(report: &TransactionReport) -> String {
    let mut text = format!("{:?} {} {:?}", report.outcome, report.cycles, report.error());
    for group in &report.groups {
        write!(text, "; {:?} {} {:?}", group.outcome, group.cycles, group.exit_code).unwrap();
    }
    text
}

/// Verifies one transaction in all tiers, and with an invalid signature. Returns a row of the table.
fn check(compiled: &Compiled, passing: &Passing) -> Result<String> {
    let expected = oracle(&passing.mock, &Environment::default(), LIMITS.cycles_max)?;
    let expected = expected.result.map_err(|error| anyhow!("ckb-script: {error}"))?;
    let (interpreted, slow) = interpret(&passing.mock)?;
    ensure!((interpreted.outcome, interpreted.cycles) == (VerifyOutcome::Ok, expected));
    let mut line = format!("{} | {} | {expected}", passing.build.name, passing.what);
    for tier in CodeTier::ALL {
        let mut code = Code { compiled, hints: HashMap::new() };
        let (mut shares, mut fast) = (Vec::new(), Duration::MAX);
        for _ in 0..RUNS {
            let (report, time) = code.run(&passing.mock, tier)?;
            ensure!(verdict(&report) == verdict(&interpreted), "{tier}: {}", verdict(&report));
            shares.push(share(&report));
            fast = fast.min(time);
        }
        ensure!(shares[RUNS - 1] >= SHARE_MIN, "{tier}: {shares:?} per mille native in runs 1 to {RUNS}");
        write!(line, " | {tier} {shares:?}")?;
        if expected >= CYCLES_MIN {
            write!(line, ", {:.1} times", slow.as_secs_f64() / fast.as_secs_f64())?;
        }
        let (forged, _) = code.run(&passing.forged, tier)?;
        let (wanted, _) = interpret(&passing.forged)?;
        ensure!(wanted.outcome == VerifyOutcome::Failed, "a wrong signature passes");
        ensure!(verdict(&forged) == verdict(&wanted), "{tier}, forged: {}", verdict(&forged));
        // A script that rejects exits normally: no second run in the interpreter is needed for exact cycles.
        ensure!(share(&forged) == 1000, "{tier}, forged: {} per mille native", share(&forged));
    }
    Ok(line)
}

#[test]
fn signed_transactions_pass_natively_and_forged_ones_fail_alike() {
    let (passing, compiled) = (passing().unwrap(), Compiled::default());
    each(&passing, |_, one| match check(&compiled, one) {
        Ok(line) => Ok(Some(line)),
        Err(error) => Err(format!("{}, {}: {error:#}", one.build.name, one.what)),
    });
}
