//! Writes results to standard output, or atomically to a file.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
    path::Path,
};

pub use antares_profile_view::printable;
use anyhow::{Context, anyhow};

use crate::{failure::Failure, input::is_stdio};

pub(crate) mod color;
pub(crate) mod json;
pub(crate) mod progress;
pub(crate) mod report;
#[cfg(feature = "server")]
pub(crate) mod server_json;
pub(crate) mod source_maps;
pub mod verdict;

/// Columns of text for people, where it can be wrapped.
const COLUMNS_MAX: usize = 100;

/// Writes to standard output. A closed reader (`| head`) is not a failure.
pub fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Usage(anyhow::Error::from(error).context("cannot write standard output")))
        }
        _ => Ok(()),
    }
}

/// Writes text for people to standard output.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    print(for_people(text, io::stdout().is_terminal()).as_bytes())
}

/// `text` wrapped for people: a terminal would break lines within words.
pub(crate) fn for_people(text: &str, is_terminal: bool) -> Cow<'_, str> {
    let is_long = |line: &str| line.chars().count() > COLUMNS_MAX;
    match is_terminal && text.lines().any(is_long) {
        true => text.split_inclusive('\n').map(wrapped).collect::<String>().into(),
        false => text.into(),
    }
}

/// A line wrapped at spaces to at most [`COLUMNS_MAX`]; continuation lines are indented deeper.
fn wrapped(line: &str) -> String {
    let words = line.trim_start_matches(' ');
    let indent = " ".repeat((line.len() - words.len()).min(COLUMNS_MAX / 2) + 2);
    let (mut text, mut columns) = (line[..line.len() - words.len()].to_owned(), line.len() - words.len());
    for (at, word) in words.split(' ').enumerate() {
        let length = word.trim_end().chars().count();
        if at > 0 && columns + 1 + length > COLUMNS_MAX {
            text.truncate(text.trim_end_matches(' ').len());
            text += "\n";
            text += &indent;
            columns = indent.len();
        } else if at > 0 {
            text.push(' ');
            columns += 1;
        }
        text += word;
        columns += length;
    }
    text
}

/// Writes binary data to standard output, but never to a terminal.
pub fn print_binary(bytes: &[u8]) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Err(Failure::Usage(anyhow!("this is binary: send it to a file with -o FILE")));
    }
    print(bytes)
}

/// Writes `bytes` to `path`, `-` for standard output. A file is complete or untouched.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if is_stdio(path) {
        return print_binary(bytes);
    }
    write_file(path, bytes)
        .with_context(|| format!("cannot write {}", path.display()))
        .map_err(Failure::Usage)
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    // Devices and pipes cannot be replaced.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Ok(std::fs::write(path, bytes)?);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new().permissions(file_permissions()).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Default permissions of a new file: readable by all, less the umask.
fn file_permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_on_terminals() {
        let text = format!("  why: {}\nshort\n{}\n", "a word ".repeat(30), "0".repeat(120));
        assert_eq!(for_people(&text, false), text);
        let reported = for_people(&text, true).into_owned();
        let lines: Vec<_> = reported.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= COLUMNS_MAX || !line.contains(' ')), "{reported}");
        assert!(lines[1].starts_with("    ") && lines.contains(&"short"), "{reported}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&reported), words(&text));
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.so");
        write(&path, b"one, longer").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(&folder.path().join("no/such/folder"), b"").is_err());
    }
}
