//! Verification of whole transactions by ckb-script's rules, with native code for scripts that an engine has.

use std::sync::Arc;

use antares_vm::{CellLoads, Core, MachineSession, NativeMachine, Tier, prepare_thread};
use ckb_chain_spec::consensus::Consensus;
use ckb_script::{
    DataPieceId, ScriptError, ScriptGroupType, TransactionScriptsVerifier, TxVerifyEnv,
    generate_ckb_syscalls,
    types::{DebugPrinter, SgData, VmContext, VmId},
};
use ckb_traits::{CellDataProvider, ExtensionProvider, HeaderProvider};
use ckb_types::{
    core::{Cycle, cell::ResolvedTransaction},
    packed::Byte32,
};
use ckb_vm::Syscalls;

use crate::{Engine, Verification, machines::reuse_machines};

/// Result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Cycles of all script groups, as a node counts them.
    pub cycles: Cycle,
    /// Number of these cycles in native code.
    pub native_cycles: Cycle,
}

/// Verifier of a resolved transaction: ckb-script's `TransactionScriptsVerifier` on our machine, with
/// identical verdicts, errors and cycles. Programs that the engine has compiled or loaded run natively;
/// others are interpreted.
pub struct Verifier<D: CellDataProvider> {
    pub(crate) scripts: TransactionScriptsVerifier<D, DebugPrinter, NativeMachine>,
    engine: Engine,
}

/// The system calls of a VM. The first that knows a number handles the call.
fn calls<D>(
    vm: &VmId,
    group: &SgData<D>,
    context: &VmContext<D>,
    printer: &DebugPrinter,
) -> Vec<Box<dyn Syscalls<Core>>>
where
    D: CellDataProvider + HeaderProvider + ExtensionProvider + Send + Sync + Clone + 'static,
{
    let loads = CellLoads::new(context.snapshot2_context.clone(), DataPieceId::CellDep);
    let mut calls: Vec<Box<dyn Syscalls<Core>>> = vec![Box::new(loads)];
    calls.extend(generate_ckb_syscalls(vm, group, context, printer));
    calls
}

impl<D> Verifier<D>
where
    D: CellDataProvider + HeaderProvider + ExtensionProvider + Send + Sync + Clone + 'static,
{
    /// Sorts the scripts of `transaction` into groups. Discards debug output.
    #[must_use]
    pub fn new(
        engine: &Engine,
        transaction: Arc<ResolvedTransaction>,
        data: D,
        consensus: Arc<Consensus>,
        env: Arc<TxVerifyEnv>,
    ) -> Self {
        Self::with_debug(engine, transaction, data, consensus, env, |_, _| {})
    }

    /// As [`Verifier::new`], but passes each line of debug output to `debug`, with the hash of the script
    /// group. A group that restarts in the interpreter writes its lines again.
    #[must_use]
    pub fn with_debug(
        engine: &Engine,
        transaction: Arc<ResolvedTransaction>,
        data: D,
        consensus: Arc<Consensus>,
        env: Arc<TxVerifyEnv>,
        debug: impl Fn(&Byte32, &str) + Send + Sync + 'static,
    ) -> Self {
        let printer: DebugPrinter = Arc::new(debug);
        let scripts =
            TransactionScriptsVerifier::new_with_generator(transaction, data, consensus, env, calls, printer);
        Self { scripts, engine: engine.clone() }
    }

    /// Runs all script groups, until one fails. `max_cycles` limits their total.
    ///
    /// # Errors
    /// ckb-script's error for the group that failed.
    pub fn verify(&self, max_cycles: Cycle) -> Result<Verdict, ckb_error::Error> {
        let (result, native_cycles) = self.attempt(|| self.scripts.verify(max_cycles));
        result.map(|cycles| Verdict { cycles, native_cycles })
    }

    /// Runs one script group.
    ///
    /// # Errors
    /// ckb-script's error; `ScriptError::InvalidScriptHashType` and others if the group does not exist.
    pub fn verify_group(
        &self,
        kind: ScriptGroupType,
        script_hash: &Byte32,
        max_cycles: Cycle,
    ) -> Result<Verdict, ScriptError> {
        let single = || self.scripts.verify_single(kind, script_hash, max_cycles);
        let (result, native_cycles) = self.attempt(single);
        result.map(|cycles| Verdict { cycles, native_cycles })
    }

    /// Begins to run all script groups in parts. `max_cycles` limits their total.
    #[must_use]
    pub fn begin(&self, max_cycles: Cycle) -> Verification<'_, D> {
        Verification::new(self, max_cycles)
    }

    fn attempt<T>(&self, verify: impl FnMut() -> T) -> (T, u64) {
        let session = self.session();
        let result = session.attempt(verify);
        (result, session.take_counts().native_cycles)
    }

    pub(crate) fn session(&self) -> Arc<MachineSession> {
        reuse_machines();
        let engine = self.engine.clone();
        let finder = move |elf: &_, vm_version, isa| engine.find(elf, vm_version, isa);
        // Without signal handlers a thread cannot run native code.
        let tier = prepare_thread().map_or(Tier::Interpreter, |()| Tier::Auto);
        MachineSession::with_finder(tier, Box::new(finder))
    }
}
