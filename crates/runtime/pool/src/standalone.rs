//! A separate process that runs native code and exchanges arbitrary messages with its parent through two pipes.
//! It does not belong to a pool: it receives one job, loads the code that comes with it, enters its sandbox,
//! and only then does the job.

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

/// The argument that starts a standalone worker, followed by its parent's process id.
const STANDALONE_ARGUMENT: &str = "--standalone";
/// Maximum bytes of a frame: the longest is a job with transactions and native code.
const FRAME_BYTES_MAX: usize = 512 << 20;

/// The parent's view of a standalone worker. Dropping it kills the worker.
#[derive(Debug)]
pub struct StandaloneWorker {
    _process: Process,
    to: File,
}

impl StandaloneWorker {
    /// Starts the program at `worker` with this process's id, and sends its only job. A separate thread
    /// passes its messages to `hear` until they end or `hear` returns false; the thread's result is that of
    /// reading.
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

    /// Sends a message.
    ///
    /// # Errors
    /// The worker has ended.
    pub fn notify<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        send(&mut self.to, message, FRAME_BYTES_MAX)
    }
}

/// Whether this process was started by [`StandaloneWorker::start`].
#[must_use]
pub fn is_standalone() -> bool {
    is_started_with(STANDALONE_ARGUMENT)
}

/// Reads the parent's job, prepares by `load` what cannot be created later (mapped code, memory for
/// machines), enters the sandbox, and passes everything to `work`. `load` runs none of the loaded code, and
/// parses no script.
///
/// # Errors
/// The process was not started by [`StandaloneWorker::start`], or cannot enter the sandbox.
pub fn serve_standalone<J: DeserializeOwned, L>(
    load: impl FnOnce(&J) -> Result<L, String>,
    work: impl FnOnce(J, Result<L, String>, ParentPipes) -> io::Result<()>,
) -> io::Result<()> {
    serve_parent(|parent| {
        let mut pipes = ParentPipes::standard(FRAME_BYTES_MAX);
        let job: J = pipes.read()?;
        let loaded = load(&job);
        // SAFETY: the result of `load` contains no descriptor in use, because mapped code needs none. The
        // standard descriptors are retained.
        unsafe { lock_in(parent) }?;
        work(job, loaded, pipes)
    })
}

/// A library in memory, for loading.
///
/// # Errors
/// There is too little memory.
pub fn in_memory(library: &[u8]) -> io::Result<File> {
    let sealed = crate::Sealed::new("antares-library", library)?;
    Ok(sealed.as_fd().try_clone_to_owned()?.into())
}
