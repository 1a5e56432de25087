//! Text of others, for a terminal.

/// `text` without what could command a terminal: scripts and servers choose symbol names, messages and debug
/// lines.
#[must_use]
pub fn printable(text: &str) -> String {
    let is_plain = |character: char| !character.is_control() || matches!(character, '\n' | '\t');
    text.chars().fold(String::with_capacity(text.len()), |mut plain, character| {
        if is_plain(character) {
            plain.push(character);
        } else {
            plain.extend(character.escape_default());
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(printable("a\tb\nc"), "a\tb\nc");
        assert_eq!(printable("\u{1b}[2Jx\r"), "\\u{1b}[2Jx\\r");
    }
}
