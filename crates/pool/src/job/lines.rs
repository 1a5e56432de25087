//! Lines of debug output in the form in which they travel: as many bytes in memory as in the frame, whatever they are. A worker
//! that has been taken over decides both, and what is to become many strings is looked at first.

use serde::{Deserialize, Serialize};

/// Lines of one report, or of one verification, at most; the machines stop there too.
pub const DEBUG_LINES_MAX: usize = 65_536;

/// Behind each line. None has it inside: guests' lines end there.
const END: char = '\0';

/// Lines of debug output, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines(String);

impl Lines {
    /// The lines.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator(END)
    }

    /// Bytes of the lines, with one more for the end of each, as limits count them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.bytes().filter(|byte| *byte == 0).count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
        Self(text)
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
}
