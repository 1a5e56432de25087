//! Source files by the compiler's names. Debug information is untrusted and may name any file.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::Read as _,
    path::{Component, Path, PathBuf},
};

use crate::{
    limits::{SOURCE_BYTES_ALL_MAX, SOURCE_BYTES_MAX, SOURCE_FILES_MAX},
    printable::is_command,
};

/// Regular files below given folders: no links, no hidden files, within limits.
pub struct Sources {
    roots: Vec<PathBuf>,
    read: RefCell<Texts>,
}

#[derive(Default)]
struct Texts {
    known: HashMap<String, Option<String>>,
    bytes: u64,
}

impl Sources {
    /// Files below the current folder.
    #[must_use]
    pub fn here() -> Self {
        Self::below(std::env::current_dir().ok())
    }

    /// Files below `roots`.
    pub fn below(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        let roots = roots.into_iter();
        Self {
            roots: roots.map(|root| fs::canonicalize(&root).unwrap_or(root)).collect(),
            read: RefCell::default(),
        }
    }

    /// The text of a file that debug information names, by its path or a suffix of it.
    pub fn read(&self, file: &str) -> Option<String> {
        let mut texts = self.read.borrow_mut();
        if let Some(known) = texts.known.get(file) {
            return known.clone();
        }
        if texts.known.len() >= SOURCE_FILES_MAX || file.contains(is_command) {
            return None;
        }
        let left = SOURCE_BYTES_MAX.min(SOURCE_BYTES_ALL_MAX.saturating_sub(texts.bytes));
        let text = self.roots.iter().find_map(|root| text(root, Path::new(file), left));
        texts.bytes += text.as_ref().map_or(0, |text| text.len() as u64);
        texts.known.insert(file.to_owned(), text.clone());
        text
    }
}

fn text(root: &Path, file: &Path, bytes_max: u64) -> Option<String> {
    let mut parts = Vec::new();
    for part in file.strip_prefix(root).unwrap_or(file).components() {
        match part {
            Component::Normal(name) if name.as_encoded_bytes().starts_with(b".") => return None,
            Component::Normal(name) => parts.push(name),
            Component::ParentDir => _ = parts.pop(),
            _ => {}
        }
    }
    let file = (0..parts.len()).find_map(|first| open(root, &parts[first..]))?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).ok()?;
    let is_whole = bytes.len() as u64 <= bytes_max;
    is_whole.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens the regular file with this name, if its path has no links.
fn open(root: &Path, parts: &[&std::ffi::OsStr]) -> Option<File> {
    let mut path = root.to_owned();
    for part in parts {
        path.push(part);
        fs::symlink_metadata(&path).ok().filter(|found| found.is_file() || found.is_dir())?;
    }
    let mut options = OpenOptions::new();
    // The file may have been replaced: opening a pipe must not block.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed(),
    );
    let file = options.read(true).open(path).ok()?;
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_regular_short_visible_and_below_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("src/.git")).unwrap();
        for name in ["secret", "root/src/a.c", "root/src/.git/config", "root/.env"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::write(root.join("long"), vec![b'\n'; 4 << 20]).unwrap();
        fs::write(root.join("longer"), vec![b'\n'; (4 << 20) + 1]).unwrap();
        symlink(folder.path().join("secret"), root.join("link")).unwrap();
        symlink(root.join("src"), root.join("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let sources = Sources::below([root.clone()]);
        let inside = root.join("src/a.c");
        for name in ["src/a.c", "./src/../src/a.c", "/build/a/src/a.c", inside.to_str().unwrap()] {
            assert_eq!(sources.read(name).as_deref(), Some("root/src/a.c"), "{name}");
        }
        assert!(sources.read("long").is_some());
        let hidden = [".env", "src/.git/config", "/x/.cargo/src/a.c", "../secret", "/dev/zero", "src", ""];
        for name in ["link", "folder/a.c", "socket", "longer"].iter().chain(&hidden) {
            assert_eq!(sources.read(name), None, "{name}");
        }
        for number in 0..20 {
            fs::copy(root.join("long"), root.join(number.to_string())).unwrap();
        }
        let read = (0..20).filter(|number| sources.read(&number.to_string()).is_some()).count();
        assert_eq!(read, 14, "64 MiB in all, of which one file of 4 MiB and some bytes were read before");
        // As text, each byte becomes three.
        for number in 0..20 {
            fs::write(root.join(number.to_string()), vec![0xff; 4 << 20]).unwrap();
        }
        let sources = Sources::below([root]);
        let read = (0..20).filter(|number| sources.read(&number.to_string()).is_some()).count();
        assert_eq!(read, 6, "the sixth one passes 64 MiB");
    }
}
