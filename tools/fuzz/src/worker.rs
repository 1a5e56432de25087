//! A process that fuzzes. It loads native code, locks itself in, and from then on runs scripts and talks to
//! its parent.

use std::{io, os::fd::AsFd as _, process::ExitCode, sync::Arc};

use antares_fuzz::{
    Machines, Parent, fuzz,
    job::{FuzzJob, FuzzNews, FuzzRequest},
};
use antares_pool::{ParentPipes, describe, in_memory, serve_standalone};
use antares_vm::{CountingSession, Library, MachineSession, Program, prepare_thread, reserve_machines};

/// Serves the parent that started this process.
pub(crate) fn serve() -> ExitCode {
    match serve_standalone(load, work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("antares-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Maps what the job's scripts run on.
fn load(job: &FuzzJob) -> Result<Vec<Library>, String> {
    drop(std::collections::hash_map::RandomState::new());
    reserve_machines().map_err(|error| describe(&error))?;
    prepare_thread().map_err(|error| describe(&error))?;
    // The parent has had their digest, shape and code checked: these are the same bytes.
    let load = |library: &[u8]| {
        let file = in_memory(library).map_err(|error| describe(&error))?;
        Library::load_counted(file.as_fd()).map_err(|error| describe(&error))
    };
    job.libraries.iter().filter(|one| !one.library.is_empty()).map(|one| load(&one.library)).collect()
}

/// Fuzzes.
fn work(job: FuzzJob, loaded: Result<Vec<Library>, String>, pipes: ParentPipes) -> io::Result<()> {
    let mut pipes = Pipes(pipes);
    let libraries = match loaded {
        Ok(libraries) => libraries,
        Err(why) => return pipes.notify(FuzzNews::Refused(why)),
    };
    let elves = job.libraries.iter().filter(|one| !one.library.is_empty()).map(|one| one.elf.clone());
    // An ELF that ckb-vm does not load has no program: what a script does with it is ckb-vm's error.
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
