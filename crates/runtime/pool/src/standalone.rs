//! A process of its own that runs native code and talks to its parent through two pipes, in messages of any
//! kind. It is no worker of a pool: it gets one job, loads the code that comes with it, locks itself in, and
//! only then does the job.

use std::{
    fs::File,
    io::{self, BufReader},
    os::fd::AsFd as _,
    path::Path,
    thread::JoinHandle,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    PoolError, frame,
    hosted::{ParentPipes, Process, is_started_with, lock_in, send, serve_parent, start_piped, to_io},
};

/// The argument that makes a program a standalone worker; its parent's number follows.
const STANDALONE_ARGUMENT: &str = "--standalone";
/// Bytes of any frame, at most: the longest is a job with transactions and native code.
const FRAME_BYTES_MAX: usize = 512 << 20;

/// A standalone worker, seen from its parent. Dropped, it is killed.
#[derive(Debug)]
pub struct StandaloneWorker {
    _process: Process,
    to: File,
}

impl StandaloneWorker {
    /// Starts the program at `worker` with the number of this process, and gives it its only job. What it
    /// says goes to `hear`, on a thread of its own, until it says nothing more or `hear` wants no more; how
    /// reading ended is the thread's result.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start<J: Serialize, N: DeserializeOwned>(
        worker: &Path,
        job: &J,
        mut hear: impl FnMut(N) -> bool + Send + 'static,
    ) -> Result<(Self, JoinHandle<io::Result<()>>), PoolError> {
        let (process, to, from) = start_piped(worker, &[STANDALONE_ARGUMENT])?;
        let mut started = Self { _process: process, to: to.into() };
        started.notify(job).map_err(|source| PoolError::Start { path: worker.to_owned(), source })?;
        let reader = std::thread::spawn(move || {
            let mut from = BufReader::new(File::from(from));
            while hear(frame::read(&mut from, FRAME_BYTES_MAX).map_err(to_io)?) {}
            Ok(())
        });
        Ok((started, reader))
    }

    /// Tells it something.
    ///
    /// # Errors
    /// It has ended.
    pub fn notify<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        send(&mut self.to, message, FRAME_BYTES_MAX)
    }
}

/// Whether this process was started by [`StandaloneWorker::start`].
#[must_use]
pub fn is_standalone() -> bool {
    is_started_with(STANDALONE_ARGUMENT)
}

/// Reads the job, which is the parent's, has `load` make of it what cannot be made later (code that is
/// mapped, memory for machines), locks the process in, and gives all to `work`. `load` runs none of what it
/// loads, and reads no script.
///
/// # Errors
/// It was not started by [`StandaloneWorker::start`], or cannot be locked in.
pub fn serve_standalone<J: DeserializeOwned, L>(
    load: impl FnOnce(&J) -> Result<L, String>,
    work: impl FnOnce(J, Result<L, String>, ParentPipes) -> io::Result<()>,
) -> io::Result<()> {
    serve_parent(|parent| {
        let mut pipes = ParentPipes::standard(FRAME_BYTES_MAX);
        let job: J = pipes.read()?;
        let loaded = load(&job);
        // SAFETY: what `load` has opened is closed again, since its result holds no descriptor that anybody
        // uses: mapped code needs none. The standard ones are kept.
        unsafe { lock_in(parent) }?;
        work(job, loaded, pipes)
    })
}

/// A library in memory, for whoever loads it.
///
/// # Errors
/// There is no memory for it.
pub fn in_memory(library: &[u8]) -> io::Result<File> {
    let sealed = crate::Sealed::new("antares-library", library)?;
    Ok(sealed.as_fd().try_clone_to_owned()?.into())
}
