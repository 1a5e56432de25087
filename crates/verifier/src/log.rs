//! Debug output of scripts, within a limit.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ckb_script::types::DebugPrinter;

use crate::{StopHandle, limits::DEBUG_LINES_MAX};

/// The debug output of one verification, group by group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    /// Bytes of this group's lines, with one more for the end of each.
    bytes: u64,
    /// What is left of the limits for this group.
    bytes_left: u64,
    lines_left: usize,
    /// Whether a line did not fit.
    overflowed: bool,
}

impl Log {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let lines = Lines { bytes_left: bytes_max, lines_left: DEBUG_LINES_MAX, ..Lines::default() };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// A panic elsewhere leaves the lines whole.
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what the current group wrote, before it is tried again.
    pub(crate) fn begin(&self) {
        let mut log = self.lock();
        log.lines.clear();
        log.bytes = 0;
        log.overflowed = false;
    }

    /// Takes the lines of the current group, and whether there would have been more than allowed.
    pub(crate) fn take(&self) -> (Vec<String>, bool) {
        let mut log = self.lock();
        log.bytes_left -= mem::take(&mut log.bytes);
        log.lines_left -= log.lines.len();
        (mem::take(&mut log.lines), mem::take(&mut log.overflowed))
    }

    /// What ckb-script's debug syscall calls with each line. A line that does not fit stops the machines.
    pub(crate) fn printer(&self, cancel: &StopHandle) -> DebugPrinter {
        let (log, cancel) = (self.clone(), cancel.clone());
        Arc::new(move |_group, line| {
            let mut log = log.lock();
            let bytes = line.len() as u64 + 1;
            let has_room = log.lines.len() < log.lines_left && log.bytes + bytes <= log.bytes_left;
            if has_room && !log.overflowed {
                log.bytes += bytes;
                log.lines.push(line.to_owned());
            } else {
                log.overflowed = true;
                cancel.stop_machines();
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use ckb_types::packed::Byte32;

    use super::*;

    #[test]
    fn lines_are_limited_over_all_groups() {
        let (log, cancel) = (Log::new(6), StopHandle::new());
        let print = log.printer(&cancel);
        let say = |line: &str| print(&Byte32::zero(), line);
        log.begin();
        say("abc");
        log.begin();
        say("ab");
        assert_eq!(log.take(), (vec!["ab".to_owned()], false));
        log.begin();
        say("a");
        say("b");
        assert!(cancel.pause().has_interrupted());
        say("");
        assert_eq!(log.take(), (vec!["a".to_owned()], true));
    }
}
