//! Describes why a text is not a mock transaction, in its author's terms, with the next step.

use std::borrow::Cow;

/// Maximum reported characters of a value.
const QUOTED_CHARS_MAX: usize = 40;

/// Prefixes of parser messages with their replacements; `…` stands for the rest.
const WORDS: [(&str, &str); 18] = [
    ("missing field `", "the key `…"),
    ("invalid type: null", "null stands where a value is needed"),
    ("invalid type: integer `", "a number stands where NEEDED is needed: `…"),
    ("invalid type: floating point `", "a number stands where NEEDED is needed: `…"),
    ("invalid value: integer `", "a number stands where NEEDED is needed: `…"),
    ("invalid type: boolean `", "true or false stands where NEEDED is needed: `…"),
    ("invalid type: string ", "text stands where NEEDED is needed: …"),
    ("invalid type: sequence", "a list stands where NEEDED is needed"),
    ("invalid type: map", "an object stands where NEEDED is needed"),
    ("invalid length 0, expected struct", "an empty list stands where an object is needed"),
    ("invalid value: string ", "the digits do not begin with 0x: …"),
    ("Invalid character", "a character is no hexadecimal digit"),
    ("unknown variant `", "no such value: `…"),
    ("EOF while parsing", "the text ends too early: a bracket or a quotation mark is not closed"),
    ("expected value", "this is no JSON"),
    ("key must be a string", "a key in quotation marks is needed here"),
    ("trailing comma", "a comma stands before the closing bracket: remove it"),
    ("trailing characters", "something stands behind the end of the transaction"),
];

/// Prefixes of what parsers expect, with their replacements.
const NEEDED: [(&str, &str); 5] = [
    ("u", "a whole number that is not negative"),
    ("struct ", "an object"),
    ("a map", "an object"),
    ("a sequence", "a list"),
    ("", "text"),
];

/// Rewords a parser's message.
#[must_use]
pub fn worded(detail: &str) -> String {
    // Parsers name the expected value by its Rust type.
    let (said, expected) = detail.split_once(", expected ").unwrap_or((detail, ""));
    let length = said.strip_prefix("invalid length ").and_then(|length| length.parse::<usize>().ok());
    if let Some(length) = length.filter(|_| expected == "even length") {
        return format!("an odd number of hexadecimal digits: {}", length.saturating_sub(2));
    }
    if let Some((length, digits)) =
        length.zip(expected.split_once(" with ").and_then(|(_, it)| it.strip_suffix(" digits")))
    {
        return format!("{length} hexadecimal digits, but {digits} are needed");
    }
    if let Some(key) = said.strip_prefix("unknown field `").and_then(|key| key.strip_suffix('`')) {
        let known =
            expected.split('`').filter(|word| word.chars().any(char::is_alphanumeric) && *word != "one of ");
        let letters = |text: &str| text.replace('_', "").to_lowercase();
        let near = known.clone().find(|name| letters(name) == letters(key));
        let near = near.or_else(|| known.clone().find(|name| name.starts_with(key) || key.starts_with(name)));
        return match near {
            Some(near) => format!("no such key: `{key}`; it is `{near}`"),
            None => format!("no such key: `{key}`; there are {}", known.collect::<Vec<_>>().join(", ")),
        };
    }
    if let Some((_, rest)) = detail.strip_prefix("Invalid Uint").and_then(|rest| rest.split_once(' ')) {
        return rest.replace(" to fit in target type", "").replace(" in string", "");
    }
    let reported = WORDS.iter().find_map(|(start, reported)| {
        Some((reported, detail.strip_prefix(start).map(|_| said.strip_prefix(start).unwrap_or_default())?))
    });
    match reported {
        Some((reported, rest)) => {
            let missing = if detail.starts_with("missing field") { " is missing" } else { "" };
            let needed = NEEDED.iter().find(|(start, _)| expected.starts_with(start));
            let reported = reported.replace("NEEDED", needed.map_or("", |(_, needed)| needed));
            reported.replace('…', &shortened(rest, QUOTED_CHARS_MAX)) + missing
        }
        None => shortened(detail, 5 * QUOTED_CHARS_MAX).into_owned(),
    }
}

fn shortened(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Advice for the value at `path`, for which the parser reports `detail`.
pub(crate) fn of_shape(text: &[u8], path: &str, detail: &str) -> Option<&'static str> {
    let is_header = path.strip_prefix("mock_info.header_deps[").is_some_and(|rest| rest.ends_with(']'));
    if is_header && detail.starts_with("invalid type: string") {
        return Some(
            "this is the hash of a header, as offckb writes it, and the whole header is needed: take the \
             transaction anew with `antares dump --tx-hash HASH --rpc URL`, or put the answer to get_header here",
        );
    }
    let has = |key: &[u8]| text.windows(key.len()).any(|part| part == key);
    if has(b"\"mockInfo\"") || has(b"\"cellDeps\"") || has(b"\"txHash\"") {
        return Some(
            "keys are written as nodes have them, mock_info, cell_deps and tx_hash, not as CCC and Lumos have \
             them in memory",
        );
    }
    let is = |start: &str| detail.starts_with(start);
    if has(b"{{") && (is("an odd number") || is("invalid length") || is("Invalid character")) {
        return Some("only `antares` fills in placeholders, in a file, with }} in the same line");
    }
    if is("invalid type: integer") || is("Invalid Uint") || is("Invalid number") {
        return Some("numbers are texts of hexadecimal digits here, such as \"0x1f\"");
    }
    if is("invalid value: string") {
        return Some("write 0x in front of it; a placeholder too stands behind one: \"0x{{ data FILE }}\"");
    }
    if path.ends_with("hash_type") {
        return Some("hash types are data, type, data1 and data2");
    }
    if path.ends_with("dep_type") {
        return Some("dep types are code and dep_group");
    }
    if path.is_empty() || is("invalid type") || is("invalid length 0") {
        return Some(
            "a mock transaction is {\"mock_info\": {...}, \"tx\": {...}}: docs/cli.md has an example",
        );
    }
    None
}

/// Beginnings of what is not JSON, with advice.
const BEGINNINGS: [(&[u8], &str); 10] = [
    (b"---", YAML),
    (b"mock_info:", YAML),
    (b"tx:", YAML),
    (b"[[", TOML),
    (b"[keys]", TOML),
    (b"expect", TOML),
    (b"\xff\xfe", "it is UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "it is UTF-16: save it as UTF-8"),
    (b"\xef\xbb\xbf", "it begins with a byte order mark: save it as UTF-8 without one"),
    (b"\x7fELF", "this is a script: name it in the data of a cell dep, or use antares run"),
];
const YAML: &str = "this is YAML, and JSON is needed: ckb-cli writes it with --output-format json";
const TOML: &str = "it is TOML: name the file *.toml";

/// Advice for a text that is not JSON from `line` on.
pub(crate) fn of_syntax(text: &[u8], line: usize) -> Option<&'static str> {
    let start = text.trim_ascii_start();
    if start.is_empty() {
        return Some("it is empty");
    }
    let known = BEGINNINGS.iter().find(|(beginning, _)| start.starts_with(beginning)).map(|known| known.1);
    let line = text.split(|byte| *byte == b'\n').nth(line.saturating_sub(1)).unwrap_or_default();
    let has = |comment: &[u8]| memchr::memmem::find(line, comment).is_some();
    known.or_else(|| (has(b"// ") || has(b"/*")).then_some("JSON has no comments: remove it"))
}
