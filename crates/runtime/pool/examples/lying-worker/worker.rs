//! The worker: it has the sandbox of an honest one, and sends the message that its job requests.
//!
//! `lie:NAME;` in the arguments of a run, in a transaction or in the script of a compile names an entry of
//! `lies`; without it, the worker is honest. As `...compile-worker` it lies about compiles.

use std::{fs::File, os::unix::fs::FileExt, path::Path};

use antares_pool::{
    Files, Worker,
    job::{CompileJob, RunWorkerJob, RunWorkerReport},
    serve,
};
use antares_sandbox::{Confinement, Policy, SandboxError};
use serde::{Serialize, Serializer, ser::SerializeTuple};

use crate::lies::{self, Said};

/// Serves as a zygote of workers that lie.
pub(crate) fn work() {
    let name = std::env::args().next().unwrap_or_default();
    let is_compiler =
        Path::new(&name).file_name().is_some_and(|name| name.to_string_lossy().contains("compile"));
    let served = if is_compiler { serve(|| Ok(Compiler)) } else { serve(|| Ok(Runner::default())) };
    if let Err(error) = served {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

/// The name of the lie that `bytes` request.
fn lie_in(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let (_, rest) = text.split_once("lie:")?;
    rest.split_once(';').map(|(name, _)| name.to_owned())
}

/// The answer: a report, or bytes instead of one.
enum Sent<R> {
    Report(R),
    Bytes(Vec<u8>),
}

impl<R: Serialize> Serialize for Sent<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Report(report) => report.serialize(serializer),
            Self::Bytes(bytes) => {
                let mut tuple = serializer.serialize_tuple(bytes.len())?;
                bytes.iter().try_for_each(|byte| tuple.serialize_element(byte))?;
                tuple.end()
            }
        }
    }
}

/// Sends `said` with `files`. Sends unframed bytes at once, then spins until the supervisor ends it.
fn deliver<R>(said: Said<R>, files: &Files) -> Result<Sent<R>, String> {
    match said {
        Said::Report(report) => Ok(Sent::Report(report)),
        Said::Bytes(bytes) => Ok(Sent::Bytes(bytes)),
        Said::Failed(text) => Err(text),
        Said::Raw(bytes) => {
            files.send_bytes(&bytes).map_err(|error| error.to_string())?;
            wait_for_ever()
        }
    }
}

fn wait_for_ever() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

#[derive(Default)]
struct Runner {
    stays: bool,
}

impl Worker for Runner {
    type Job = RunWorkerJob;
    type Report = Sent<RunWorkerReport>;

    fn confinement(&self, _job: &RunWorkerJob) -> Result<Confinement, SandboxError> {
        Confinement::new(Policy::run_load())
    }

    fn work(&mut self, job: RunWorkerJob, files: &Files) -> Result<Sent<RunWorkerReport>, String> {
        self.stays = true;
        let args = match &job {
            RunWorkerJob::Run(job) => job.args.concat(),
            RunWorkerJob::Batch(job) => job.inputs.concat().concat(),
            RunWorkerJob::Verify(job) => job.document.to_vec(),
            RunWorkerJob::Profile(_) | RunWorkerJob::Diagnose(_) => {
                files.elf().map_err(|error| error.to_string())?
            }
        };
        let lie = lie_in(&args);
        let parts = lies::parts(&job, lie.as_deref());
        for part in parts {
            files.send_part(&part).map_err(|error| error.to_string())?;
        }
        deliver(lies::answer(&job, lie.as_deref())?, files)
    }

    fn stays(&self) -> bool {
        self.stays
    }
}

struct Compiler;

impl Worker for Compiler {
    type Job = CompileJob;
    type Report = Sent<antares_pool::job::CompileReport>;

    fn confinement(&self, job: &CompileJob) -> Result<Confinement, SandboxError> {
        Confinement::new(Policy::compile(job.limits.memory_bytes_max, 10, 0))
    }

    fn work(&mut self, _job: CompileJob, files: &Files) -> Result<Self::Report, String> {
        let elf = files.elf().map_err(|error| error.to_string())?;
        let output: &File = files.extras().next().ok_or("no output file")?;
        output.write_all_at(lies::OUTPUT, 0).map_err(|error| error.to_string())?;
        deliver(lies::compiled(lie_in(&elf).as_deref())?, files)
    }
}
