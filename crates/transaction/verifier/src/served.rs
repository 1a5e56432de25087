//! Serves the jobs of a host: runs a script group with the system calls that the host serves, or decodes an
//! instruction.

use std::sync::Arc;

use antares_hosted::{
    Link,
    job::{
        self, CallNode, DecodedInstruction, HostedEnd, HostedJob, HostedNews, HostedRun, StoppedVm, Watched,
    },
};
use antares_transaction::{Environment, Mock, SharedData};

use crate::{
    Call, Ended, Functions, PrepareError, Prepared, Watch, WatchSession, WatchedMachine, Watcher, decode,
    host_calls::Parent, quick::QuickMachine, run_hosted,
};

/// Maximum nodes of the call tree in one message.
const PART: usize = 1 << 16;

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

fn run(job: HostedRun, parent: Arc<Parent>) -> Result<HostedNews, String> {
    let shared = job.cells.into_iter().map(|(data_hash, data)| SharedData { data, data_hash });
    let shared: Vec<_> = shared.collect();
    let mock = Mock::from_document(&job.document, &shared).map_err(|error| error.to_string())?;
    drop(job.document);
    let job::Rules { vm_1_epoch, vm_2_epoch, epoch } = job.rules;
    let prepared = Prepared::new(&mock, &Environment { vm_1_epoch, vm_2_epoch, epoch });
    let prepared = prepared.map_err(|error| error.to_string())?;
    let (kind, cell) = (job.kind.into(), job.cell.into());
    let run = crate::HostedRun { kind, cell, args: job.args, cycles_max: job.cycles_max };
    let (ended, vms, stopped) = match job.watch {
        None => (run_hosted::<QuickMachine>(prepared, &run, parent), Vec::new(), None),
        Some(watch) => watched(prepared, &run, watch, &parent),
    };
    Ok(match ended.map_err(|error| error.to_string())? {
        Ended::Exit { code, cycles } => {
            HostedNews::Ended(HostedEnd { result: Ok((code, cycles)), vms, stopped })
        }
        Ended::Error(why) => HostedNews::Ended(HostedEnd { result: Err(why), vms, stopped }),
        Ended::NotBegun(why) => HostedNews::Refused(why),
    })
}

type Seen = (Result<Ended, PrepareError>, Vec<job::WatchedVm>, Option<StoppedVm>);

/// Runs the group step by step; sends the observations before the end.
fn watched(prepared: Prepared, run: &crate::HostedRun, watch: job::Watch, parent: &Arc<Parent>) -> Seen {
    let job::Watch { vm, calls, reached, steps, overlap, cycles_max } = watch;
    let wanted = Watch { vm, calls, reached, steps, overlap, cycles_max };
    let session = WatchSession::new(wanted, Box::new(ParentWatcher(parent.clone())));
    let ended = session.during(|| run_hosted::<WatchedMachine>(prepared, run, parent.clone()));
    let stopped = session.take_stopped().map(|stopped| StoppedVm {
        error: stopped.error.to_string(),
        name: format!("{:?}", stopped.error),
        stack: stopped.stack,
        registers: stopped.registers,
    });
    if calls {
        let node = |Call { depth, address, cycles }| CallNode { depth, address, cycles };
        let nodes = session.take_calls();
        for part in nodes.chunks(PART) {
            let part = part.iter().copied().map(node).collect();
            parent.link.notify(HostedNews::Watched(Watched::Calls(part)));
        }
    }
    if reached {
        parent.link.notify(HostedNews::Watched(Watched::Reached(session.take_reached())));
    }
    let vms = session.take_vms().into_iter().map(|seen| job::WatchedVm {
        vm: seen.vm,
        generation: seen.generation,
        parent: seen.parent,
        source: seen.located.source,
        index: seen.located.index,
        offset: seen.located.offset,
        length: seen.located.length,
        cycles: seen.cycles,
        exit_code: seen.exit_code,
    });
    (ended, vms.collect(), stopped)
}

/// The parent as the receiver of observations.
struct ParentWatcher(Arc<Parent>);

impl Watcher for ParentWatcher {
    fn functions(&mut self, elf: &[u8]) -> Functions {
        self.0.functions(elf)
    }

    fn steps(&mut self, text: String) {
        self.0.link.notify(HostedNews::Watched(Watched::Steps(text)));
    }
}
