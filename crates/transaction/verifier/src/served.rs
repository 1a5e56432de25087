//! Serves the jobs of a host: runs a script group with the system calls that the host serves, or decodes an
//! instruction.

use std::{mem, sync::Arc};

use antares_hosted::{
    Link,
    job::{DecodedInstruction, HostedEnd, HostedJob, HostedNews, HostedRun, Rules, Watch},
};
use antares_transaction::{Environment, Mock, SharedData};
use ckb_script::{
    RunMode, generate_ckb_syscalls,
    types::{DebugPrinter, SgData, TerminatedResult, VmContext, VmId},
};
use ckb_vm::{DefaultMachineRunner, Error as VmError, SupportMachine, Syscalls};

use crate::{
    Prepared,
    cells::Cells,
    decode,
    host_calls::Parent,
    quick::QuickMachine,
    scheduler,
    watched::{WatchSession, WatchedMachine, begin_with, watching},
};

/// Does `job` for the host at the other end of `link`. The last message reports how it ended.
///
/// The memory of the last VMs is not freed: a process does one such job.
pub fn serve_job(job: HostedJob, link: Arc<dyn Link>) {
    let last = match job {
        HostedJob::Decode(word) => {
            let meanings = decode(word).into_iter();
            let meanings = meanings.map(|(set, text)| DecodedInstruction { set, text }).collect();
            HostedNews::Decoded(meanings)
        }
        HostedJob::Run(run) => {
            let (has_input, may_dump) = (run.has_input, run.may_dump);
            let parent = Arc::new(Parent { link: link.clone(), has_input, may_dump });
            self::run(*run, parent).unwrap_or_else(HostedNews::Refused)
        }
        HostedJob::Debug(_) => HostedNews::Refused("there is no debugger in this program".to_owned()),
    };
    link.notify(last);
}

fn run(mut job: HostedRun, parent: Arc<Parent>) -> Result<HostedNews, String> {
    let cells = mem::take(&mut job.cells).into_iter();
    let shared: Vec<_> = cells.map(|(data_hash, data)| SharedData { data, data_hash }).collect();
    let document = mem::take(&mut job.document);
    let mock = Mock::from_document(&document, &shared).map_err(|error| error.to_string())?;
    drop(document);
    let Rules { vm_1_epoch, vm_2_epoch, epoch } = job.rules;
    let prepared = Prepared::new(&mock, &Environment { vm_1_epoch, vm_2_epoch, epoch });
    let prepared = prepared.map_err(|error| error.to_string())?;
    Ok(HostedNews::Ended(match job.watch {
        None => {
            let result = run_hosted::<QuickMachine>(prepared, &job, parent)?;
            HostedEnd { result, vms: Vec::new(), stopped: None }
        }
        Some(watch) => watched(prepared, &job, watch, &parent)?,
    }))
}

/// Runs the group step by step; sends the observations before the end.
fn watched(
    prepared: Prepared,
    run: &HostedRun,
    watch: Watch,
    parent: &Arc<Parent>,
) -> Result<HostedEnd, String> {
    let session = WatchSession::new(watch, parent.clone());
    let ended = session.during(|| run_hosted::<WatchedMachine>(prepared, run, parent.clone()));
    let (vms, stopped) = session.end();
    Ok(HostedEnd { result: ended?, vms, stopped })
}

/// Runs the group of a cell of `prepared` on machines of type `M`, with calls served by `host`. Returns the exit
/// code and cycles, or the VM's error text.
///
/// # Errors
/// Why there is no group that can start.
fn run_hosted<M: DefaultMachineRunner + 'static>(
    prepared: Prepared,
    run: &HostedRun,
    host: Arc<Parent>,
) -> Result<Result<(i8, u64), String>, String> {
    let scheduled = scheduler::<_, M>(prepared, (run.kind, run.cell), generate::<M::Inner>, Context(host));
    let mut scheduler = scheduled.map_err(|error| error.to_string())??;
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
