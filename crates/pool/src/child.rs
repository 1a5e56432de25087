//! One child, from its fork to its end: descriptors, job, jail, work, report.

use std::{
    fs::File,
    io::{self, Write},
    mem::ManuallyDrop,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
};

use antares_sandbox::{
    CONTROL_FD, ELF_FD, EXTRA_FD, EXTRA_FDS_MAX, Jail, LayerStatus, SandboxError, exit_now, place,
};
use rustix::process::Pid;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    frame::{self, JOB_BYTES_MAX, REPORT_BYTES_MAX},
    sealed::read_all,
    wire::Spawn,
};

/// What a child does with a job. One value lives in the zygote; each child works on its own copy of it.
pub trait Worker {
    /// What is asked.
    type Job: DeserializeOwned;
    /// What is answered.
    type Report: Serialize;

    /// The jail for `job`, put up before [`Worker::work`] is called. The job comes from the supervisor and can be
    /// trusted; the files beside it cannot.
    ///
    /// # Errors
    /// As [`Jail::new`].
    fn jail(&self, job: &Self::Job) -> Result<Jail, SandboxError>;

    /// Does `job`.
    ///
    /// # Errors
    /// Text for people: why there is no report.
    fn work(&mut self, job: Self::Job, files: &Files) -> Result<Self::Report, String>;
}

/// What a child answers with.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply<T> {
    /// The report.
    Done(T),
    /// There is none, and why.
    Failed { detail: String },
    /// A part of the answer; more follows.
    Part(T),
}

/// The files beside a job.
#[derive(Debug)]
pub struct Files {
    zygote: Pid,
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

    /// Answers with a part of the report; how many there may be is part of the job.
    ///
    /// # Errors
    /// What the kernel says, or the part is longer than a report may be.
    pub fn tell_part<T: Serialize>(&self, part: &T) -> io::Result<()> {
        answer(&Reply::Part(part)).map_err(io::Error::other)
    }

    /// The process id of the zygote, for [`Jail::lock_in`].
    #[must_use]
    pub fn zygote(&self) -> Pid {
        self.zygote
    }
}

/// Text of the last panic in this process.
static PANIC: Mutex<String> = Mutex::new(String::new());

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
    let reply = match unsafe { arrive(spawn, fds) } {
        // SAFETY: passed on; `arrive` has put the descriptors at their numbers.
        Ok(()) => catch_unwind(AssertUnwindSafe(|| unsafe { job(worker, zygote, layers, spawn) })),
        Err(error) => Ok(Err(format!("cannot place descriptors: {error}"))),
    };
    let reply = match reply {
        Ok(Ok(report)) => Reply::Done(report),
        Ok(Err(detail)) => Reply::Failed { detail },
        Err(_) => Reply::Failed { detail: PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone() },
    };
    let sent = answer(&reply).or_else(|error| answer(&Reply::<()>::Failed { detail: error.to_string() }));
    exit_now(if sent.is_ok() { 0 } else { 1 })
}

/// Puts the descriptors of a job at their numbers.
///
/// # Safety
/// Nothing in the process uses descriptors 0 to 5, or those of libraries, but by number.
unsafe fn arrive(spawn: Spawn, fds: &[OwnedFd]) -> io::Result<()> {
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
        place(null, 0)?;
        for (fd, number) in fds.iter().zip(numbers) {
            place(fd.as_fd(), number)?;
        }
    }
    Ok(())
}

/// Numbers of the files beyond the first. A supervisor never sends more than there is room for.
fn extra_numbers(spawn: Spawn) -> impl Iterator<Item = i32> {
    (EXTRA_FD..).take(usize::from(spawn.extras).min(EXTRA_FDS_MAX))
}

/// Reads the job, locks the process in, works.
///
/// # Safety
/// The descriptors of the job are at their numbers, and nothing but this child's own code uses any descriptor again.
unsafe fn job<W: Worker>(
    worker: &mut W,
    zygote: Pid,
    layers: &[LayerStatus],
    spawn: Spawn,
) -> Result<W::Report, String> {
    let job = frame::read(&mut &*control(), JOB_BYTES_MAX)
        .map_err(|error| format!("cannot read the job: {error}"))?;
    let jail = worker.jail(&job).map_err(|error| error.to_string())?;
    // SAFETY: the caller vouches for all descriptors but the kept ones.
    let own = unsafe { jail.lock_in(zygote) }.map_err(|error| error.to_string())?;
    let stood = |status: &LayerStatus| layers.iter().any(|other| other.layer == status.layer && other.active);
    if let Some(missing) = own.iter().find(|status| !status.active && stood(status)) {
        return Err(format!("sandbox layer {missing}, but it stood in the zygote"));
    }
    let file = |number| {
        // SAFETY: the descriptor is open, and ManuallyDrop leaves it so; the number is used nowhere else.
        ManuallyDrop::new(unsafe { File::from_raw_fd(number) })
    };
    let extras = extra_numbers(spawn).map(file).collect();
    worker.work(job, &Files { zygote, elf: file(ELF_FD), extras })
}

fn answer<T: Serialize>(reply: &Reply<T>) -> Result<(), frame::FrameError> {
    let frame = frame::encode(reply, REPORT_BYTES_MAX)?;
    Ok((&*control()).write_all(&frame)?)
}

fn control() -> ManuallyDrop<File> {
    // SAFETY: `arrive` put the stream at this number, and ManuallyDrop leaves it open.
    ManuallyDrop::new(unsafe { File::from_raw_fd(CONTROL_FD) })
}
