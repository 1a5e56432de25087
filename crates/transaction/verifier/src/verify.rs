//! The verification: the groups, their order, and their results.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use antares_hosted::job::{DebugLog, Lines};
use antares_transaction::{Environment, Mock};
use ckb_chain_spec::consensus::{Consensus, ConsensusBuilder, TYPE_ID_CODE_HASH};
use ckb_script::{
    DataPieceId, RunMode, Scheduler, ScriptError, ScriptGroup, ScriptGroupType, TransactionScriptsVerifier,
    TxVerifyEnv, generate_ckb_syscalls,
    types::{DebugPrinter, SgData, SyscallGenerator, TerminatedResult, VmContext, VmId},
};
use ckb_types::{
    bytes::Bytes,
    core::{
        EpochNumberWithFraction, HeaderView, ScriptHashType,
        cell::{ResolvedTransaction, resolve_transaction},
        error::OutPointError,
    },
    packed::Byte32,
    prelude::*,
};
use ckb_vm::{DefaultMachineRunner, Error as VmError};

use crate::{
    CellName, Engine, GroupKind, GroupReport, StopHandle, TierCycles, TransactionReport, VerifyOutcome,
    cells::Cells, engine::CallsOf, report::group_error,
};

/// Why a verification has no result.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// ckb's own cell resolution rejects what our checks accept, such as too many cell deps.
    #[error("the cells of the transaction cannot be resolved: {0}")]
    Resolve(#[from] OutPointError),
    /// The cell does not exist, or has no script of this kind that runs.
    #[error("{cell} has no {kind} script that runs")]
    NoSuchGroup {
        /// `input.0`.
        cell: CellName,
        /// `lock` or `type`.
        kind: &'static str,
    },
    /// Its [`StopHandle`] was used.
    #[error("the verification was cancelled")]
    Cancelled,
}

/// Limits of one verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Maximum cycles of all groups together.
    pub cycles_max: u64,
    /// Maximum bytes of stored debug output of all groups together, plus one for each line.
    pub debug_bytes_max: u64,
}

/// A transaction with resolved cells.
#[derive(Clone)]
pub struct Prepared {
    cells: Cells,
    resolved: ResolvedTransaction,
    environment: Environment,
}

impl Prepared {
    /// Resolves the cells of `mock`.
    ///
    /// # Errors
    /// If ckb's resolution rejects the transaction.
    pub fn new(mock: &Mock, environment: &Environment) -> Result<Self, VerifyError> {
        let cells = Cells::new(mock);
        let resolved =
            resolve_transaction(mock.as_ckb().core_transaction(), &mut HashSet::new(), &cells, &cells)?;
        Ok(Self { cells, resolved, environment: *environment })
    }

    /// Data of a cell dep, by ckb's hash of it.
    #[must_use]
    pub fn find_data(&self, data_hash: &[u8; 32]) -> Option<Bytes> {
        let mut deps = self.resolved.resolved_cell_deps.iter();
        let is_it = |hash: &Option<Byte32>| hash.as_ref().is_some_and(|hash| hash.as_slice() == data_hash);
        deps.find(|cell| is_it(&cell.mem_cell_data_hash))?.mem_cell_data.clone()
    }
}

/// A transaction that is ready for verification on the machine of `E`.
pub struct Verifier<E: Engine> {
    engine: E,
    scripts: TransactionScriptsVerifier<Cells, DebugPrinter, E::Machine>,
    cancel: StopHandle,
    /// The debug output, group by group.
    log: Arc<Mutex<DebugLog>>,
    limits: TransactionLimits,
}

impl<E: Engine> Verifier<E> {
    /// Sorts the scripts of `prepared` into groups. `cancel` stops only this verification.
    #[must_use]
    pub fn new(prepared: Prepared, limits: TransactionLimits, engine: E, cancel: StopHandle) -> Self {
        let log = Arc::new(Mutex::new(DebugLog::new(limits.debug_bytes_max)));
        let printed = log.clone();
        let printer: DebugPrinter = Arc::new(move |_group, line| lock(&printed).push(line));
        let scripts = scripts_of(prepared, calls::<E>, printer);
        Self { engine, scripts, cancel, log, limits }
    }

    /// Runs all groups in order until one fails, or only the group of a cell. Results, errors and cycles equal those of ckb-script's
    /// `TransactionScriptsVerifier::verify` (or `verify_single`) on ckb-vm's `AsmMachine`.
    ///
    /// # Errors
    /// If the selected group does not exist, or the verification was cancelled.
    pub fn verify(self, selection: Option<(GroupKind, CellName)>) -> Result<TransactionReport, VerifyError> {
        let hash_of = |(kind, cell)| group_of(&self.scripts, kind, cell).map(|(hash, _)| (kind, hash));
        let wanted = selection.map(hash_of).transpose()?;
        let mut report = TransactionReport { outcome: VerifyOutcome::Ok, cycles: 0, groups: Vec::new() };
        for (kind, hash, group) in self.scripts.groups_with_type() {
            let mut entry = not_run(kind_of(kind), hash, group);
            let is_wanted = wanted.is_none_or(|(kind, wanted)| kind == entry.kind && wanted == hash);
            if is_wanted && report.outcome == VerifyOutcome::Ok {
                self.run(group, self.limits.cycles_max - report.cycles, &mut entry)?;
                report.outcome = entry.outcome;
                // No overflow: a group that exceeds its limit ends there, and a wrapping sum is a separate
                // error.
                report.cycles = report.cycles.saturating_add(entry.cycles);
            }
            report.groups.push(entry);
        }
        Ok(report)
    }

    fn run(&self, group: &ScriptGroup, cycles_max: u64, entry: &mut GroupReport) -> Result<(), VerifyError> {
        if self.cancel.is_wanted() {
            return Err(VerifyError::Cancelled);
        }
        let result = if is_type_id(group) {
            let hash = group.script.calc_script_hash();
            let result = self.scripts.verify_single(group.group_type, &hash, cycles_max);
            result.map(|cycles| (entry.exit_code, entry.cycles) = (Some(0), cycles))
        } else {
            self.run_program(group, cycles_max, entry)
        };
        let Err(error) = result else {
            entry.outcome = VerifyOutcome::Ok;
            return Ok(());
        };
        if self.cancel.is_wanted() && matches!(error, ScriptError::VMInternalError(VmError::Pause)) {
            return Err(VerifyError::Cancelled);
        }
        if let ScriptError::ValidationFailure(_, code) = error {
            entry.exit_code = Some(code);
        }
        entry.outcome = VerifyOutcome::Failed;
        entry.error = Some(group_error(&error, group));
        Ok(())
    }

    fn run_program(
        &self,
        group: &ScriptGroup,
        cycles_max: u64,
        entry: &mut GroupReport,
    ) -> Result<(), ScriptError> {
        let attempt = || {
            lock(&self.log).clear();
            self.cancel.renew();
            let mut scheduler = match self.scripts.create_scheduler(group) {
                Ok(scheduler) => scheduler,
                Err(error) => return (Err(error), 0),
            };
            let result = scheduler.run(RunMode::Pause(self.cancel.pause(), cycles_max));
            (result.map_err(|error| script_error(error, cycles_max)), scheduler.consumed_cycles())
        };
        let (result, cycles) = self.engine.attempt(attempt);
        entry.debug = lock(&self.log).take();
        entry.cycles = cycles;
        let interpreted = TierCycles { interpreted_cycles: cycles, ..TierCycles::default() };
        let counts = self.engine.take_counts().unwrap_or(interpreted);
        (entry.native_cycles, entry.interpreted_cycles) = (counts.native_cycles, counts.interpreted_cycles);
        entry.restarted = counts.restarted.map(ToOwned::to_owned);
        result.and_then(|TerminatedResult { exit_code, consumed_cycles }| {
            (entry.exit_code, entry.cycles) = (Some(exit_code), consumed_cycles);
            match exit_code {
                0 => Ok(()),
                code => Err(ScriptError::validation_failure(&group.script, code)),
            }
        })
    }
}

/// The system calls of a VM. The first that knows a number handles the call.
fn calls<E: Engine>(
    vm: &VmId,
    group: &SgData<Cells>,
    context: &VmContext<Cells>,
    printer: &DebugPrinter,
) -> Vec<CallsOf<E>> {
    let loads = E::cell_loads(context.snapshot2_context.clone(), DataPieceId::CellDep);
    loads.into_iter().chain(generate_ckb_syscalls(vm, group, context, printer)).collect()
}

/// Sorts the scripts of `prepared` into groups, with system calls that `generate` creates from `context`.
fn scripts_of<V: Clone, M: DefaultMachineRunner>(
    prepared: Prepared,
    generate: SyscallGenerator<Cells, V, M::Inner>,
    context: V,
) -> TransactionScriptsVerifier<Cells, V, M> {
    let Prepared { cells, resolved, environment } = prepared;
    let consensus = Consensus { hardfork_switch: environment.hard_forks(), ..any_consensus() };
    let epoch = EpochNumberWithFraction::new(environment.epoch, 0, 1);
    let header = HeaderView::new_advanced_builder().epoch(epoch).build();
    let env = Arc::new(TxVerifyEnv::new_commit(&header));
    let (resolved, consensus) = (Arc::new(resolved), Arc::new(consensus));
    TransactionScriptsVerifier::new_with_generator(resolved, cells, consensus, env, generate, context)
}

/// The group of `cell`, and the hash of its script.
fn group_of<V: Clone, M: DefaultMachineRunner>(
    scripts: &TransactionScriptsVerifier<Cells, V, M>,
    kind: GroupKind,
    cell: CellName,
) -> Result<(&Byte32, &ScriptGroup), VerifyError> {
    let groups = scripts.groups_with_type();
    let mut of_kind = groups.filter(|(found, ..)| kind_of(*found) == kind);
    let found = of_kind.find(|(_, _, group)| match cell {
        CellName::Input(index) => group.input_indices.contains(&(index as usize)),
        CellName::Output(index) => group.output_indices.contains(&(index as usize)),
    });
    let missing = VerifyError::NoSuchGroup { cell, kind: kind.name() };
    found.map(|(_, hash, group)| (hash, group)).ok_or(missing)
}

/// A consensus of which only the hard forks are visible to scripts. Creating its genesis block takes longer
/// than a short script runs.
fn any_consensus() -> Consensus {
    static CONSENSUS: OnceLock<Consensus> = OnceLock::new();
    CONSENSUS.get_or_init(|| ConsensusBuilder::default().build()).clone()
}

/// Converts a VM error like ckb-script (`verify.rs`, `map_vm_internal_error`).
fn script_error(error: VmError, cycles_max: u64) -> ScriptError {
    match error {
        VmError::CyclesExceeded => ScriptError::ExceededMaximumCycles(cycles_max),
        VmError::External(reason) if reason == "stopped" => ScriptError::Interrupts,
        error => ScriptError::VMInternalError(error),
    }
}

fn is_type_id(group: &ScriptGroup) -> bool {
    group.script.code_hash() == TYPE_ID_CODE_HASH.into()
        && group.script.hash_type() == ScriptHashType::Type.into()
}

fn kind_of(kind: ScriptGroupType) -> GroupKind {
    match kind {
        ScriptGroupType::Lock => GroupKind::Lock,
        ScriptGroupType::Type => GroupKind::Type,
    }
}

fn not_run(kind: GroupKind, hash: &Byte32, group: &ScriptGroup) -> GroupReport {
    let indices = |all: &[usize]| all.iter().map(|index| u32::try_from(*index).unwrap_or(u32::MAX)).collect();
    GroupReport {
        script_hash: hash.clone().into(),
        kind,
        outcome: VerifyOutcome::NotRun,
        exit_code: None,
        error: None,
        cycles: 0,
        native_cycles: 0,
        interpreted_cycles: 0,
        restarted: None,
        debug: Lines::default(),
        inputs: indices(&group.input_indices),
        outputs: indices(&group.output_indices),
    }
}

/// Locks the debug output. A panic elsewhere cannot leave the lines inconsistent.
fn lock(log: &Mutex<DebugLog>) -> MutexGuard<'_, DebugLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the scheduler of a group of `prepared`, with machines of type `M` and system calls that `generate`
/// creates from `context`. The inner error says why the group's script cannot start.
///
/// # Errors
/// If there is no such group.
pub fn scheduler<V: Clone, M: DefaultMachineRunner>(
    prepared: Prepared,
    (kind, cell): (GroupKind, CellName),
    generate: SyscallGenerator<Cells, V, M::Inner>,
    context: V,
) -> Result<Result<Scheduler<Cells, V, M>, String>, VerifyError> {
    let scripts = scripts_of::<_, M>(prepared, generate, context);
    let (_, group) = group_of(&scripts, kind, cell)?;
    Ok(scripts.create_scheduler(group).map_err(|error| error.to_string()))
}
