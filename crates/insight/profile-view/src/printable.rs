//! Makes untrusted text safe for a terminal.

use std::fmt::Write as _;

/// Whether a terminal interprets `letter` as a command, or reverses the direction of text after it.
pub(crate) fn is_command(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with terminal commands escaped: scripts and servers choose symbol names, messages and debug lines.
/// JSON remains valid.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut plain, character| {
        match character {
            '\r' => plain.push_str("\\r"),
            // Writing to a string does not fail; all of these have at most four digits.
            _ if is_command(character) && !matches!(character, '\n' | '\t') => {
                _ = write!(plain, "\\u{:04x}", u32::from(character));
            }
            _ => plain.push(character),
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_a_terminal_is_shown_not_obeyed() {
        assert_eq!(printable("a\tb\nc\u{fc}"), "a\tb\nc\u{fc}");
        assert_eq!(printable("\u{1b}[2Jx\r"), "\\u001b[2Jx\\r");
        let name = ["\u{9b}\u{202e}\u{2066}\u{fc}\r\n"];
        let json = printable(&serde_json::json!(name).to_string());
        assert_eq!(json, "[\"\\u009b\\u202e\\u2066\u{fc}\\r\\n\"]");
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), name);
    }
}
