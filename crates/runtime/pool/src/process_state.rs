//! The state that a process wants, whatever it inherited from whoever started it. Set once, first of all, in
//! one place; `docs/operations.md` has the table.

use std::{ffi::c_int, io, mem::MaybeUninit, ptr};

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessKind {
    /// A service: nothing but SIGTERM, SIGINT and SIGKILL ends it, and its files are its own.
    Service,
    /// A command of a person, who may have a reason for `nohup` and for a umask.
    Command,
    /// A zygote, whose children are ended by what limits them.
    Zygote,
}

/// Signals that a person's shell or `nohup` may have had ignored for a reason; a service has handlers of its
/// own for the first two.
const INHERITED_BY_COMMANDS: [c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Highest number of a signal.
const SIGNAL_MAX: c_int = 64;

/// Limits that are raised as far as the system lets a process: beyond them the kernel ends it, or refuses it
/// files, threads and memory.
const RAISED: [Resource; 6] =
    [Resource::Nofile, Resource::Fsize, Resource::Cpu, Resource::As, Resource::Data, Resource::Nproc];

/// Sets it. Call it before the process has threads and opens anything. Nothing of it can fail in a way that
/// matters: what the system refuses stays as it was, and shows in what fails then.
///
/// Standard descriptors that were closed are open (`/dev/null`) and SIGPIPE is ignored before `main` of any
/// Rust program.
pub fn settle(kind: ProcessKind) {
    for signal in 1..=SIGNAL_MAX {
        let is_left = kind == ProcessKind::Command && INHERITED_BY_COMMANDS.contains(&signal);
        if signal != libc::SIGPIPE && !is_left && is_ignored(signal) {
            set(signal, libc::SIG_DFL);
        }
    }
    if kind != ProcessKind::Zygote {
        // A file that may not grow is an error of whoever writes it, and not the end of the process.
        set(libc::SIGXFSZ, libc::SIG_IGN);
        RAISED.into_iter().for_each(raise);
    }
    if kind == ProcessKind::Service {
        // Until there is who hears it: what it asks for is done at every start.
        set(libc::SIGHUP, libc::SIG_IGN);
        umask(Mode::RWXG | Mode::RWXO);
    }
    unblock_all();
    stop_timers();
    // SAFETY: the calls take numbers. Layouts without randomness, memory that can be executed because it can
    // be read, and a clock that faults are not inherited by what is executed from here on.
    unsafe {
        libc::personality(0);
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE);
        libc::prctl(libc::PR_SET_TIMERSLACK, 0_u64);
        // What was open is whoever's started this process; it goes no further.
        libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed());
    }
}

fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` has room for the answer, which is all zeros (SIG_DFL) where the call fails.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn set(signal: c_int, disposition: libc::sighandler_t) {
    // SAFETY: SIG_DFL and SIG_IGN are no functions.
    unsafe { libc::signal(signal, disposition) };
}

fn unblock_all() {
    let mut none = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `none` has room for a set, and is one when it is used.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// A timer outlives an `execve`, and its signal ends the process.
fn stop_timers() {
    // SAFETY: all zeros is a timer that is off.
    let off = unsafe { MaybeUninit::<libc::itimerval>::zeroed().assume_init() };
    for timer in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
        // SAFETY: `off` is a timer, and nobody wants the old one.
        unsafe { libc::setitimer(timer, &raw const off, ptr::null_mut()) };
    }
}

fn raise(resource: Resource) {
    let Rlimit { maximum, .. } = getrlimit(resource);
    // Raising as far as one may is never refused.
    let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
}

/// Whether this process is who gets the orphans of its container: the first of its process ids, or one that
/// asked for them.
pub(crate) fn is_init() -> bool {
    let mut asked: c_int = 0;
    // SAFETY: the call writes an int to where there is one.
    let answer = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut asked) };
    std::process::id() == 1 || answer == 0 && asked != 0
}

/// An ended child that nobody has waited for, if there is one: waits for one until there is.
///
/// # Errors
/// `ECHILD` where there are no children.
pub(crate) fn ended_child() -> io::Result<u32> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: `info` has room for the answer, which is one of a child where the call succeeds.
    unsafe {
        if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(info.assume_init().si_pid().cast_unsigned())
    }
}
