//! One child, from its fork to its end: descriptors, job, jail, work, report, and more jobs if it stays.

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

/// What a child does with a job. One value lives in the zygote; each child works on its own copy of it.
pub trait Worker {
    /// What is asked.
    type Job: DeserializeOwned;
    /// What is answered.
    type Report: Serialize;

    /// The jail for `job`, put up before [`Worker::work`] is called. The job comes from the supervisor and
    /// can be trusted; the files beside it cannot.
    ///
    /// # Errors
    /// As [`Confinement::new`].
    fn confinement(&self, job: &Self::Job) -> Result<Confinement, SandboxError>;

    /// Does `job`. Called again for a child that stays, with the same files.
    ///
    /// # Errors
    /// Text for people: why there is no report. The child then ends.
    fn work(&mut self, job: Self::Job, files: &Files) -> Result<Self::Report, String>;

    /// Whether the child can do another job with the same files after the one that it did.
    fn stays(&self) -> bool {
        false
    }

    /// Whether a child is to be kept ready for the next job that needs a new one.
    const KEEPS_SPARE: bool = false;

    /// Forgets what the last job was about. Called between the jobs of a child that stays, when the report is
    /// sent.
    fn idle(&mut self) {}
}

/// What a child answers with.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply<T> {
    /// The report; the child ends.
    Done(T),
    /// The report; the child can do another job with the same files.
    Resting(T),
    /// There is none, and why.
    Failed { detail: String },
    /// A part of the answer; more follows.
    Part(T),
}

/// The files beside a job.
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
    /// What the kernel says.
    pub fn elf(&self) -> io::Result<Vec<u8>> {
        read_all(&self.elf, self.elf.metadata()?.len())
    }

    /// The sealed libraries and what is behind them in a run child, the output file in a compile child.
    pub fn extras(&self) -> impl ExactSizeIterator<Item = &File> {
        self.extras.iter().map(|file| &**file)
    }

    /// The bytes of one of [`Files::extras`].
    ///
    /// # Errors
    /// What the kernel says, or there is no such file.
    pub fn extra(&self, index: usize) -> io::Result<Vec<u8>> {
        let file = self.extras.get(index).ok_or(io::ErrorKind::NotFound)?;
        read_all(file, file.metadata()?.len())
    }

    /// The bytes of one of [`Files::extras`], mapped for good: nothing of it is copied.
    ///
    /// # Errors
    /// What the kernel says, or there is no such file.
    pub fn map_extra(&self, index: usize) -> io::Result<Bytes> {
        map_for_good(self.extras.get(index).ok_or(io::ErrorKind::NotFound)?)
    }

    /// Answers with a part of the report; how many there may be is part of the job.
    ///
    /// # Errors
    /// What the kernel says, or the part is longer than a report may be.
    pub fn send_part<T: Serialize>(&self, part: &T) -> io::Result<()> {
        // The supervisor takes nothing but whole answers: it need not be woken for each part.
        let frame = frame::encode(&Reply::Part(part), REPORT_BYTES_MAX).map_err(io::Error::other)?;
        self.channel.write_without_wake(&frame)
    }

    /// Sends `bytes` as they are, frame or not: for workers that try a supervisor's patience.
    ///
    /// # Errors
    /// The places of the channel make no sense any more.
    pub fn send_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.channel).write_all(bytes)
    }

    /// The memory that is shared with the supervisor: for workers that spoil it.
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

/// Exit status of a child that could not even get at its job.
const NOT_ARRIVED: i32 = 2;

/// Lives the life of a child. `fds` are what came with `spawn`.
///
/// # Safety
/// The process was just forked from a locked-in zygote and nothing above this call uses a descriptor again.
pub(crate) unsafe fn live<W: Worker>(
    worker: &mut W,
    zygote: Pid,
    layers: &[LayerStatus],
    spawn: Spawn,
    fds: &[OwnedFd],
) -> ! {
    std::panic::set_hook(Box::new(|panic| {
        // The process may not write to standard error any more.
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
    // SAFETY: passed on.
    let Ok(files) = (unsafe { arrive(zygote, spawn, fds) }) else { exit_now(NOT_ARRIVED) };
    if layers.iter().any(|status| status.layer == Layer::SealedCode && status.active) {
        // Without it a call outside of the policy ends the process all the same.
        let _ = files.channel.name_violations();
    }
    // SAFETY: passed on; `arrive` has put the descriptors at their numbers.
    let worked = catch_unwind(AssertUnwindSafe(|| unsafe { serve_jobs(worker, layers, &files) }));
    let detail = match worked {
        Ok(Ok(())) => exit_now(0),
        Ok(Err(detail)) => detail,
        Err(_) => PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone(),
    };
    let sent = answer(&files.channel, &Reply::<()>::Failed { detail });
    exit_now(if sent.is_ok() { 0 } else { 1 })
}

/// Puts the descriptors of a job at their numbers, and attaches to the channel to the supervisor.
///
/// # Safety
/// Nothing in the process uses descriptors 0 to 5, or those of libraries, but by number.
unsafe fn arrive(zygote: Pid, spawn: Spawn, fds: &[OwnedFd]) -> io::Result<Files> {
    // Standard input is the zygote's socket, and standard output is /dev/null.
    // SAFETY: descriptor 1 is open (the zygote holds it) and is only borrowed for this call.
    let null = unsafe { BorrowedFd::borrow_raw(1) };
    let mut numbers = vec![CONTROL_FD, ELF_FD];
    numbers.extend(extra_numbers(spawn));
    if spawn.has_stderr {
        numbers.push(2);
    }
    if fds.len() != numbers.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the caller vouches for the owners of these numbers.
    unsafe {
        move_to(null, 0)?;
        for (fd, number) in fds.iter().zip(numbers) {
            move_to(fd.as_fd(), number)?;
        }
    }
    let file = |number| {
        // SAFETY: the descriptor is open, and ManuallyDrop leaves it so; the number is used nowhere else.
        ManuallyDrop::new(unsafe { File::from_raw_fd(number) })
    };
    let channel = Channel::attach(file(CONTROL_FD).as_fd())?;
    // What is mapped stays; and a guest that took the child over would have one descriptor less.
    drop(ManuallyDrop::into_inner(file(CONTROL_FD)));
    Ok(Files { zygote, channel, elf: file(ELF_FD), extras: extra_numbers(spawn).map(file).collect() })
}

/// Numbers of the files beyond the first. A supervisor never sends more than there is room for.
fn extra_numbers(spawn: Spawn) -> impl Iterator<Item = i32> {
    (EXTRA_FD..).take(usize::from(spawn.extras).min(EXTRA_FDS_MAX))
}

/// Reads a job, locks the process in, works; and again without the jail, as long as the worker stays.
///
/// # Safety
/// The descriptors of the job are at their numbers, and nothing but this child's own code uses any descriptor
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
        // Until now it shares its zygote's, with all other children.
        separate_core().map_err(|error| error.to_string())?;
    }
    // SAFETY: the caller vouches for all descriptors but the kept ones.
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
