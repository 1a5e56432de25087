//! The self-test: a child confines itself like a run worker and then tries forbidden actions.

use std::{
    io,
    os::fd::AsFd,
    ptr,
    sync::atomic::{AtomicU8, Ordering},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
    process::{Pid, WaitId, WaitIdOptions, getpid, pidfd_open, waitid},
};

use crate::{Confinement, Fork, Layer, LayerStatus, Policy, SandboxError, exit_now, fork};

/// Progress of the probe, which can only report by writing to memory.
const BEGUN: u8 = 0;
const DENIED: u8 = 1;
const OPENED: u8 = 2;
/// From here on: confinement failed at the layer with index `value - FAILED_AT` in [`Layer::ALL`].
const FAILED_AT: u8 = 16;
/// Bytes of the shared page.
const SHARED_BYTES: usize = 4096;
/// Exit status of a probe that survived a forbidden system call.
const SURVIVED: i32 = 7;

/// Forks a child that confines itself like a run worker, tries to open `/`, and makes a forbidden system
/// call. Returns one entry per layer: the status in `zygote` (the result of confining the calling process),
/// corrected by the child's findings.
///
/// # Safety
/// As for [`fork`](crate::fork()).
///
/// # Errors
/// If the child cannot be created or waited for.
pub unsafe fn self_test(zygote: &[LayerStatus]) -> Result<Vec<LayerStatus>, SandboxError> {
    let step = |step| SandboxError::step(Layer::Seccomp, step);
    let reported = Shared::map().map_err(step("map memory for the self-test"))?;
    let zygote_pid = getpid();
    // SAFETY: the caller guarantees the single thread.
    let child = match unsafe { fork() }.map_err(step("fork for the self-test"))? {
        Fork::Parent(child) => child,
        Fork::Child => probe(zygote_pid, reported.byte()),
    };
    let ended = ended_by(child).map_err(io::Error::from).map_err(step("wait for the self-test"))?;
    let reported = reported.byte().load(Ordering::SeqCst);
    let stopped_at = reported.checked_sub(FAILED_AT).and_then(|at| Layer::ALL.get(usize::from(at)));
    let missing = |layer| match (stopped_at, layer) {
        (Some(stop), Layer::Landlock | Layer::Seccomp) => {
            Some(format!("not tried, {stop} could not be put up"))
        }
        (Some(stop), layer) if *stop == layer => Some("the self-test could not put it up".to_owned()),
        (None, Layer::Landlock) if reported == OPENED => Some("the self-test opened /".to_owned()),
        (None, Layer::Landlock) if reported != DENIED => Some("the self-test could not run".to_owned()),
        (None, Layer::Seccomp) if ended != Some(libc::SIGSYS) || reported == BEGUN => {
            Some(format!("the self-test was not stopped (step {reported}, signal {ended:?})"))
        }
        _ => None,
    };
    let mut layers = zygote.to_vec();
    for layer in layers.iter_mut().filter(|layer| layer.active) {
        if let Some(detail) = missing(layer.layer) {
            *layer = LayerStatus { active: false, detail, ..*layer };
        }
    }
    Ok(layers)
}

/// A page that a process shares with its children, initially zero.
struct Shared(*mut libc::c_void);

impl Shared {
    fn map() -> io::Result<Self> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: without MAP_FIXED a new mapping replaces nothing; the kernel chooses the address.
        let start = unsafe { libc::mmap(ptr::null_mut(), SHARED_BYTES, access, flags, -1, 0) };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self(start)) }
    }

    fn byte(&self) -> &AtomicU8 {
        // SAFETY: the page is mapped as long as `self` lives, and is only used as this atomic.
        unsafe { AtomicU8::from_ptr(self.0.cast()) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: `map` mapped exactly this page, and references from `byte` do not outlive `self`.
        unsafe { libc::munmap(self.0, SHARED_BYTES) };
    }
}

/// The signal that ended `child`, if any.
fn ended_by(child: Pid) -> Result<Option<i32>, Errno> {
    let handle = pidfd_open(child, rustix::process::PidfdFlags::empty())?;
    let status = waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED)?;
    Ok(status.and_then(|status| status.terminating_signal()))
}

fn probe(zygote: Pid, reported: &AtomicU8) -> ! {
    let stages = [Policy::run_load(), Policy::run()].map(Confinement::new);
    let [Ok(load), Ok(run)] = stages else { exit_now(1) };
    // SAFETY: this child uses no descriptor and ends by exit_now.
    if let Err(error) = unsafe { load.lock_in(zygote) } {
        report_failure(&error, reported, 2);
    }
    let opened = openat(CWD, "/", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    reported.store(if opened.is_err() { DENIED } else { OPENED }, Ordering::SeqCst);
    // SAFETY: as above.
    if let Err(error) = unsafe { run.lock_in(zygote) } {
        report_failure(&error, reported, 3);
    }
    // Harmless, and allowed in every stage except the last.
    let _ = getpid();
    exit_now(SURVIVED)
}

fn report_failure(error: &SandboxError, reported: &AtomicU8, status: i32) -> ! {
    let at = error.layer().and_then(|layer| Layer::ALL.iter().position(|other| *other == layer));
    if let Some(at) = at.and_then(|at| u8::try_from(at).ok()) {
        reported.store(FAILED_AT + at, Ordering::SeqCst);
    }
    exit_now(status)
}
