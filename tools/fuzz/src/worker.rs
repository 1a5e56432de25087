//! A fuzzing process. It loads native code and enters its sandbox; then it runs scripts and communicates with
//! its parent.

use std::{io, os::fd::AsFd as _, process::ExitCode, sync::Arc};

use antares_fuzz::{
    Machines, Parent, fuzz,
    job::{FuzzJob, FuzzNews, FuzzRequest},
};
use antares_pool::{ParentPipes, describe, in_memory, serve_standalone};
use antares_vm::{CountingSession, Library, MachineSession, Program, prepare_thread, reserve_machines};

/// Serves the parent process.
pub(crate) fn serve() -> ExitCode {
    match serve_standalone(load, work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("antares-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Loads the native code of the job's scripts.
fn load(job: &FuzzJob) -> Result<Vec<Library>, String> {
    drop(std::collections::hash_map::RandomState::new());
    reserve_machines().map_err(|error| describe(&error))?;
    prepare_thread().map_err(|error| describe(&error))?;
    // The parent verified the digest, structure and code of the same bytes.
    let load = |library: &[u8]| {
        let file = in_memory(library).map_err(|error| describe(&error))?;
        Library::load_counted(file.as_fd()).map_err(|error| describe(&error))
    };
    job.libraries.iter().filter(|one| !one.library.is_empty()).map(|one| load(&one.library)).collect()
}

/// Runs the fuzzing job.
fn work(job: FuzzJob, loaded: Result<Vec<Library>, String>, pipes: ParentPipes) -> io::Result<()> {
    let mut pipes = Pipes(pipes);
    let libraries = match loaded {
        Ok(libraries) => libraries,
        Err(why) => return pipes.notify(FuzzNews::Refused(why)),
    };
    let elves = job.libraries.iter().filter(|one| !one.library.is_empty()).map(|one| one.elf.clone());
    // ckb-vm reports an error for an ELF that it does not load, so that ELF has no program.
    let programs = elves.zip(libraries).filter_map(|(elf, library)| Program::new(elf, library).ok());
    let machines = match job.interprets {
        true => Machines::Interpreter(CountingSession::new(job.counter_bits, false)),
        false => {
            Machines::Native(MachineSession::counting(programs.map(Arc::new).collect(), job.counter_bits))
        }
    };
    match fuzz(&job, &machines, &mut pipes) {
        Ok(()) => Ok(()),
        Err(error) => pipes.notify(FuzzNews::Refused(describe(&error))),
    }
}

struct Pipes(ParentPipes);

impl Parent for Pipes {
    fn notify(&mut self, news: FuzzNews) -> io::Result<()> {
        self.0.notify(&news)
    }

    fn asks(&mut self) -> io::Result<Option<FuzzRequest>> {
        self.0.hear()
    }
}
