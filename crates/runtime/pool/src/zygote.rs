//! The worker binary's side: a single-threaded process that enters its sandbox once and forks a child for
//! each job.

use std::{
    fs::OpenOptions,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

use antares_sandbox::{
    CONTROL_FD, Confinement, EXTRA_FD, EXTRA_FDS_MAX, Fork, LayerStatus, Policy, SandboxError, Speculation,
    fork, move_to, self_test,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, getpid, getppid, pidfd_open, setsid, waitid,
    },
};

use crate::{
    child::{Worker, live},
    describe,
    process_state::{ProcessKind, settle},
    spare::Spare,
    wire::{self, End, News, SPAWN_BYTES_MAX, Spawn},
    zygote_error::ZygoteError,
};

/// First argument of a zygote. The second is its supervisor's process id; the rest are the speculation limits
/// to request from the kernel.
pub(crate) const ZYGOTE_ARGUMENT: &str = "zygote";
pub(crate) const LIMIT_STORES: &str = "limit-store-bypass";
pub(crate) const LIMIT_BRANCHES: &str = "limit-indirect-branches";
pub(crate) const OWN_CORE: &str = "own-core";

/// Idle time before a spare child is forked.
const SPARE_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };

/// Serves as a zygote until the supervisor ends. `prepare` creates the worker and warms up what all children
/// share; it runs before the process enters its sandbox, and must start no thread.
///
/// # Errors
/// The process was not started by a supervisor, cannot enter the sandbox, or the kernel fails.
pub fn serve<W: Worker>(prepare: impl FnOnce() -> Result<W, String>) -> Result<(), ZygoteError> {
    match serve_supervisor(prepare) {
        // The supervisor has ended, maybe before this process started: there is no recipient for the error.
        Err(error) if error.is_of_the_end() => Ok(()),
        ended => ended,
    }
}

fn serve_supervisor<W: Worker>(prepare: impl FnOnce() -> Result<W, String>) -> Result<(), ZygoteError> {
    let (supervisor, speculation) = parse_arguments()?;
    settle(ProcessKind::Zygote);
    // SAFETY: the arguments are those with which a pool passes its socket as standard input, which nothing else
    // in this process uses.
    let socket = unsafe { OwnedFd::from_raw_fd(0) };
    let ready = hold_numbers().and_then(|()| {
        // Terminal signals are for the service, which drains; the zygote ends with it.
        setsid().map_err(ZygoteError::io("leave the terminal"))?;
        be_first_when_memory_is_out();
        let worker = prepare().map_err(ZygoteError::Prepare)?;
        Ok((worker, lock_in(supervisor, speculation)?))
    });
    let (worker, layers) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            let news = News::Failed { detail: describe(&error) };
            wire::send(socket.as_fd(), &news, &[]).map_err(ZygoteError::io("tell the supervisor"))?;
            return Err(error);
        }
    };
    let news = News::Ready { layers: layers.clone() };
    wire::send(socket.as_fd(), &news, &[]).map_err(ZygoteError::io("tell the supervisor"))?;
    Zygote { worker, socket, layers, children: Vec::new(), spare: None }.attend()
}

/// The supervisor, if it is the parent, and its settings, from the arguments.
fn parse_arguments() -> Result<(Pid, Speculation), ZygoteError> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(ZYGOTE_ARGUMENT) {
        return Err(ZygoteError::NotAsked);
    }
    let supervisor = arguments
        .next()
        .and_then(|text| text.parse().ok())
        .filter(|number| *number > 0)
        .and_then(Pid::from_raw)
        .ok_or(ZygoteError::NotAsked)?;
    let mut speculation = Speculation::default();
    for word in arguments {
        match &*word {
            LIMIT_STORES => speculation.limit_store_bypass = true,
            LIMIT_BRANCHES => speculation.limit_indirect_branches = true,
            OWN_CORE => speculation.own_core = true,
            _ => return Err(ZygoteError::NotAsked),
        }
    }
    if getppid() != Some(supervisor) {
        return Err(SandboxError::ParentGone.into());
    }
    Ok((supervisor, speculation))
}

/// Makes the kernel end this process and its children before all others when memory is out: that loses a job,
/// but not the service.
fn be_first_when_memory_is_out() {
    // If this fails, the kernel ends the largest process, as without it.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// Reserves the descriptor numbers of children, so that no received descriptor gets one of them.
fn hold_numbers() -> Result<(), ZygoteError> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = null.map_err(ZygoteError::io("open /dev/null"))?;
    let last = (CONTROL_FD..).take(3 + EXTRA_FDS_MAX - 1).last().unwrap_or(EXTRA_FD);
    for number in std::iter::once(1).chain(CONTROL_FD..=last) {
        // SAFETY: the process was just executed with descriptors 0 to 2, so those from 3 on are `null` itself
        // or have no owner; `null` is forgotten below, and standard output is only used by number.
        unsafe { move_to(null.as_fd(), number) }.map_err(ZygoteError::io("place /dev/null"))?;
    }
    if null.as_raw_fd() <= last {
        std::mem::forget(null);
    }
    Ok(())
}

fn lock_in(supervisor: Pid, speculation: Speculation) -> Result<Vec<LayerStatus>, SandboxError> {
    let confinement = Confinement::new(Policy { speculation, ..Policy::zygote() })?;
    // SAFETY: the process has the retained descriptors, and no others with an owner.
    let layers = unsafe { confinement.lock_in(supervisor) }?;
    // SAFETY: `lock_in` counted one thread.
    unsafe { self_test(&layers) }
}

/// A child that has not been reaped.
struct Living {
    ticket: u64,
    handle: OwnedFd,
}

struct Zygote<W> {
    worker: W,
    socket: OwnedFd,
    layers: Vec<LayerStatus>,
    children: Vec<Living>,
    /// A child that waits for the next job.
    spare: Option<Spare>,
}

impl<W: Worker> Zygote<W> {
    fn attend(mut self) -> Result<(), ZygoteError> {
        let mut wants_spare = W::KEEPS_SPARE;
        loop {
            // Do not fork a spare child while a request needs the processor.
            if wants_spare && self.spare.is_none() && !self.is_busy(SPARE_AFTER)? {
                // Without a spare child, a job only waits longer. SAFETY: the zygote's filter forbids new
                // threads, and `lock_in` counted one; otherwise /dev/null occupies the number.
                self.spare = unsafe { Spare::make(&mut self.worker, &self.layers) }.ok();
            }
            let (asked, spare_ended, ended) = self.wait()?;
            if spare_ended && let Some(spare) = self.spare.take() {
                waitid(WaitId::PidFd(spare.handle.as_fd()), WaitIdOptions::EXITED)
                    .map_err(ZygoteError::io("reap a child"))?;
                // Do not lose one spare child after the other for the same reason.
                wants_spare = false;
            }
            for index in ended.into_iter().rev() {
                let child = self.children.swap_remove(index);
                self.reap(&child)?;
            }
            if asked {
                match wire::receive::<_, SPAWN_BYTES_MAX>(self.socket.as_fd())
                    .map_err(ZygoteError::io("hear the supervisor"))?
                {
                    Some((spawn, fds)) => {
                        wants_spare = W::KEEPS_SPARE;
                        self.spawn(spawn, fds)?;
                    }
                    // Children end by their parent-death signal.
                    None => return Ok(()),
                }
            }
        }
    }

    /// Whether there is an event within `patience`.
    fn is_busy(&self, patience: Timespec) -> Result<bool, ZygoteError> {
        let handles = self.children.iter().map(|child| &child.handle);
        let fds = std::iter::once(&self.socket).chain(handles);
        let mut polled: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&patience)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(ZygoteError::io("look for work")(error)),
        }
    }

    /// Waits for a request (first result), the end of the spare child, or the end of children (their indices,
    /// ascending).
    fn wait(&self) -> Result<(bool, bool, Vec<usize>), ZygoteError> {
        // The socket is a placeholder for a missing spare child.
        let spare = self.spare.as_ref().map_or(&self.socket, |spare| &spare.handle);
        let handles = self.children.iter().map(|child| &child.handle);
        let fds = [&self.socket, spare].into_iter().chain(handles);
        let mut polled: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(ZygoteError::io("wait")(error)),
        }
        let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
        let asked = ready.next().unwrap_or(false);
        let spare_ended = ready.next().unwrap_or(false) && self.spare.is_some();
        Ok((
            asked,
            spare_ended,
            ready.enumerate().filter(|(_, ready)| *ready).map(|(index, _)| index).collect(),
        ))
    }

    fn reap(&self, child: &Living) -> Result<(), ZygoteError> {
        let status = waitid(WaitId::PidFd(child.handle.as_fd()), WaitIdOptions::EXITED);
        let status = status.map_err(ZygoteError::io("reap a child"))?;
        self.notify(&News::Ended { ticket: child.ticket, end: end_of(status) })
    }

    fn spawn(&mut self, spawn: Spawn, fds: Vec<OwnedFd>) -> Result<(), ZygoteError> {
        let ticket = spawn.ticket;
        if let Some(spare) = self.spare.take() {
            if spare.send(&spawn, &fds).is_ok() {
                drop(fds);
                return self.adopt(ticket, spare.handle);
            }
            // It received nothing, and ends because its socket closes.
            spare.hang_up();
            waitid(WaitId::PidFd(spare.handle.as_fd()), WaitIdOptions::EXITED)
                .map_err(ZygoteError::io("reap a child"))?;
        }
        let zygote = getpid();
        // SAFETY: the zygote's filter forbids new threads, and `lock_in` counted one.
        let child = match unsafe { fork() } {
            // SAFETY: this is the child, which never returns to the zygote's owners of descriptors.
            Ok(Fork::Child) => unsafe { live(&mut self.worker, zygote, &self.layers, spawn, &fds) },
            Ok(Fork::Parent(child)) => child,
            Err(error) => {
                return self.notify(&News::NotSpawned { ticket, detail: format!("cannot fork: {error}") });
            }
        };
        // The zygote must not retain the child's descriptors.
        drop(fds);
        let handle =
            pidfd_open(child, PidfdFlags::empty()).map_err(ZygoteError::io("open a child's pidfd"))?;
        self.adopt(ticket, handle)
    }

    /// Reports a child to the supervisor.
    fn adopt(&mut self, ticket: u64, handle: OwnedFd) -> Result<(), ZygoteError> {
        let news = News::Spawned { ticket };
        wire::send(self.socket.as_fd(), &news, &[handle.as_fd()])
            .map_err(ZygoteError::io("tell the supervisor"))?;
        self.children.push(Living { ticket, handle });
        Ok(())
    }

    fn notify(&self, news: &News) -> Result<(), ZygoteError> {
        wire::send(self.socket.as_fd(), news, &[]).map_err(ZygoteError::io("tell the supervisor"))
    }
}

fn end_of(status: Option<WaitIdStatus>) -> End {
    let signal = status.as_ref().and_then(WaitIdStatus::terminating_signal);
    match (signal, status.as_ref().and_then(WaitIdStatus::exit_status)) {
        (Some(signal), _) => End::Signal(signal),
        (None, status) => End::Exit(status.unwrap_or(-1)),
    }
}
