//! Debug output lines in transfer form: one string, with the same size in memory as in the frame. A
//! compromised worker controls the content and number of lines, so they are validated before they become
//! separate strings.

use serde::{Deserialize, Serialize};

/// Maximum lines of one report, or of one verification; further lines are dropped.
pub const DEBUG_LINES_MAX: usize = 65_536;

/// Terminator of each line. No line contains it, because a guest's line ends there.
const END: char = '\0';

/// Lines of debug output, in order, and the number of dropped lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    text: String,
    left_out: Omitted,
}

/// Dropped lines: the first beyond the limit, and all after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// How many.
    pub lines: u64,
    /// Their bytes, plus one for the end of each.
    pub bytes: u64,
}

impl Lines {
    /// The same lines, with the given dropped lines after them.
    #[must_use]
    pub fn and_omitted(self, left_out: Omitted) -> Self {
        Self { left_out, ..self }
    }

    /// The dropped lines.
    #[must_use]
    pub fn omitted(&self) -> Omitted {
        self.left_out
    }

    /// Drops all lines after the first `lines`.
    pub fn cut(&mut self, lines: usize) {
        let kept = self.iter().take(lines).map(|line| line.len() + END.len_utf8()).sum();
        let rest = self.text.split_off(kept);
        self.left_out.lines = self.left_out.lines.saturating_add(rest.matches(END).count() as u64);
        self.left_out.bytes = self.left_out.bytes.saturating_add(rest.len() as u64);
    }

    /// The lines.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.text.split_terminator(END)
    }

    /// Bytes of the lines, plus one for the end of each, as limits count them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// Number of lines.
    #[must_use]
    pub fn count(&self) -> usize {
        self.text.bytes().filter(|byte| *byte == 0).count()
    }

    /// Whether the last line has its terminator. Only a report from another process may lack it.
    #[must_use]
    pub fn are_whole(&self) -> bool {
        self.text.is_empty() || self.text.ends_with(END)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// Debug output in the making, within a limit that all script groups of a verification share.
#[derive(Debug, Default)]
pub struct DebugLog {
    lines: Lines,
    count: usize,
    /// Remaining limits for this group.
    bytes_left: u64,
    lines_left: usize,
}

impl DebugLog {
    /// An empty log of at most `bytes_max`, with one byte for the end of each line.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_left: bytes_max, lines_left: DEBUG_LINES_MAX, ..Self::default() }
    }

    /// Adds a line without a NUL. Drops and counts the first one that does not fit, and all after it.
    pub fn push(&mut self, line: &str) {
        let Lines { text, left_out } = &mut self.lines;
        let bytes = (text.len() + line.len() + END.len_utf8()) as u64;
        if left_out.lines == 0 && self.count < self.lines_left && bytes <= self.bytes_left {
            self.count += 1;
            text.push_str(line);
            text.push(END);
        } else {
            left_out.lines += 1;
            left_out.bytes += (line.len() + END.len_utf8()) as u64;
        }
    }

    /// Discards the output of the current group before another attempt.
    pub fn clear(&mut self) {
        (self.lines, self.count) = (Lines::default(), 0);
    }

    /// Takes the output of the current group.
    pub fn take(&mut self) -> Lines {
        self.bytes_left -= self.lines.bytes();
        self.lines_left -= std::mem::take(&mut self.count);
        std::mem::take(&mut self.lines)
    }
}

impl From<Vec<String>> for Lines {
    fn from(lines: Vec<String>) -> Self {
        let bytes = lines.iter().map(|line| line.len() + END.len_utf8()).sum();
        let mut text = String::with_capacity(bytes);
        lines.iter().for_each(|line| text.extend([line, "\0"]));
        Self { text, left_out: Omitted::default() }
    }
}

impl From<Lines> for Vec<String> {
    fn from(lines: Lines) -> Self {
        lines.iter().map(ToOwned::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_travel_as_they_are() {
        for lines in [vec![], vec![""], vec!["", ""], vec!["a\nb", "", "ü"]] {
            let lines: Vec<String> = lines.into_iter().map(ToOwned::to_owned).collect();
            let packed = Lines::from(lines.clone());
            assert_eq!(packed.count(), lines.len());
            assert_eq!(packed.bytes(), lines.iter().map(|line| line.len() as u64 + 1).sum::<u64>());
            assert_eq!(Vec::from(packed), lines);
        }
    }

    #[test]
    fn lines_are_cut_and_counted() {
        let lines = ["a", "bcd", ""].map(ToOwned::to_owned).to_vec();
        let mut packed = Lines::from(lines).and_omitted(Omitted { lines: 1, bytes: 2 });
        packed.cut(3);
        assert_eq!((packed.count(), packed.omitted().lines), (3, 1));
        packed.cut(1);
        assert!(packed.iter().eq(["a"]));
        assert_eq!(packed.omitted(), Omitted { lines: 3, bytes: 7 });
    }

    #[test]
    fn lines_are_limited_over_all_groups() {
        let mut log = DebugLog::new(6);
        let written = |line: &str| Lines::from(vec![line.to_owned()]);
        log.push("abc");
        log.clear();
        log.push("ab");
        assert_eq!(log.take(), written("ab"));
        ["a", "bc", ""].iter().for_each(|line| log.push(line));
        assert_eq!(log.take(), written("a").and_omitted(Omitted { lines: 2, bytes: 4 }));
    }
}
