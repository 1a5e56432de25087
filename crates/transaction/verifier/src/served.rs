//! Serves the jobs of a host: runs a script group with the system calls that the host serves, or decodes an
//! instruction.

use std::{mem, sync::Arc};

use antares_hosted::{
    Link,
    job::{DecodedInstruction, HostedEnd, HostedJob, HostedNews, HostedRun, Rules, Watch, Watched},
};
use antares_transaction::{Environment, Mock, SharedData};

use crate::{
    Prepared, decode,
    host_calls::Parent,
    hosted::run_hosted,
    quick::QuickMachine,
    watched::{WatchSession, WatchedMachine},
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
    let stopped = session.take_stopped();
    if watch.calls {
        for part in session.take_calls().chunks(PART) {
            parent.link.notify(HostedNews::Watched(Watched::Calls(part.to_vec())));
        }
    }
    if watch.reached {
        parent.link.notify(HostedNews::Watched(Watched::Reached(session.take_reached())));
    }
    Ok(HostedEnd { result: ended?, vms: session.take_vms(), stopped })
}
