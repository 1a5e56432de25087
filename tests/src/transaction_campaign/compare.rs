//! Comparison of one scenario in every tier, and by ckb-script on its own machine, which shares no code with
//! ours.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use antares_abi::{CodeTier, Hints};
use antares_transaction::{Environment, Mock};
use antares_verifier::{Engine, Prepared, StopHandle, TransactionLimits, TransactionReport, Verifier};
use antares_vm::{Program, Tier};
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use ckb_chain_spec::consensus::{Consensus, ConsensusBuilder};
use ckb_mock_tx_types::Resource;
use ckb_script::{
    RunMode, ScriptGroup, TransactionScriptsVerifier, TxVerifyEnv, generate_ckb_syscalls,
    types::{DebugPrinter, Machine},
};
use ckb_types::core::{
    EpochNumberWithFraction, HeaderView,
    cell::{ResolvedTransaction, resolve_transaction},
};
use ckb_vm::{DefaultMachineRunner, Error, machine::Pause};

use super::{
    images::Images,
    loaded,
    scenario::{Cell, Limit, Scenario},
    tally::{self, Counted},
};
use crate::transactions::Native;

/// A limit that no terminating scenario reaches.
const CYCLES_MAX: u64 = 30_000_000;
/// A limit of debug output that no scenario reaches.
const DEBUG_BYTES_MAX: u64 = 16 << 20;
/// Compared prefix of an error's text: we truncate very long texts.
const ERROR_BYTES: usize = 300;
/// With fewer VMs than this, all stay live.
const SPAWNED_MIN: usize = 4;
/// Maximum pauses of one group: each continues with the full limit.
const PAUSES_MAX: usize = 100;

/// The generator of the code that ran a scenario; `None` for the interpreter.
pub type Generator = Option<CodeTier>;

/// The compared results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Cycles, or the text of the error.
    pub result: Result<u64, String>,
    /// Debug output of all groups.
    pub debug: Vec<String>,
}

/// The common verdict, and statistics of the native tier.
#[derive(Clone, Debug)]
pub struct Agreed {
    pub verdict: Verdict,
    /// Cycles in native code, by the full compile.
    pub native_cycles: u64,
    /// Cycles in the interpreter.
    pub interpreted_cycles: u64,
    /// Reasons of restarted groups.
    pub restarts: Vec<String>,
    /// How often a VM was suspended and resumed.
    pub swaps: u64,
    /// How often the machine paused.
    pub pauses: usize,
    /// Whether loaded code ran natively.
    pub has_native_loaded: bool,
}

/// A result that differs from ckb-script's.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The differing tier.
    pub by: Generator,
    /// ckb-script's verdict.
    pub oracle: Verdict,
    /// Our verdict.
    pub ours: Verdict,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.oracle.debug.iter().zip(&self.ours.debug).position(|(oracle, ours)| oracle != ours);
        let at = at.unwrap_or(self.oracle.debug.len().min(self.ours.debug.len()));
        let line = |debug: &[String]| debug.get(at).map_or_else(|| "(none)".to_owned(), String::clone);
        write!(
            f,
            "{:?}: oracle {:?}, ours {:?}; line {at}: oracle {}, ours {}",
            self.by,
            self.oracle.result,
            self.ours.result,
            line(&self.oracle.debug),
            line(&self.ours.debug)
        )
    }
}

/// The verdict of ckb-script with ckb-vm's machine.
///
/// # Errors
/// `mock` lacks a cell.
pub fn oracle(mock: &Mock, environment: &Environment, cycles_max: u64) -> Result<Verdict> {
    Ok(Stage::new(mock, *environment, Arc::new(consensus_of(environment)))?.oracle(cycles_max))
}

/// Runs `scenario` in all tiers and compares.
///
/// # Errors
/// The compiler failed, or the scenario is not a valid transaction.
pub fn compare(images: &Images, scenario: &Scenario) -> Result<Result<Agreed, Difference>> {
    let environment = scenario.environment();
    let stage = Stage::new(&scenario.mock(images)?, environment, consensus(&environment))?;
    let wide = stage.oracle(CYCLES_MAX);
    let cycles_max = match (scenario.limit, &wide.result) {
        (Limit::Wide, _) | (_, Err(_)) => CYCLES_MAX,
        (Limit::Less(less), Ok(cycles)) => cycles.saturating_sub(less),
        (Limit::Part(part), Ok(cycles)) => cycles / 1000 * part,
    };
    let expected = if cycles_max == CYCLES_MAX { wide } else { stage.oracle(cycles_max) };
    let mut first = None;
    for by in [Some(CodeTier::Full), Some(CodeTier::Baseline), None] {
        let tier = if by.is_none() { Tier::Interpreter } else { Tier::Native };
        let mut programs = programs(images, scenario, by)?;
        let mut engine = Native::of(tier, programs.clone()).telling_of_loaded_code();
        if by != Some(CodeTier::Full) {
            // One tier keeps suspended VMs mapped, the others copy them.
            engine = engine.copying();
        }
        let ran = match stage.check(scenario, cycles_max, (by, &engine), &expected)? {
            Ok(ran) => ran,
            Err(difference) => return Ok(Err(difference)),
        };
        let native_cycles = ran.native_cycles;
        let agreed: &mut Agreed = first.get_or_insert(ran);
        let Some(generator) = by else { continue };
        let loaded = loaded::programs(images, scenario, &engine.unknown(), generator)?;
        if loaded.is_empty() {
            continue;
        }
        // Again, with native code of the loaded code.
        programs.extend(loaded);
        match stage.check(scenario, cycles_max, (by, &Native::of(tier, programs)), &expected)? {
            Ok(again) => agreed.has_native_loaded |= again.native_cycles > native_cycles,
            Err(difference) => return Ok(Err(difference)),
        }
    }
    let mut agreed = first.context("a generator comes first")?;
    if tally::spawned(&agreed.verdict) >= SPAWNED_MIN {
        Counted::start();
        let _ = stage.paused(scenario, cycles_max, &CountedEngine);
        agreed.swaps = Counted::swaps();
    }
    Ok(Ok(agreed))
}

/// The verdict of a run with pauses, without the cycles that scripts print. If VMs were suspended, these
/// depend on the exact position of a pause: ckb-script adds the costs of suspending when a run ends, and a
/// pause ends one.
fn without_cycles(verdict: &Verdict) -> Verdict {
    if tally::spawned(verdict) < SPAWNED_MIN {
        return verdict.clone();
    }
    let two = |line: &String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Verdict { result: verdict.result.clone(), debug: verdict.debug.iter().map(two).collect() }
}

/// Native code of all actors and of the library, in all versions of the scenario.
fn programs(images: &Images, scenario: &Scenario, by: Generator) -> Result<Vec<Arc<Program>>> {
    let Some(tier) = by else { return Ok(Vec::new()) };
    let elfs: BTreeSet<&Bytes> = scenario
        .deps
        .iter()
        .filter_map(|cell| match cell {
            Cell::Actor(index) => Some(&images.actors[*index].elf),
            Cell::Library => Some(&images.library),
            _ => None,
        })
        .collect();
    let mut programs = Vec::new();
    for elf in elfs {
        for version in scenario.versions() {
            programs.extend(images.program(elf, version, tier, &Hints::default())?);
        }
    }
    Ok(programs)
}

fn difference(by: Generator, oracle: &Verdict, report: &TransactionReport) -> Option<Difference> {
    let debug: Vec<String> =
        report.groups.iter().flat_map(|group| group.debug.iter()).map(ToOwned::to_owned).collect();
    let result = match report.error() {
        Some(error) => Err(error.to_string()),
        None => Ok(report.cycles),
    };
    let is_equal = match (&oracle.result, &result) {
        (Ok(oracle), Ok(ours)) => oracle == ours,
        // ckb-script's error has its kind as prefix.
        (Err(oracle), Err(ours)) => oracle.contains(&ours[..ours.floor_char_boundary(ERROR_BYTES)]),
        _ => false,
    };
    let ours = Verdict { result, debug };
    (!is_equal || oracle.debug != ours.debug).then(|| Difference { by, oracle: oracle.clone(), ours })
}

fn consensus_of(environment: &Environment) -> Consensus {
    ConsensusBuilder::default().hardfork_switch(environment.hard_forks()).build()
}

/// The consensus rules, cached because they take long to build.
fn consensus(environment: &Environment) -> Arc<Consensus> {
    static CONSENSUS: LazyLock<[Arc<Consensus>; 3]> =
        LazyLock::new(|| [0, 1, 2].map(|version| Arc::new(consensus_of(&Environment::of_version(version)))));
    CONSENSUS[environment.vm_version_latest() as usize % 3].clone()
}

/// Lines of debug output, and the lines that trigger pauses.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Output>>);

/// Lines, the pause to trigger, and the lines that trigger it.
type Output = (Vec<String>, Pause, BTreeSet<usize>);

impl Lines {
    fn with<T>(&self, see: impl FnOnce(&mut Output) -> T) -> T {
        see(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn printer(&self) -> DebugPrinter {
        let lines = self.clone();
        Arc::new(move |_group, line| {
            lines.with(|(lines, pause, pauses)| {
                if pauses.contains(&lines.len()) {
                    pause.interrupt();
                }
                lines.push(line.to_owned());
            });
        })
    }
}

/// A resolved transaction, shared by all tiers.
struct Stage {
    environment: Environment,
    consensus: Arc<Consensus>,
    prepared: Prepared,
    resource: Resource,
    resolved: Arc<ResolvedTransaction>,
}

impl Stage {
    fn new(mock: &Mock, environment: Environment, consensus: Arc<Consensus>) -> Result<Self> {
        let resource = Resource::from_mock_tx(mock.as_ckb()).map_err(|error| anyhow!(error))?;
        let transaction = mock.as_ckb().core_transaction();
        let resolved = resolve_transaction(transaction, &mut HashSet::new(), &resource, &resource);
        let resolved = Arc::new(resolved.context("cells")?);
        let prepared = Prepared::new(mock, &environment)?;
        Ok(Self { environment, consensus, prepared, resource, resolved })
    }

    /// A verifier of ckb-script on machines `M`.
    fn verifier<M: DefaultMachineRunner + 'static>(
        &self,
        lines: &Lines,
    ) -> TransactionScriptsVerifier<Resource, DebugPrinter, M> {
        let epoch = EpochNumberWithFraction::new(self.environment.epoch, 0, 1);
        let header = HeaderView::new_advanced_builder().epoch(epoch).build();
        TransactionScriptsVerifier::new_with_generator(
            self.resolved.clone(),
            self.resource.clone(),
            self.consensus.clone(),
            Arc::new(TxVerifyEnv::new_commit(&header)),
            generate_ckb_syscalls,
            lines.printer(),
        )
    }

    /// The verdict of ckb-script itself.
    fn oracle(&self, cycles_max: u64) -> Verdict {
        let lines = Lines::default();
        let result = self.verifier::<Machine>(&lines).verify(cycles_max);
        let result = result.map_err(|error| error.to_string());
        Verdict { result, debug: lines.with(|(lines, ..)| std::mem::take(lines)) }
    }

    fn ours(&self, cycles_max: u64, engine: Native) -> Result<TransactionReport> {
        let limits = TransactionLimits { cycles_max, debug_bytes_max: DEBUG_BYTES_MAX };
        let verifier = Verifier::new(self.prepared.clone(), limits, engine, StopHandle::default());
        Ok(verifier.verify(None)?)
    }

    /// Runs `scenario` on machines of `engine`, also with its pauses, and compares.
    fn check(
        &self,
        scenario: &Scenario,
        cycles_max: u64,
        (by, engine): (Generator, &Native),
        expected: &Verdict,
    ) -> Result<Result<Agreed, Difference>> {
        let report = self.ours(cycles_max, engine.clone())?;
        let mut ran = Agreed {
            verdict: expected.clone(),
            native_cycles: report.groups.iter().map(|group| group.native_cycles).sum(),
            interpreted_cycles: report.groups.iter().map(|group| group.interpreted_cycles).sum(),
            restarts: report.groups.iter().filter_map(|group| group.restarted.clone()).collect(),
            swaps: 0,
            pauses: 0,
            has_native_loaded: false,
        };
        if let Some(difference) = difference(by, expected, &report) {
            return Ok(Err(difference));
        }
        if !scenario.pauses.is_empty() {
            let (oracle, pauses) = self.paused(scenario, cycles_max, &antares_verifier::Interpreter);
            let (ours, _) = self.paused(scenario, cycles_max, engine);
            ran.pauses = pauses;
            if without_cycles(&oracle) != without_cycles(&ours) {
                return Ok(Err(Difference { by, oracle, ours }));
            }
        }
        Ok(Ok(ran))
    }

    /// Runs ckb-script's scheduler on machines of `engine`, with the scenario's pauses; also returns the
    /// number of pauses.
    fn paused<E: Engine>(&self, scenario: &Scenario, cycles_max: u64, engine: &E) -> (Verdict, usize) {
        let lines = Lines::default();
        let verifier = self.verifier::<E::Machine>(&lines);
        let (mut total, mut debug, mut pauses) = (0, Vec::new(), 0);
        let mut result = Ok(());
        for (_, group) in verifier.groups() {
            let attempt = || group_with_pauses(&verifier, group, scenario, cycles_max, &lines);
            let (one, count) = engine.attempt(attempt);
            pauses += count;
            debug.extend(lines.with(|(lines, ..)| std::mem::take(lines)));
            match one {
                Ok(cycles) => total += cycles,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        (Verdict { result: result.map(|()| total), debug }, pauses)
    }
}

fn group_with_pauses<M: DefaultMachineRunner + 'static>(
    verifier: &TransactionScriptsVerifier<Resource, DebugPrinter, M>,
    group: &ScriptGroup,
    scenario: &Scenario,
    cycles_max: u64,
    lines: &Lines,
) -> (Result<u64, String>, usize) {
    let mut pause = Pause::new();
    lines.with(|lines| *lines = (Vec::new(), pause.clone(), scenario.pauses.clone()));
    let mut scheduler = match verifier.create_scheduler(group) {
        Ok(scheduler) => scheduler,
        Err(error) => return (Err(format!("{error:?}")), 0),
    };
    let mut count = 0;
    loop {
        match scheduler.run(RunMode::Pause(pause.clone(), cycles_max)) {
            Err(Error::Pause) if count < PAUSES_MAX => {
                pause.free();
                count += 1;
            }
            Ok(ended) if ended.exit_code == 0 => return (Ok(ended.consumed_cycles), count),
            Ok(ended) => return (Err(format!("exit code {}", ended.exit_code)), count),
            Err(error) => return (Err(format!("{error:?}")), count),
        }
    }
}

/// ckb-vm's machine, with counting.
struct CountedEngine;

impl Engine for CountedEngine {
    type Machine = Counted;

    fn attempt<T>(&self, mut attempt: impl FnMut() -> T) -> T {
        attempt()
    }

    fn take_counts(&self) -> Option<antares_verifier::TierCycles> {
        None
    }
}
