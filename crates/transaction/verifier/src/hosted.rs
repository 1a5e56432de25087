//! Runs one script group with additional system calls, which an external host serves to script authors.

use std::{mem, sync::Arc};

use ckb_script::{
    RunMode, ScriptError, generate_ckb_syscalls,
    types::{DebugPrinter, SgData, TerminatedResult, VmContext, VmId},
};
use ckb_types::bytes::Bytes;
use ckb_vm::{DefaultMachineRunner, Error as VmError, SupportMachine, Syscalls};

use crate::{
    CellName, GroupKind, Guest, PrepareError, Prepared,
    cells::Cells,
    verify::{script_hash, scripts_of},
    watched::{begin_with, watching},
};

/// The handler of system calls that ckb-script does not implement.
pub trait ScriptHost: Send + Sync {
    /// Serves the call of `guest`, the VM with this number. Returns false if it does not know the call
    /// either.
    ///
    /// # Errors
    /// The error that ends the guest.
    fn call(&self, vm: u64, guest: &mut dyn Guest) -> Result<bool, VmError>;

    /// Receives a line of debug output of the VM with this number.
    fn line(&self, vm: u64, text: &str);
}

/// What to run.
#[derive(Clone, Debug)]
pub struct HostedRun {
    /// Lock or type.
    pub kind: GroupKind,
    /// A cell of the group.
    pub cell: CellName,
    /// Arguments of the first VM; on the chain it has none.
    pub args: Vec<Bytes>,
    /// Cycle limit.
    pub cycles_max: u64,
}

/// How a group ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its script exited.
    Exit {
        /// The exit code.
        code: i8,
        /// Total cycles.
        cycles: u64,
    },
    /// The VM ended the script; the text is the reason.
    Error(String),
    /// The group has no script that can start.
    NotBegun(String),
}

/// Runs a group of `prepared` on machines of type `M`, with calls served by `host`.
///
/// # Errors
/// If there is no such group.
pub fn run_hosted<M: DefaultMachineRunner + 'static>(
    prepared: Prepared,
    run: &HostedRun,
    host: Arc<dyn ScriptHost>,
) -> Result<Ended, PrepareError> {
    let scripts = scripts_of::<_, M>(prepared, generate::<M::Inner>, Context(host));
    let hash = script_hash(&scripts, run.kind, run.cell)?;
    let not_begun = |error: ScriptError| Ended::NotBegun(error.to_string());
    let Some(group) = scripts.find_script_group(run.kind.into(), &hash) else {
        return Ok(not_begun(ScriptError::ScriptNotFound(hash)));
    };
    let mut scheduler = match scripts.create_scheduler(group) {
        Ok(scheduler) => scheduler,
        Err(error) => return Ok(not_begun(error)),
    };
    if let Ok(dep) = scheduler.sg_data().tx_info.extract_referenced_dep_index(&group.script) {
        begin_with(dep as u64);
    }
    scheduler.set_root_vm_args(run.args.clone());
    let ended = scheduler.run(RunMode::LimitCycles(run.cycles_max));
    // The process ends after this run, so freeing memory page by page is a waste of time.
    mem::forget(scheduler);
    Ok(match ended {
        Ok(TerminatedResult { exit_code, consumed_cycles }) => {
            Ended::Exit { code: exit_code, cycles: consumed_cycles }
        }
        Err(error) => Ended::Error(error.to_string()),
    })
}

/// The host, as ckb-script's context.
#[derive(Clone)]
struct Context(Arc<dyn ScriptHost>);

fn generate<M: SupportMachine>(
    vm: &VmId,
    group: &SgData<Cells>,
    context: &VmContext<Cells>,
    host: &Context,
) -> Vec<Box<dyn Syscalls<M>>> {
    let (to, id) = (host.0.clone(), *vm);
    let printer: DebugPrinter = Arc::new(move |_group, line| to.line(id, line));
    let mut calls = watching(id);
    calls.extend(generate_ckb_syscalls(vm, group, context, &printer));
    calls.push(Box::new(Served { vm: id, host: host.0.clone() }));
    calls
}

/// The host's system calls for one VM.
struct Served {
    vm: VmId,
    host: Arc<dyn ScriptHost>,
}

impl<M: SupportMachine> Syscalls<M> for Served {
    fn initialize(&mut self, _machine: &mut M) -> Result<(), VmError> {
        Ok(())
    }

    fn ecall(&mut self, machine: &mut M) -> Result<bool, VmError> {
        self.host.call(self.vm, machine)
    }
}
