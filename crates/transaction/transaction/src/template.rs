//! ckb-debugger's placeholders: the text of a transaction references files instead of containing them.
//!
//! | placeholder | becomes |
//! |---|---|
//! | `{{ data FILE }}` | the file's bytes in hexadecimal digits |
//! | `{{ hash FILE }}` | ckb's hash of the file, in hexadecimal digits |
//! | `{{ def_type NAME }}`, quoted or not | a type id script as JSON, whose args are the bytes of the name |
//! | `{{ ref_type NAME }}` | the hash of that script, in hexadecimal digits; may precede the definition |
//!
//! The space after the opening braces and the one before the closing braces are optional. Digits have no
//! `0x`, which belongs to the text: `"0x{{ data script }}"`. File paths are relative to the text's folder and
//! may lead anywhere. Expand only the user's own files, never text from a network.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use ckb_types::{
    bytes::Bytes,
    core::ScriptHashType,
    h256,
    packed::{Byte32, Script},
    prelude::*,
};

use crate::limits::{EMBEDDED_FILE_BYTES_MAX, PLACEHOLDERS_MAX, TRANSACTION_BYTES_MAX};

/// A placeholder that cannot be expanded.
#[derive(Debug, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct TemplateError {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// The reason.
    #[source]
    pub problem: TemplateProblem,
}

/// Why a placeholder cannot be expanded.
#[derive(Debug, thiserror::Error)]
pub enum TemplateProblem {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is too long.
    #[error("{} is longer than {EMBEDDED_FILE_BYTES_MAX} bytes", .0.display())]
    FileTooLarge(PathBuf),
    /// A name with two definitions.
    #[error("the type {0:?} is defined already")]
    DefinedTwice(String),
    /// A name without a definition.
    #[error("the type {0:?} is not defined; define it with {{{{ def_type {0} }}}}")]
    Undefined(String),
    /// A word that is none of a placeholder.
    #[error("there is no placeholder {0:?}: there are data, hash, def_type and ref_type; *.toml has others")]
    Unknown(String),
    /// A byte that is not text.
    #[error("this is no UTF-8: save the file as UTF-8")]
    NoText,
    /// Too many placeholders.
    #[error("more than {PLACEHOLDERS_MAX} placeholders")]
    TooMany,
    /// The expanded transaction is too long.
    #[error("up to here the transaction has more than {TRANSACTION_BYTES_MAX} bytes")]
    TooLarge,
}

/// The kind of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Data,
    Hash,
    Define,
    Refer,
}

/// A placeholder and its byte range in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placeholder<'a> {
    verb: Verb,
    argument: &'a str,
    start: usize,
    end: usize,
}

/// Expands the placeholders in the content of a file from `folder`. Returns content unchanged if it has none,
/// is no object, or has no folder.
///
/// # Errors
/// The first placeholder that cannot be expanded.
pub fn expand_file(bytes: Vec<u8>, folder: Option<&Path>) -> Result<Vec<u8>, TemplateError> {
    let has_placeholders = memchr::memmem::find(&bytes, b"{{").is_some();
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    let Some(folder) = folder.filter(|_| has_placeholders && is_json) else { return Ok(bytes) };
    let text = str::from_utf8(&bytes).map_err(|error| {
        let before = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        error_at(before, before.len(), TemplateProblem::NoText)
    })?;
    expand(text, folder).map(String::into_bytes)
}

/// Expands all placeholders of `text`; files are relative to `folder`. Text without placeholders is
/// unchanged.
///
/// # Errors
/// The first placeholder that cannot be expanded.
pub fn expand(text: &str, folder: &Path) -> Result<String, TemplateError> {
    let placeholders = find(text)?;
    let mut types = HashMap::new();
    for placeholder in placeholders.iter().filter(|found| found.verb == Verb::Define) {
        let name = placeholder.argument;
        if types.insert(name, type_id(name.as_bytes()).calc_script_hash()).is_some() {
            let problem = TemplateProblem::DefinedTwice(name.to_owned());
            return Err(error_at(text, placeholder.start, problem));
        }
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = 0;
    for placeholder in &placeholders {
        expanded.push_str(&text[rest..placeholder.start]);
        let filled = fill(placeholder, folder, &types, &mut expanded);
        filled.map_err(|problem| error_at(text, placeholder.start, problem))?;
        rest = placeholder.end;
        if expanded.len() > TRANSACTION_BYTES_MAX {
            return Err(error_at(text, placeholder.start, TemplateProblem::TooLarge));
        }
    }
    expanded.push_str(&text[rest..]);
    Ok(expanded)
}

/// The column in `line` of a column in its expansion; within an expansion, the placeholder's.
#[must_use]
pub fn source_column(line: &str, folder: &Path, column: usize) -> usize {
    // Where the last placeholder ends in the line, and in its expansion.
    let (mut source, mut expanded) = (0, 0);
    for placeholder in find(line).unwrap_or_default() {
        let start = expanded + placeholder.start - source;
        let mut digits = String::new();
        let is_known = fill(&placeholder, folder, &HashMap::new(), &mut digits).is_ok();
        // The definition of a type may be in another line.
        let end = start + if is_known { digits.len() } else { 64 };
        if column <= end {
            return (source + column - expanded).min(placeholder.start + 1);
        }
        (source, expanded) = (placeholder.end, end);
    }
    source + column - expanded
}

/// The placeholders of `text`, in order. Malformed placeholders are text.
fn find(text: &str) -> Result<Vec<Placeholder<'_>>, TemplateError> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(offset) = text[from..].find("{{") {
        let start = from + offset;
        from = start + 2;
        if let Some(placeholder) = read(text, start) {
            if found.len() == PLACEHOLDERS_MAX {
                return Err(error_at(text, start, TemplateProblem::TooMany));
            }
            from = placeholder.end;
            found.push(placeholder);
        } else if let Some(word) = misspelt(&text[from..]) {
            return Err(error_at(text, start, TemplateProblem::Unknown(word.to_owned())));
        }
    }
    Ok(found)
}

/// The first word of text in the form of a placeholder.
fn misspelt(inside: &str) -> Option<&str> {
    let line = inside.lines().next()?;
    let (word, argument) = line[..line.find("}}")?].trim().split_once(' ')?;
    let is_word =
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    (is_word && !argument.trim().is_empty()).then_some(word)
}

/// The placeholder that starts with the braces at `start`.
fn read(text: &str, start: usize) -> Option<Placeholder<'_>> {
    let inside = &text[start + 2..];
    let inside = inside.strip_prefix(' ').unwrap_or(inside);
    let verbs = [
        ("data ", Verb::Data),
        ("hash ", Verb::Hash),
        ("def_type ", Verb::Define),
        ("ref_type ", Verb::Refer),
    ];
    let (inside, verb) =
        verbs.into_iter().find_map(|(word, verb)| Some((inside.strip_prefix(word)?, verb)))?;
    let line = inside.lines().next()?;
    // An argument has at least one character, and ends at the first closing braces after it.
    let first = line.chars().next()?.len_utf8();
    let length = first + line[first..].find("}}")?;
    let argument = &line[..length];
    let argument = match argument.strip_suffix(' ') {
        Some(shorter) if !shorter.is_empty() => shorter,
        _ => argument,
    };
    let argument_start = text.len() - inside.len();
    let (mut start, mut end) = (start, argument_start + length + 2);
    // A definition becomes an object, so surrounding quotation marks are removed.
    if verb == Verb::Define {
        start -= usize::from(text[..start].ends_with('"'));
        end += usize::from(text[end..].starts_with('"'));
    }
    Some(Placeholder { verb, argument, start, end })
}

fn fill(
    placeholder: &Placeholder<'_>,
    folder: &Path,
    types: &HashMap<&str, Byte32>,
    expanded: &mut String,
) -> Result<(), TemplateProblem> {
    let argument = placeholder.argument;
    match placeholder.verb {
        Verb::Data => *expanded += &hex::encode(read_file(&folder.join(argument))?),
        Verb::Hash => {
            *expanded += &hex::encode(ckb_hash::blake2b_256(read_file(&folder.join(argument))?));
        }
        Verb::Define => {
            let script = ckb_jsonrpc_types::Script::from(type_id(argument.as_bytes()));
            // Cannot fail: it contains no maps and no foreign types.
            expanded.push_str(&serde_json::to_string(&script).unwrap_or_default());
        }
        Verb::Refer => match types.get(argument) {
            Some(hash) => *expanded += &hex::encode(hash.as_slice()),
            None => return Err(TemplateProblem::Undefined(argument.to_owned())),
        },
    }
    Ok(())
}

/// The type id script with these arguments.
#[must_use]
pub fn type_id(args: &[u8]) -> Script {
    // `TYPE_ID_CODE_HASH` in ckb-chain-spec: the letters `TYPE_ID`.
    let code_hash = h256!("0x545950455f4944");
    let script = Script::new_builder().code_hash(code_hash).hash_type(ScriptHashType::Type);
    script.args(Bytes::copy_from_slice(args)).build()
}

/// Reads a file that a text names.
///
/// # Errors
/// It cannot be read, or is longer than [`EMBEDDED_FILE_BYTES_MAX`].
pub fn read_file(path: &Path) -> Result<Vec<u8>, TemplateProblem> {
    let failed = |source| TemplateProblem::File { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    // One byte more than the limit distinguishes "exactly the limit" from "beyond it".
    let file = File::open(path).map_err(failed)?;
    file.take(EMBEDDED_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > EMBEDDED_FILE_BYTES_MAX {
        return Err(TemplateProblem::FileTooLarge(path.to_owned()));
    }
    Ok(bytes)
}

fn error_at(text: &str, at: usize, problem: TemplateProblem) -> TemplateError {
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    TemplateError { line, column: before[line_start..].chars().count() + 1, problem }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a b"), [0x7f, 0, 0xab]).unwrap();
        folder
    }

    #[track_caller]
    fn expanded(text: &str) -> String {
        expand(text, folder().path()).unwrap()
    }

    #[test]
    fn files_become_digits() {
        assert_eq!(expanded(r#""0x{{ data a b }}","#), r#""0x7f00ab","#);
        assert_eq!(expanded("{{data a b}}{{ data a b}}"), "7f00ab7f00ab");
        let hash = ckb_types::packed::CellOutput::calc_data_hash(&[0x7f, 0, 0xab]);
        assert_eq!(expanded("{{ hash a b }}"), format!("{hash:x}"));
    }

    #[test]
    fn types_are_defined_and_named() {
        let text = expanded(r#"[{{ ref_type x }}, "{{ def_type x }}"]"#);
        let object = text.split_once(", ").unwrap().1.trim_end_matches(']');
        let script: serde_json::Value = serde_json::from_str(object).unwrap();
        assert_eq!(script["args"], "0x78");
        assert_eq!(script["hash_type"], "type");
        let id = "0x00000000000000000000000000000000000000000000000000545950455f4944";
        assert_eq!(script["code_hash"], id);
        assert!(text.starts_with(&format!("[{:x}, ", type_id(b"x").calc_script_hash())));
    }

    #[test]
    fn what_is_no_placeholder_stays() {
        for text in ["{{", "{{ data }}", "{{ data a", "{{ nothing }}", "{ \"a\": {}}", "{{ data a\n}}"] {
            assert_eq!(expanded(text), text);
        }
    }

    #[test]
    fn columns_of_an_expansion_are_those_of_its_line() {
        let line = r#"{"a": "{{ data a b }}", "b": "{{ ref_type x }}", c"#;
        let of = |text: &str| source_column(line, folder().path(), text.len() + 1);
        let digits = "0".repeat(64);
        let columns =
            ["{", r#"{"a": "7f"#, r#"{"a": "7f00ab", "#, &format!(r#"{{"a": "7f00ab", "b": "{digits}", "#)];
        assert_eq!(columns.map(of), [2, 8, 25, line.len()]);
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = expand(text, folder().path()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn mistakes_have_their_place() {
        refused("\n  \"ü{{ data none }}", "line 2, column 5: cannot read ");
        refused("{{ data . }}", "line 1, column 1: cannot read ");
        refused("{{ def_type t }}\n{{ def_type t }}", "line 2, column 1: the type \"t\" is defined already");
        let undefined = "line 1, column 1: the type \"t\" is not defined; define it with {{ def_type t }}";
        refused("{{ ref_type t }}", undefined);
        refused("{{ dta a b }}", "line 1, column 1: there is no placeholder \"dta\"");
        refused("{{ data /dev/zero }}", "line 1, column 1: /dev/zero is longer than 32505856 bytes");
        refused(&"{{data a b}}".repeat(4097), "line 1, column 49153: more than 4096 placeholders");
    }
}
