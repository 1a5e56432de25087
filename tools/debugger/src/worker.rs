//! The sandboxed process of `antares debug`: serves the gdb that is connected to its parent.

use std::{io, process::ExitCode, sync::Arc};

use antares_hosted::job::{HostedDebug, HostedJob, HostedNews, Rules};
use antares_pool::{HostPipes, serve_hosted};
use antares_transaction::{Environment, Mock, SharedData};

use crate::session::{Debuggee, Target, gdb};

/// Serves the parent process.
#[must_use]
pub fn serve() -> ExitCode {
    let served = serve_hosted(|job, pipes| match job {
        HostedJob::Debug(job) => debug(*job, pipes),
        _ => pipes.notify(&HostedNews::Refused("this program debugs only".to_owned())),
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("antares-debug: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves gdb until it disconnects.
fn debug(job: HostedDebug, pipes: HostPipes) -> io::Result<()> {
    let (pipes, has_file) = (Arc::new(pipes), job.has_file);
    let debuggee = match debuggee(job, &pipes) {
        Ok(debuggee) => debuggee,
        Err(why) => return pipes.notify(&HostedNews::Refused(why)),
    };
    pipes.notify(&HostedNews::Ready)?;
    let end = match gdb::serve(debuggee, Wire(pipes.clone()), has_file) {
        Ok(end) => HostedNews::Debugged(end),
        Err(error) => HostedNews::Refused(error.to_string()),
    };
    pipes.notify(&end)
}

fn debuggee(job: HostedDebug, pipes: &Arc<HostPipes>) -> Result<Debuggee, String> {
    let HostedDebug { run, only_prints, breaks_on_error, break_at_cycles, vm, .. } = job;
    let shared = run.cells.into_iter().map(|(data_hash, data)| SharedData { data, data_hash });
    let shared: Vec<_> = shared.collect();
    let mock = Mock::from_document(&run.document, &shared).map_err(|error| error.to_string())?;
    let (kind, cell) = (run.kind, run.cell);
    let Rules { vm_1_epoch, vm_2_epoch, epoch } = run.rules;
    let target = Target {
        mock,
        environment: Environment { vm_1_epoch, vm_2_epoch, epoch },
        kind,
        cell,
        args: run.args,
        cycles_max: run.cycles_max,
        only_prints,
        breaks_on_error,
    };
    let to = pipes.clone();
    // Ignore errors: the next read detects that the parent is gone.
    let line = move |vm: u64, text: &str| drop(to.notify(&HostedNews::Line { vm, text: text.to_owned() }));
    let mut debuggee = Debuggee::new(target, Box::new(line)).map_err(|error| error.to_string())?;
    if !debuggee.begin_at(vm).map_err(|error| error.to_string())? {
        return Err(format!("there was no VM {vm}"));
    }
    debuggee.stops.cycles = break_at_cycles;
    Ok(debuggee)
}

/// The connection to gdb.
struct Wire(Arc<HostPipes>);

impl gdb::Wire for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.hear(into)
    }

    fn is_waiting(&mut self) -> io::Result<bool> {
        self.0.is_heard()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.notify(&HostedNews::Words(bytes.to_vec()))
    }
}
