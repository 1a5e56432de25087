//! Reaps whom nobody waits for, where this process is the init of its container: children of zygotes that are
//! gone, and orphans of strangers. A zygote's own status is its owner's to hear, and is never taken.

use std::{
    collections::BTreeSet,
    io,
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::process_state::{ended_child, is_init};

/// Pause where there is no child, or one that its owner is about to wait for.
const PAUSE: Duration = Duration::from_millis(50);

/// The children that somebody waits for, by process id. Whoever makes one holds it from before that until it
/// is in.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

static STARTED: Once = Once::new();

pub(crate) fn own() -> MutexGuard<'static, BTreeSet<u32>> {
    // Nothing panics while it is held.
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to reap, if that falls to this process. The first call counts.
///
/// # Errors
/// The system refuses a thread.
pub(crate) fn begin() -> io::Result<()> {
    let mut result = Ok(());
    STARTED.call_once(|| {
        if is_init() {
            result = thread::Builder::new().name("reaper".to_owned()).spawn(reap).map(drop);
        }
    });
    result
}

fn reap() {
    loop {
        match ended_child() {
            Ok(pid) if reap_stranger(pid) => {}
            _ => thread::sleep(PAUSE),
        }
    }
}

/// Reaps the ended child `pid` unless it is one of ours.
fn reap_stranger(pid: u32) -> bool {
    let own = own();
    let stranger = i32::try_from(pid).ok().filter(|_| !own.contains(&pid)).and_then(Pid::from_raw);
    // It has ended, so this does not wait.
    stranger.is_some_and(|pid| waitpid(Some(pid), WaitOptions::NOHANG).is_ok())
}
