//! Resets inherited process state. Called once at startup; `docs/operations.md` has the table.

use std::{ffi::c_int, io, mem::MaybeUninit, ptr};

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKind {
    /// A service: only SIGTERM, SIGINT and SIGKILL end it, and its files are private.
    Service,
    /// A user's command, for which `nohup` and a umask may be intended.
    Command,
    /// A zygote, whose children end at their limits.
    Zygote,
}

/// Signals that a user's shell or `nohup` may ignore on purpose; a service has its own handlers for the first
/// two.
const INHERITED_BY_COMMANDS: [c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Highest signal number.
const SIGNAL_MAX: c_int = 64;

/// Limits that are raised to their maximum: beyond them, the kernel ends the process, or denies it files,
/// threads and memory.
const RAISED: [Resource; 6] =
    [Resource::Nofile, Resource::Fsize, Resource::Cpu, Resource::As, Resource::Data, Resource::Nproc];

/// Resets the state. Call it before the process has threads and opens anything. Failures are ignored: the state
/// then remains, and later operations fail with an error.
///
/// `main` of any Rust program starts with open standard descriptors (`/dev/null` if they were closed) and with
/// SIGPIPE ignored.
pub fn settle(kind: ProcessKind) {
    for signal in 1..=SIGNAL_MAX {
        let is_left = kind == ProcessKind::Command && INHERITED_BY_COMMANDS.contains(&signal);
        if signal != libc::SIGPIPE && !is_left && is_ignored(signal) {
            set(signal, libc::SIG_DFL);
        }
    }
    if kind != ProcessKind::Zygote {
        // Exceeding the file size limit should be an error for the writer, not the end of the process.
        set(libc::SIGXFSZ, libc::SIG_IGN);
        RAISED.into_iter().for_each(raise);
    }
    if kind == ProcessKind::Service {
        // Ignored until there is a handler: every start does what the signal requests.
        set(libc::SIGHUP, libc::SIG_IGN);
        umask(Mode::RWXG | Mode::RWXO);
    }
    unblock_all();
    stop_timers();
    // SAFETY: the calls take numbers. Programs that this process executes do not inherit layouts without
    // randomness, executability of readable memory, and a faulting clock.
    unsafe {
        libc::personality(0);
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE);
        libc::prctl(libc::PR_SET_TIMERSLACK, 0_u64);
        // Inherited descriptors are not passed on.
        libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed());
    }
}

fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` has space for the answer, which remains all zeros (SIG_DFL) if the call fails.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn set(signal: c_int, disposition: libc::sighandler_t) {
    // SAFETY: SIG_DFL and SIG_IGN are not functions.
    unsafe { libc::signal(signal, disposition) };
}

fn unblock_all() {
    let mut none = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `none` has space for a set, and is initialized when it is used.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Stops timers: they outlive an `execve`, and their signal ends the process.
fn stop_timers() {
    // SAFETY: all zeros is a timer that is off.
    let off = unsafe { MaybeUninit::<libc::itimerval>::zeroed().assume_init() };
    for timer in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
        // SAFETY: `off` is a timer, and the old value is not needed.
        unsafe { libc::setitimer(timer, &raw const off, ptr::null_mut()) };
    }
}

fn raise(resource: Resource) {
    let Rlimit { maximum, .. } = getrlimit(resource);
    // Raising a limit to its maximum is never rejected.
    let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
}

/// Whether this process adopts the orphans of its container: it has process id 1, or is a subreaper.
pub(crate) fn is_init() -> bool {
    let mut asked: c_int = 0;
    // SAFETY: the call writes an int to a valid location.
    let answer = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut asked) };
    std::process::id() == 1 || answer == 0 && asked != 0
}

/// Waits for an ended child that has not been reaped, without reaping it.
///
/// # Errors
/// `ECHILD` if there are no children.
pub(crate) fn ended_child() -> io::Result<u32> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: `info` has space for the answer, which describes a child if the call succeeds.
    unsafe {
        if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(info.assume_init().si_pid().cast_unsigned())
    }
}
