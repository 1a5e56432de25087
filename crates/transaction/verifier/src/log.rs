//! Debug output of scripts, with a limit.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ckb_script::types::DebugPrinter;

use crate::limits::DEBUG_LINES_MAX;

/// The debug output of one verification, group by group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    /// Bytes of this group's lines, plus one for the end of each.
    bytes: u64,
    /// Remaining limits for this group.
    bytes_left: u64,
    lines_left: usize,
    /// Dropped lines of this group, and their bytes: the first that did not fit, and all after it.
    lines_left_out: u64,
    bytes_left_out: u64,
}

/// The output of a group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) lines: Vec<String>,
    pub(crate) lines_left_out: u64,
    pub(crate) bytes_left_out: u64,
}

impl Log {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let lines = Lines { bytes_left: bytes_max, lines_left: DEBUG_LINES_MAX, ..Lines::default() };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Locks the log. A panic elsewhere cannot leave the lines inconsistent.
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discards the output of the current group before another attempt.
    pub(crate) fn begin(&self) {
        let mut log = self.lock();
        log.lines.clear();
        log.bytes = 0;
        (log.lines_left_out, log.bytes_left_out) = (0, 0);
    }

    /// Takes the output of the current group.
    pub(crate) fn take(&self) -> Written {
        let mut log = self.lock();
        log.bytes_left -= mem::take(&mut log.bytes);
        log.lines_left -= log.lines.len();
        Written {
            lines: mem::take(&mut log.lines),
            lines_left_out: mem::take(&mut log.lines_left_out),
            bytes_left_out: mem::take(&mut log.bytes_left_out),
        }
    }

    /// The callback of ckb-script's debug syscall. Drops and counts the first line that does not fit, and all
    /// after it.
    pub(crate) fn printer(&self) -> DebugPrinter {
        let log = self.clone();
        Arc::new(move |_group, line| {
            let mut log = log.lock();
            let bytes = line.len() as u64 + 1;
            let has_room = log.lines.len() < log.lines_left && log.bytes + bytes <= log.bytes_left;
            if has_room && log.lines_left_out == 0 {
                log.bytes += bytes;
                log.lines.push(line.to_owned());
            } else {
                log.lines_left_out += 1;
                log.bytes_left_out += bytes;
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
        let log = Log::new(6);
        let print = log.printer();
        let say = |line: &str| print(&Byte32::zero(), line);
        log.begin();
        say("abc");
        log.begin();
        say("ab");
        let written = |line: &str| Written { lines: vec![line.to_owned()], ..Written::default() };
        assert_eq!(log.take(), written("ab"));
        log.begin();
        say("a");
        say("bc");
        say("");
        assert_eq!(log.take(), Written { lines_left_out: 2, bytes_left_out: 4, ..written("a") });
    }
}
