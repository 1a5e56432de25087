//! Runs one script group with additional system calls, which an external host serves to script authors.

use std::{mem, sync::Arc};

use antares_hosted::job::HostedRun;
use ckb_script::{
    RunMode, generate_ckb_syscalls,
    types::{DebugPrinter, SgData, TerminatedResult, VmContext, VmId},
};
use ckb_vm::{DefaultMachineRunner, Error as VmError, SupportMachine, Syscalls};

use crate::{
    Prepared, Scheduled,
    cells::Cells,
    host_calls::Parent,
    scheduler,
    watched::{begin_with, watching},
};

/// Runs the group of a cell of `prepared` on machines of type `M`, with calls served by `host`. Returns the exit
/// code and cycles, or the VM's error text.
///
/// # Errors
/// Why there is no group that can start.
pub(crate) fn run_hosted<M: DefaultMachineRunner + 'static>(
    prepared: Prepared,
    run: &HostedRun,
    host: Arc<Parent>,
) -> Result<Result<(i8, u64), String>, String> {
    let scheduled = scheduler::<_, M>(prepared, (run.kind, run.cell), generate::<M::Inner>, Context(host));
    let mut scheduler = match scheduled.map_err(|error| error.to_string())? {
        Scheduled::Ready(scheduler) => scheduler,
        Scheduled::NotBegun(why) => return Err(why),
    };
    let data = scheduler.sg_data();
    let script = &data.sg_info.script_group.script;
    if let Ok(dep) = data.tx_info.extract_referenced_dep_index(script) {
        begin_with(dep as u64);
    }
    scheduler.set_root_vm_args(run.args.clone());
    let ended = scheduler.run(RunMode::LimitCycles(run.cycles_max));
    // The process ends after this run, so freeing memory page by page is a waste of time.
    mem::forget(scheduler);
    let ended = ended.map(|TerminatedResult { exit_code, consumed_cycles }| (exit_code, consumed_cycles));
    Ok(ended.map_err(|error| error.to_string()))
}

/// The host, as ckb-script's context.
#[derive(Clone)]
struct Context(Arc<Parent>);

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
    host: Arc<Parent>,
}

impl<M: SupportMachine> Syscalls<M> for Served {
    fn initialize(&mut self, _machine: &mut M) -> Result<(), VmError> {
        Ok(())
    }

    fn ecall(&mut self, machine: &mut M) -> Result<bool, VmError> {
        self.host.call(self.vm, machine)
    }
}
