//! Makes a worker's text safe for logs.

/// Maximum bytes of each text in a report: workers truncate theirs.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Maximum bytes of a printed text.
const BYTES_MAX: usize = 600;

/// `text` on one line, truncated. Escapes unprintable characters, so that the text can neither end a log line
/// nor change how one is displayed.
pub(crate) fn printable(text: &str) -> String {
    let mut line = String::new();
    for char in text.chars() {
        let is_plain = char == '\'' || char == '"' || char == '\\';
        let escaped = char.escape_debug();
        let bytes = if is_plain { char.len_utf8() } else { escaped.len() };
        if line.len() + bytes > BYTES_MAX {
            line.push_str("...");
            break;
        }
        match is_plain {
            true => line.push(char),
            false => line.extend(escaped),
        }
    }
    line
}

/// The first [`TEXT_BYTES_MAX`] bytes of `text`, cut between characters: the maximum in a report.
#[must_use]
pub fn cut_text(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_ends_a_line_or_turns_it_around() {
        let text = "a \"b\" 'c' \\d\r\n2026 ERROR forged\x1b[31m\u{202e}\u{2066}\u{200f}\0 \u{fc}";
        let line = printable(text);
        assert!(line.starts_with("a \"b\" 'c' \\d\\r\\n2026"), "{line}");
        assert!(line.ends_with("\u{fc}"), "{line}");
        let is_harmful = |char: char| char.is_control() || "\u{202e}\u{2066}\u{200f}".contains(char);
        assert!(!line.contains(is_harmful), "{line}");
    }

    #[test]
    fn long_texts_are_cut() {
        for text in ["y".repeat(1_500_000), "\u{202e}".repeat(1000), "\u{fc}".repeat(1000)] {
            assert!(printable(&text).len() <= BYTES_MAX + 3);
        }
    }
}
