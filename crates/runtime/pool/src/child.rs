//! A child from its fork to its end: descriptors, job, sandbox, work, report, further jobs if reused.

use std::{
    fs::File,
    io::{self, Write},
    mem::ManuallyDrop,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::{Mutex, PoisonError},
};

use antares_sandbox::{
    CONTROL_FD, Confinement, ELF_FD, EXTRA_FD, EXTRA_FDS_MAX, Layer, LayerStatus, SandboxError, exit_now,
    move_to, separate_core,
};
use bytes::Bytes;
use rustix::process::Pid;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    channel::Channel,
    frame::{self, JOB_BYTES_MAX, REPORT_BYTES_MAX},
    mapped::map_for_good,
    sealed::read_all,
    wire::Spawn,
};

/// A child's work on jobs. One value is in the zygote; each child has its own copy.
pub trait Worker {
    /// The request.
    type Job: DeserializeOwned;
    /// The answer.
    type Report: Serialize;

    /// The sandbox for `job`, entered before [`Worker::work`] is called. The job comes from the supervisor and
    /// is trusted; its files are not.
    ///
    /// # Errors
    /// See [`Confinement::new`].
    fn confinement(&self, job: &Self::Job) -> Result<Confinement, SandboxError>;

    /// Does `job`. Called again for a reused child, with the same files.
    ///
    /// # Errors
    /// The reason why there is no report. The child then ends.
    fn work(&mut self, job: Self::Job, files: &Files) -> Result<Self::Report, String>;

    /// Whether the child can do another job with the same files.
    fn stays(&self) -> bool {
        false
    }

    /// Whether the zygote keeps a spare child for the next job that needs a new one.
    const KEEPS_SPARE: bool = false;

    /// Clears the data of the last job. Called between the jobs of a reused child, after the report is sent.
    fn idle(&mut self) {}
}

/// A child's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply<T> {
    /// The report; the child ends.
    Done(T),
    /// The report; the child can do another job with the same files.
    Resting(T),
    /// There is no report; the reason.
    Failed { detail: String },
    /// A part of the answer; more follows.
    Part(T),
}

/// The files of a job.
#[derive(Debug)]
pub struct Files {
    zygote: Pid,
    channel: Channel,
    elf: ManuallyDrop<File>,
    extras: Vec<ManuallyDrop<File>>,
}

impl Files {
    /// The bytes of the sealed ELF, or of the transaction.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn elf(&self) -> io::Result<Vec<u8>> {
        read_all(&self.elf, self.elf.metadata()?.len())
    }

    /// In a run child: the sealed libraries and the files after them. In a compile child: the output file.
    pub fn extras(&self) -> impl ExactSizeIterator<Item = &File> {
        self.extras.iter().map(|file| &**file)
    }

    /// The bytes of one of [`Files::extras`].
    ///
    /// # Errors
    /// The kernel's error, or there is no such file.
    pub fn extra(&self, index: usize) -> io::Result<Vec<u8>> {
        let file = self.extras.get(index).ok_or(io::ErrorKind::NotFound)?;
        read_all(file, file.metadata()?.len())
    }

    /// The bytes of one of [`Files::extras`], mapped permanently and without a copy.
    ///
    /// # Errors
    /// The kernel's error, or there is no such file.
    pub fn map_extra(&self, index: usize) -> io::Result<Bytes> {
        map_for_good(self.extras.get(index).ok_or(io::ErrorKind::NotFound)?)
    }

    /// Sends a part of the report; the job determines the number of parts.
    ///
    /// # Errors
    /// The kernel's error, or the part exceeds the length limit of a report.
    pub fn send_part<T: Serialize>(&self, part: &T) -> io::Result<()> {
        // The supervisor only uses complete answers, so do not wake it for each part.
        let frame = frame::encode(&Reply::Part(part), REPORT_BYTES_MAX).map_err(io::Error::other)?;
        self.channel.write_without_wake(&frame)
    }

    /// Sends `bytes` unchanged, framed or not: for workers that test a supervisor.
    ///
    /// # Errors
    /// The channel's positions are corrupt.
    pub fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.channel).write_all(bytes)
    }

    /// The memory that is shared with the supervisor: for workers that corrupt it.
    #[must_use]
    pub fn shared_memory(&self) -> NonNull<[u8]> {
        self.channel.memory()
    }

    /// The process id of the zygote, for [`Confinement::lock_in`].
    #[must_use]
    pub fn zygote(&self) -> Pid {
        self.zygote
    }
}

/// Text of the last panic in this process.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Exit status of a child that could not receive its job.
const NOT_ARRIVED: i32 = 2;

/// Runs a child. `fds` are the descriptors that came with `spawn`.
///
/// # Safety
/// The process was just forked from a sandboxed zygote, and no code above this call uses a descriptor again.
pub(crate) unsafe fn live<W: Worker>(
    worker: &mut W,
    zygote: Pid,
    layers: &[LayerStatus],
    spawn: Spawn,
    fds: &[OwnedFd],
) -> ! {
    std::panic::set_hook(Box::new(|panic| {
        // The process must not write to standard error any more.
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
    // SAFETY: passed on.
    let Ok(files) = (unsafe { arrive(zygote, spawn, fds) }) else { exit_now(NOT_ARRIVED) };
    if layers.iter().any(|status| status.layer == Layer::SealedCode && status.active) {
        // Without the record, a call outside of the policy still ends the process.
        let _ = files.channel.name_violations();
    }
    // SAFETY: passed on; `arrive` has placed the descriptors.
    let worked = catch_unwind(AssertUnwindSafe(|| unsafe { serve_jobs(worker, layers, &files) }));
    let detail = match worked {
        Ok(Ok(())) => exit_now(0),
        Ok(Err(detail)) => detail,
        Err(_) => PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone(),
    };
    let sent = answer(&files.channel, &Reply::<()>::Failed { detail });
    exit_now(if sent.is_ok() { 0 } else { 1 })
}

/// Moves the descriptors of a job to their numbers, and attaches to the channel to the supervisor.
///
/// # Safety
/// The process uses descriptors 0 to 5, and those of libraries, only by number.
unsafe fn arrive(zygote: Pid, spawn: Spawn, fds: &[OwnedFd]) -> io::Result<Files> {
    // Standard input is the zygote's socket, and standard output is /dev/null.
    // SAFETY: descriptor 1 is open (the zygote owns it) and only borrowed for this call.
    let null = unsafe { BorrowedFd::borrow_raw(1) };
    let mut numbers = vec![CONTROL_FD, ELF_FD];
    numbers.extend(extra_numbers(spawn));
    if spawn.has_stderr {
        numbers.push(2);
    }
    if fds.len() != numbers.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the caller guarantees that these numbers have no owners.
    unsafe {
        move_to(null, 0)?;
        for (fd, number) in fds.iter().zip(numbers) {
            move_to(fd.as_fd(), number)?;
        }
    }
    let file = |number| {
        // SAFETY: the descriptor is open, and ManuallyDrop does not close it; nothing else uses it.
        ManuallyDrop::new(unsafe { File::from_raw_fd(number) })
    };
    let channel = Channel::attach(file(CONTROL_FD).as_fd())?;
    // The mapping remains, and a guest that controls the child has one descriptor less.
    drop(ManuallyDrop::into_inner(file(CONTROL_FD)));
    Ok(Files { zygote, channel, elf: file(ELF_FD), extras: extra_numbers(spawn).map(file).collect() })
}

/// Numbers of the files after the first. A supervisor never sends more than fit.
fn extra_numbers(spawn: Spawn) -> impl Iterator<Item = i32> {
    (EXTRA_FD..).take(usize::from(spawn.extras).min(EXTRA_FDS_MAX))
}

/// Reads a job, enters the sandbox and works; repeats without a new sandbox while the worker is reused.
///
/// # Safety
/// The descriptors of the job are at their numbers, and only this child's own code uses any descriptor
/// again.
unsafe fn serve_jobs<W: Worker>(worker: &mut W, layers: &[LayerStatus], files: &Files) -> Result<(), String> {
    let read = || {
        frame::read::<W::Job>(&mut &files.channel, JOB_BYTES_MAX)
            .map_err(|error| format!("cannot read the job: {error}"))
    };
    let mut job = read()?;
    let confinement = worker.confinement(&job).map_err(|error| error.to_string())?;
    let stands = |layer| layers.iter().any(|status| status.layer == layer && status.active);
    if stands(Layer::CoreScheduling) {
        // Until now, it shared the zygote's core with all other children.
        separate_core().map_err(|error| error.to_string())?;
    }
    // SAFETY: the caller guarantees this for all descriptors except the retained ones.
    let own = unsafe { confinement.lock_in(files.zygote) }.map_err(|error| error.to_string())?;
    if let Some(missing) = own.iter().find(|status| !status.active && stands(status.layer)) {
        return Err(format!("sandbox layer {missing}, but it stood in the zygote"));
    }
    loop {
        let report = worker.work(job, files)?;
        let stays = worker.stays();
        let reply = if stays { Reply::Resting(report) } else { Reply::Done(report) };
        answer(&files.channel, &reply).map_err(|error| error.to_string())?;
        drop(reply);
        if !stays {
            return Ok(());
        }
        worker.idle();
        job = read()?;
    }
}

fn answer<T: Serialize>(mut channel: &Channel, reply: &Reply<T>) -> Result<(), frame::FrameError> {
    let frame = frame::encode(reply, REPORT_BYTES_MAX)?;
    Ok(channel.write_all(&frame)?)
}
