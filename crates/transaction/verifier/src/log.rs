//! Debug output of scripts, with a limit.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_hosted::job::{DEBUG_LINES_MAX, Lines, Omitted};
use ckb_script::types::DebugPrinter;

/// The debug output of one verification, group by group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Buffer>>);

#[derive(Debug, Default)]
struct Buffer {
    lines: Vec<String>,
    /// Bytes of this group's lines, plus one for the end of each.
    bytes: u64,
    /// Remaining limits for this group.
    bytes_left: u64,
    lines_left: usize,
    /// Dropped lines of this group, and their bytes: the first that did not fit, and all after it.
    left_out: Omitted,
}

impl Log {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let lines = Buffer { bytes_left: bytes_max, lines_left: DEBUG_LINES_MAX, ..Buffer::default() };
        Self(Arc::new(Mutex::new(lines)))
    }

    /// Locks the log. A panic elsewhere cannot leave the lines inconsistent.
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discards the output of the current group before another attempt.
    pub(crate) fn begin(&self) {
        let mut log = self.lock();
        log.lines.clear();
        log.bytes = 0;
        log.left_out = Omitted::default();
    }

    /// Takes the output of the current group.
    pub(crate) fn take(&self) -> Lines {
        let mut log = self.lock();
        log.bytes_left -= mem::take(&mut log.bytes);
        log.lines_left -= log.lines.len();
        Lines::from(mem::take(&mut log.lines)).and_omitted(mem::take(&mut log.left_out))
    }

    /// The callback of ckb-script's debug syscall. Drops and counts the first line that does not fit, and all
    /// after it.
    pub(crate) fn printer(&self) -> DebugPrinter {
        let log = self.clone();
        Arc::new(move |_group, line| {
            let mut log = log.lock();
            let bytes = line.len() as u64 + 1;
            let has_room = log.lines.len() < log.lines_left && log.bytes + bytes <= log.bytes_left;
            if has_room && log.left_out.lines == 0 {
                log.bytes += bytes;
                log.lines.push(line.to_owned());
            } else {
                log.left_out.lines += 1;
                log.left_out.bytes += bytes;
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
        let written = |line: &str| Lines::from(vec![line.to_owned()]);
        assert_eq!(log.take(), written("ab"));
        log.begin();
        say("a");
        say("bc");
        say("");
        assert_eq!(log.take(), written("a").and_omitted(Omitted { lines: 2, bytes: 4 }));
    }
}
