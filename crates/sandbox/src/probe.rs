//! The self-test: a child that locks itself in like a run worker and then tries what it must not be able to do.

use std::{
    io::Read,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, WaitId, WaitIdOptions, getpid, pidfd_open, waitid},
};

use crate::{CONTROL_FD, Fork, Jail, Layer, LayerStatus, Policy, SandboxError, exit_now, fork, place};

/// What the probe writes when the file system was denied, and when it was not.
const DENIED: u8 = b'd';
const OPENED: u8 = b'o';
/// Exit status of a probe that survived a forbidden system call.
const SURVIVED: i32 = 7;

/// Forks a child that locks itself in as a run worker does and tries to open `/` and to make a forbidden system call.
/// The answer has one entry per layer: what `zygote` (the answer of locking in the calling process) said, corrected by
/// what the child could do.
///
/// # Safety
/// As for [`fork`](crate::fork()); and nothing in the process uses descriptor [`CONTROL_FD`].
///
/// # Errors
/// The child could not be made or waited for.
pub unsafe fn self_test(zygote: &[LayerStatus]) -> Result<Vec<LayerStatus>, SandboxError> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)
        .map_err(SandboxError::step(Layer::Seccomp, "make a pipe for the self-test"))?;
    let zygote_pid = getpid();
    // SAFETY: the caller vouches for the single thread.
    let child =
        match unsafe { fork() }.map_err(SandboxError::step(Layer::Seccomp, "fork for the self-test"))? {
            Fork::Parent(child) => child,
            // SAFETY: the caller vouches for CONTROL_FD, and this child ends inside.
            Fork::Child => unsafe { probe(zygote_pid, &writer) },
        };
    drop(writer);
    let mut heard = Vec::new();
    std::fs::File::from(reader)
        .read_to_end(&mut heard)
        .map_err(SandboxError::step(Layer::Seccomp, "hear the self-test"))?;
    let killed_for_call = ended_by(child)
        .map_err(SandboxError::step(Layer::Seccomp, "wait for the self-test"))?
        == Some(libc::SIGSYS);
    let mut layers = zygote.to_vec();
    for layer in &mut layers {
        let failed = match layer.layer {
            Layer::Landlock => heard.first() != Some(&DENIED),
            Layer::Seccomp => !killed_for_call,
            _ => false,
        };
        if layer.active && failed {
            layer.active = false;
            layer.detail = format!("the self-test got through ({})", String::from_utf8_lossy(&heard));
        }
    }
    Ok(layers)
}

/// Signal that ended `child`, if one did.
fn ended_by(child: Pid) -> Result<Option<i32>, Errno> {
    let handle = pidfd_open(child, rustix::process::PidfdFlags::empty())?;
    let status = waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED)?;
    Ok(status.and_then(|status| status.terminating_signal()))
}

/// # Safety
/// Nothing in the process uses CONTROL_FD.
unsafe fn probe(zygote: Pid, writer: &OwnedFd) -> ! {
    // SAFETY: the caller vouches for CONTROL_FD.
    if unsafe { place(writer.as_fd(), CONTROL_FD) }.is_err() {
        exit_now(1);
    }
    let stages = [Policy::run_load(), Policy::run()].map(Jail::new);
    let [Ok(load), Ok(run)] = stages else { exit_now(2) };
    // SAFETY: this child uses no descriptor but CONTROL_FD, by number, and ends by exit_now.
    if let Err(error) = unsafe { load.lock_in(zygote) } {
        tell(error.to_string().as_bytes());
        exit_now(3);
    }
    let opened = openat(CWD, "/", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    tell(&[if opened.is_err() { DENIED } else { OPENED }]);
    // SAFETY: as above.
    if let Err(error) = unsafe { run.lock_in(zygote) } {
        tell(error.to_string().as_bytes());
        exit_now(4);
    }
    // Harmless, and allowed in every stage but the last.
    let _ = getpid();
    tell(b" made a forbidden call");
    exit_now(SURVIVED)
}

/// Writes to CONTROL_FD, which may be the only thing left that is allowed.
fn tell(bytes: &[u8]) {
    // SAFETY: the pointer and length are those of a slice; the descriptor is a number, checked by the kernel.
    unsafe { libc::write(CONTROL_FD, bytes.as_ptr().cast(), bytes.len()) };
}
