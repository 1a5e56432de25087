//! Reaps orphans if this process is the init of its container: children of ended zygotes, and foreign
//! processes. Never takes a zygote's own status, which its owner needs.

use std::{
    collections::BTreeSet,
    io,
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::process_state::{ended_child, is_init};

/// Pause if there is no child, or only one that its owner will reap.
const PAUSE: Duration = Duration::from_millis(50);

/// Process ids of children with an owner that reaps them. Hold the lock from before a child's creation until
/// its id is inserted.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

static STARTED: Once = Once::new();

pub(crate) fn own() -> MutexGuard<'static, BTreeSet<u32>> {
    // No code panics under the lock.
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the reaper, if this process adopts orphans. Only the first call has an effect.
///
/// # Errors
/// The system cannot create a thread.
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

/// Reaps the ended child `pid` unless it has an owner.
fn reap_stranger(pid: u32) -> bool {
    let own = own();
    let stranger = i32::try_from(pid).ok().filter(|_| !own.contains(&pid)).and_then(Pid::from_raw);
    // The child has ended, so this does not wait.
    stranger.is_some_and(|pid| waitpid(Some(pid), WaitOptions::NOHANG).is_ok())
}
