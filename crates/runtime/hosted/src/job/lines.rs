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

impl From<Vec<String>> for Lines {
    fn from(lines: Vec<String>) -> Self {
        let bytes = lines.iter().map(|line| line.len() + END.len_utf8()).sum();
        let mut text = String::with_capacity(bytes);
        for line in lines {
            text.push_str(&line);
            text.push(END);
        }
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
}
