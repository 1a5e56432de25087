//! Pieces of the status page: texts of strangers made harmless, numbers as people say them.

use std::fmt::{self, Write as _};

/// The page's head. It loads nothing, and fits a phone: tables scroll by themselves, long words break.
pub(crate) const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Antares</title>\n<style>\
    :root { color-scheme: light dark; font: 14px/1.4 system-ui, sans-serif }\
    body { margin: 0 auto; padding: 0 12px 2em; max-width: 60em }\
    h1 { font-size: 1.4em; margin: .6em 0 } h2 { font-size: 1.1em; margin: 1.4em 0 .3em } h3 { font-size: 1em; margin: 1em 0 0 }\
    div { overflow-x: auto } table { border-collapse: collapse; max-width: 100% }\
    th { text-align: left; font-weight: 600; white-space: nowrap } td:nth-child(n+3) { white-space: nowrap } td, th { padding: 2px 1em 2px 0; vertical-align: top; overflow-wrap: anywhere }\
    td:last-child { font-variant-numeric: tabular-nums } ul { padding-left: 1.2em } li { overflow-wrap: anywhere }\
    small { opacity: .75 } meter { width: 7em; max-width: 30vw } .bad, .well { padding: 2px 6px; border-radius: 3px; color: #fff }\
    .bad { background: #b3261e } .well { background: #1b6e3c }\
    </style></head><body>\n";

/// What strangers wrote, as text of a page: signs of HTML are no signs, and nothing turns the line around.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in self.0.chars() {
            match one {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    f.write_str("\u{fffd}")?;
                }
                other if other.is_control() => f.write_char(' ')?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A row of texts of strangers.
pub(crate) fn row(page: &mut String, cells: &[&str]) {
    page.push_str("<tr>");
    for cell in cells {
        let _ = write!(page, "<td>{}", Escaped(cell));
    }
    page.push('\n');
}

/// A table under a heading; none where there are no rows.
pub(crate) fn table(page: &mut String, title: &str, names: &[&str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h2>{}</h2>\n<div><table>", Escaped(title));
    if !names.is_empty() {
        page.push_str("<tr>");
        names.iter().for_each(|name| {
            let _ = write!(page, "<th>{}", Escaped(name));
        });
        page.push('\n');
    }
    for cells in rows {
        row(page, &cells.iter().map(String::as_str).collect::<Vec<_>>());
    }
    page.push_str("</table></div>\n");
}

/// Seconds, as two units.
pub(crate) fn time(seconds: f64) -> String {
    let whole = whole(seconds);
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{whole} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A count, in groups of three digits.
pub(crate) fn count(value: f64) -> String {
    let digits = whole(value).to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes, in the largest unit that leaves a whole part.
pub(crate) fn bytes(value: f64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value.max(0.0);
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} bytes") } else { format!("{value:.1} {}", units[unit]) }
}

/// A part of a whole, as a bar and in words.
pub(crate) fn bar(page: &mut String, name: &str, values: [f64; 2], words: fn(f64) -> String) {
    let [part, most] = values;
    let _ = write!(page, "<tr><td>{}<td>", Escaped(name));
    if most > 0.0 {
        let share = (part / most).clamp(0.0, 1.0);
        let _ = write!(page, "<meter min=\"0\" max=\"1\" high=\"0.9\" value=\"{share:.3}\"></meter> ");
        let _ = writeln!(page, "{} of {}", words(part), words(most));
    } else {
        let _ = writeln!(page, "{}", words(part));
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, which is as good")]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_write_text_and_nothing_else() {
        let text = Escaped("<script>alert('1')</script> & \"x\"\n\u{202e}evil\u{7}").to_string();
        assert_eq!(text, "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;x&quot; \u{fffd}evil ");
        let mut page = String::new();
        table(&mut page, "<t>", &["<n>"], &[vec!["<a>".to_owned(), "</table>".to_owned()]]);
        assert!(page.contains("<h2>&lt;t&gt;</h2>") && page.contains("<th>&lt;n&gt;"), "{page}");
        assert!(page.contains("<tr><td>&lt;a&gt;<td>&lt;/table&gt;"), "{page}");
        assert_eq!(page.matches("</table>").count(), 1);
    }

    #[test]
    fn numbers_are_as_people_say_them() {
        let times = [0.0, 59.9, 61.0, 3_720.0, 90_000.0, -5.0].map(time);
        assert_eq!(times, ["0 s", "59 s", "1 min", "1 h 2 min", "1 d 1 h", "0 s"]);
        assert_eq!([0.0, 999.0, 1_000.0, 1_234_567.0].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 1023.0, 1536.0, 3e9].map(bytes), ["0 bytes", "1023 bytes", "1.5 KiB", "2.8 GiB"]);
        let mut page = String::new();
        bar(&mut page, "a", [3.0, 4.0], count);
        bar(&mut page, "b", [9.0, 4.0], count);
        bar(&mut page, "c", [9.0, 0.0], count);
        assert!(page.contains("value=\"0.750\"></meter> 3 of 4"), "{page}");
        assert!(page.contains("value=\"1.000\"></meter> 9 of 4") && page.ends_with("<td>9\n"), "{page}");
    }
}
