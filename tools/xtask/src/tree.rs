//! The files that git tracks or would add, read once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use anyhow::{Context as _, ensure};

/// Folders of generated files: a test compares each with its source.
const GENERATED: &str = "/src/generated/";

/// Contents of text files by path relative to the root, with `/` as separator; only the paths of binary
/// files.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    binaries: BTreeSet<String>,
}

/// The checkout that this binary was built from.
pub(crate) fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("xtask is not in a checkout")
}

/// The output of git in the checkout.
pub(crate) fn git(words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").args(words).current_dir(root()?).output().context("cannot start git")?;
    ensure!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("git's output is not UTF-8")
}

impl Tree {
    /// Reads the checkout that this binary was built from.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let root = root()?;
        let names = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let names = names.split_terminator('\0');
        let written = names.clone().filter(|name| !name.contains(GENERATED));
        let files: BTreeMap<_, _> = written.filter_map(|name| read_text(root, name)).collect();
        let binaries = names.filter(|name| !files.contains_key(*name) && root.join(name).is_file());
        let binaries = binaries.map(str::to_owned).collect();
        Ok(Self { files, binaries })
    }

    /// A tree of the given files.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Self { files, binaries: BTreeSet::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether the file exists, or a folder with a file in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path)
            || self.binaries.contains(path)
            || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// All files with their contents, by path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Files whose path ends with `end`, with their contents.
    pub(crate) fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter(move |(path, _)| path.ends_with(end))
    }
}

/// Reads a text file; `None` for a binary file, or one that is deleted but still tracked.
fn read_text(root: &Path, name: &str) -> Option<(String, String)> {
    Some((name.to_owned(), String::from_utf8(std::fs::read(root.join(name)).ok()?).ok()?))
}
