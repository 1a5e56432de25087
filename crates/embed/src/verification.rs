//! A verification that is suspended after a number of cycles, and resumed.

use std::{fmt, mem, sync::Arc};

use antares_vm::{MachineSession, NativeMachine};
use ckb_chain_spec::consensus::TYPE_ID_CODE_HASH;
use ckb_error::Error;
use ckb_script::{
    RunMode, Scheduler, ScriptError, ScriptGroup, ScriptGroupType,
    types::{DebugPrinter, TerminatedResult},
};
use ckb_traits::{CellDataProvider, ExtensionProvider, HeaderProvider};
use ckb_types::{
    core::{Cycle, ScriptHashType},
    packed::Byte32,
};
use ckb_vm::{Error as VmError, machine::Pause};

use crate::{Verdict, Verifier};

/// Progress of a [`Verification`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// All script groups accept the transaction.
    Done(Verdict),
    /// Suspended at this number of cycles. The number decreases if native code bailed out and a group
    /// restarted in the interpreter.
    Suspended(Cycle),
}

/// A verification that runs in parts ([`Verifier::begin`]). Its result equals that of [`Verifier::verify`],
/// wherever it was suspended. It must stay on its thread, and may be dropped at any time.
///
/// Until it is done, up to four VMs stay in memory: 4 MiB of guest memory each, and the same amount of native
/// stack.
pub struct Verification<'a, D: CellDataProvider> {
    verifier: &'a Verifier<D>,
    /// Remaining groups, the next one last.
    left: Vec<(ScriptGroupType, Byte32)>,
    /// Cycles of the completed groups, total and native.
    done: Verdict,
    max_cycles: Cycle,
    running: Option<Running<D>>,
}

/// The current group.
struct Running<D: CellDataProvider> {
    scheduler: Scheduler<D, DebugPrinter, NativeMachine>,
    session: Arc<MachineSession>,
    native_cycles: Cycle,
}

impl<'a, D> Verification<'a, D>
where
    D: CellDataProvider + HeaderProvider + ExtensionProvider + Send + Sync + Clone + 'static,
{
    pub(crate) fn new(verifier: &'a Verifier<D>, max_cycles: Cycle) -> Self {
        let groups = verifier.scripts.groups_with_type();
        let mut left: Vec<_> = groups.map(|(kind, hash, _)| (kind, hash.clone())).collect();
        left.reverse();
        let done = Verdict { cycles: 0, native_cycles: 0 };
        Self { verifier, left, done, max_cycles, running: None }
    }

    /// Runs about `cycles` more, at least some ten thousand: native code stops only at a loop or system call.
    /// Does nothing if the verification is done.
    ///
    /// # Errors
    /// ckb-script's error for the group that failed; another call returns it again.
    pub fn resume(&mut self, cycles: Cycle) -> Result<Progress, Error> {
        let mut budget = cycles;
        while let Some((kind, hash)) = self.left.last().cloned() {
            let group = self.verifier.scripts.find_script_group(kind, &hash);
            let Some(group) = group else {
                return Err(ScriptError::ScriptNotFound(hash).unknown_source().into());
            };
            let before = self.cycles();
            let ended = self.run(group, (kind, &hash), budget).map_err(|error| error.source(group))?;
            budget = budget.saturating_sub(self.cycles().saturating_sub(before));
            if ended {
                self.left.pop();
            }
            if !ended || (budget == 0 && !self.left.is_empty()) {
                return Ok(Progress::Suspended(self.cycles()));
            }
        }
        Ok(Progress::Done(self.done))
    }

    /// Cycles so far.
    #[must_use]
    pub fn cycles(&self) -> Cycle {
        let running = self.running.as_ref().map_or(0, |running| running.scheduler.consumed_cycles());
        self.done.cycles.saturating_add(running)
    }

    /// Continues a group; returns whether it has ended.
    fn run(
        &mut self,
        group: &ScriptGroup,
        (kind, hash): (ScriptGroupType, &Byte32),
        budget: Cycle,
    ) -> Result<bool, ScriptError> {
        let max_cycles = self.max_cycles.saturating_sub(self.done.cycles);
        if is_type_id(group) {
            let cycles = self.verifier.scripts.verify_single(kind, hash, max_cycles)?;
            return self.add(cycles, 0).map(|()| true);
        }
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start(group, self.verifier.session())?,
        };
        let mut result = running.go_on(max_cycles, budget);
        if running.session.restarted().is_some() {
            let session = running.session.clone();
            drop(mem::replace(&mut result, Err(VmError::Pause)));
            drop(running);
            session.interpret();
            running = self.start(group, session)?;
            result = running.go_on(max_cycles, budget);
        }
        running.native_cycles =
            running.native_cycles.saturating_add(running.session.take_counts().native_cycles);
        match result {
            Ok(TerminatedResult { exit_code: 0, consumed_cycles }) => {
                self.add(consumed_cycles, running.native_cycles).map(|()| true)
            }
            Ok(TerminatedResult { exit_code, .. }) => {
                Err(ScriptError::validation_failure(&group.script, exit_code))
            }
            Err(VmError::Pause) => {
                self.running = Some(running);
                Ok(false)
            }
            Err(VmError::CyclesExceeded) => Err(ScriptError::ExceededMaximumCycles(max_cycles)),
            Err(error) => Err(ScriptError::VMInternalError(error)),
        }
    }

    fn start(&self, group: &ScriptGroup, session: Arc<MachineSession>) -> Result<Running<D>, ScriptError> {
        let scheduler = self.verifier.scripts.create_scheduler(group)?;
        Ok(Running { scheduler, session, native_cycles: 0 })
    }

    fn add(&mut self, cycles: Cycle, native_cycles: Cycle) -> Result<(), ScriptError> {
        let sum = self.done.cycles.checked_add(cycles);
        self.done.cycles = sum.ok_or(ScriptError::CyclesOverflow(self.done.cycles, cycles))?;
        self.done.native_cycles = self.done.native_cycles.saturating_add(native_cycles);
        Ok(())
    }
}

impl<D> Running<D>
where
    D: CellDataProvider + HeaderProvider + ExtensionProvider + Send + Sync + Clone + 'static,
{
    fn go_on(&mut self, max_cycles: Cycle, budget: Cycle) -> Result<TerminatedResult, VmError> {
        let left = max_cycles.saturating_sub(self.scheduler.consumed_cycles());
        self.session.set_pause_after(budget);
        let scheduler = &mut self.scheduler;
        self.session.enter(|| scheduler.run(RunMode::Pause(Pause::new(), left)))
    }
}

/// Whether the group's script is the type id script, which is built into ckb.
fn is_type_id(group: &ScriptGroup) -> bool {
    group.script.code_hash() == TYPE_ID_CODE_HASH.into()
        && group.script.hash_type() == ScriptHashType::Type.into()
}

impl<D: CellDataProvider> fmt::Debug for Verification<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verification").field("done", &self.done).finish_non_exhaustive()
    }
}
