//! Reaps orphans if this process is the init of its container: children of ended zygotes, and foreign
//! processes. Never takes a zygote's own status, which its owner needs.

use std::{
    collections::BTreeSet,
    io,
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

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

/// Kills all zygotes of this process, which ends soon without dropping its pools. They would end by themselves, but
/// only once they are ready.
pub fn kill_zygotes() {
    for pid in own().iter() {
        if let Some(zygote) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
            // It may have ended already. Its owner reaps it under the lock, so no other process has its id.
            let _ = kill_process(zygote, Signal::KILL);
        }
    }
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
