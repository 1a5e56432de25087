//! The files that a script may open: those in folders that the user named, and files that the user named
//! themselves.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use antares_profile_view::printable;

/// Additional folders for scripts, for tools that pass no options: separated as in `PATH`.
const VARIABLE: &str = "ANTARES_DEBUGGER_PATHS";
const SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };

/// Files that a script may open.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    /// Readable folders, without links.
    folders: Vec<PathBuf>,
    /// Those of them that were named as folders: also writable.
    writable: Vec<PathBuf>,
    /// Named files, as the script has their names.
    files: Vec<PathBuf>,
    has_reported: bool,
}

/// How to open a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    pub(crate) truncate: bool,
    pub(crate) create: bool,
    pub(crate) create_new: bool,
}

impl Allowed {
    /// Permits the folders of `named` files, `folders`, and each of `files` that a script requests by exactly
    /// that name.
    pub(crate) fn new<'a>(
        named: impl Iterator<Item = &'a Path>,
        folders: &[PathBuf],
        files: impl Iterator<Item = PathBuf>,
    ) -> Self {
        let of_file = |path: &Path| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let real = |folder: PathBuf| canonical(&folder).ok().filter(|_| !folder.as_os_str().is_empty());
        let listed = split(&std::env::var_os(VARIABLE).unwrap_or_default());
        let writable: Vec<_> = folders.iter().cloned().chain(listed).filter_map(real).collect();
        let folders = named.map(of_file).filter_map(real).chain(writable.iter().cloned()).collect();
        Self { folders, writable, files: files.collect(), has_reported: false }
    }

    /// Opens the file with the script's `name`.
    ///
    /// # Errors
    /// Access is denied, or the system's error.
    pub(crate) fn open(&mut self, name: &[u8], access: Access) -> io::Result<File> {
        let path = &called(name).ok_or(io::ErrorKind::InvalidInput)?;
        let is_named = self.files.iter().any(|file| file == path);
        let Access { read, write, append, truncate, create, create_new } = access;
        let writes = write || append || truncate || create || create_new;
        if !may_resolve(path, is_named) {
            self.warn_denied(path, writes);
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let real = real(path, access.create)?;
        let folders = if writes { &self.writable } else { &self.folders };
        let mut below = folders.iter().filter_map(|folder| real.strip_prefix(folder).ok());
        let may_open = match writes {
            false => is_named || below.next().is_some(),
            true => below.any(|rest| !is_hidden(rest)) || (is_named && may_write(path, &real)),
        };
        if !may_open {
            self.warn_denied(path, writes);
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Opening a pipe blocks, and opening a device may have side effects.
        if fs::symlink_metadata(&real).is_ok_and(|found| !found.is_file()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut options = OpenOptions::new();
        options.read(read).write(write).append(append).truncate(truncate);
        options.create(create).create_new(create_new).open(real)
    }

    fn warn_denied(&mut self, path: &Path, writes: bool) {
        if !std::mem::replace(&mut self.has_reported, true) {
            let path = printable(&path.to_string_lossy());
            let (verb, why) = match writes {
                true => ("write", "it is hidden, or no --allow-path has it"),
                false => ("open", "its folder is none of those that were named"),
            };
            eprintln!("ckb-debugger: the script may not {verb} {path}: {why}");
            eprintln!("  to let it: --allow-path FOLDER, or {VARIABLE}=FOLDER{SEPARATOR}FOLDER");
        }
    }
}

/// Whether a named file is not a link, and not hidden below the current folder.
fn may_write(path: &Path, real: &Path) -> bool {
    let here = std::env::current_dir().and_then(|here| canonical(&here)).unwrap_or_default();
    let outside = || Path::new(real.file_name().unwrap_or_default());
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    !is_link && !is_hidden(real.strip_prefix(here).unwrap_or_else(|_| outside()))
}

/// Whether a component of `path` starts with a dot.
fn is_hidden(path: &Path) -> bool {
    path.iter().any(|part| part.as_encoded_bytes().starts_with(b"."))
}

/// Splits a list of folders.
#[cfg(not(target_os = "wasi"))]
fn split(list: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(list).collect()
}

/// The same if the standard library does not support such lists.
#[cfg(target_os = "wasi")]
fn split(list: &OsStr) -> Vec<PathBuf> {
    list.to_string_lossy().split(':').map(PathBuf::from).collect()
}

/// The path with this name.
#[cfg(unix)]
fn called(name: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// The same if paths are text.
#[cfg(not(unix))]
fn called(name: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(name).ok().map(PathBuf::from)
}

/// Whether resolving `path` has no side effects.
#[cfg(windows)]
fn may_resolve(path: &Path, is_named: bool) -> bool {
    path.to_str().is_some_and(|path| crate::ckb_debugger::drives::is_plain(path, is_named))
}

/// The same if paths only consist of names and separators.
#[cfg(not(windows))]
fn may_resolve(_path: &Path, _is_named: bool) -> bool {
    true
}

/// The absolute `path` without links.
#[cfg(not(target_os = "wasi"))]
fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The same without support by the system: paths cannot leave the folders that the host has opened, and links
/// inside of them are not followed.
#[cfg(target_os = "wasi")]
fn canonical(path: &Path) -> io::Result<PathBuf> {
    use std::path::Component;
    let mut real = PathBuf::from("/");
    let here = std::env::current_dir().unwrap_or_default();
    for part in here.components().chain(path.components()) {
        match part {
            Component::Prefix(_) | Component::CurDir => {}
            Component::RootDir => real = PathBuf::from("/"),
            Component::ParentDir => _ = real.pop(),
            Component::Normal(name) => {
                real.push(name);
                if fs::symlink_metadata(&real).is_ok_and(|found| found.is_symlink()) {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
            }
        }
    }
    fs::metadata(&real).map(|_| real)
}

/// `path` without links. The last component may be missing if the file `may_be_new`.
fn real(path: &Path, may_be_new: bool) -> io::Result<PathBuf> {
    match canonical(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_be_new => {
            // A dangling link would be followed on opening.
            if fs::symlink_metadata(path).is_ok() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Ok(canonical(folder.unwrap_or(Path::new(".")))?.join(name))
        }
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Access =
        Access { read: true, write: false, append: false, truncate: false, create: false, create_new: false };
    const WRITE: Access =
        Access { read: false, write: true, append: false, truncate: true, create: true, create_new: false };
    const DENIED: Option<io::ErrorKind> = Some(io::ErrorKind::PermissionDenied);

    /// Two folders: a script of one and a file of the other are named.
    struct Folders {
        _root: tempfile::TempDir,
        inside: PathBuf,
        outside: PathBuf,
        allowed: Allowed,
    }

    impl Folders {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
            [&inside, &outside].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
            fs::write(outside.join("secret"), b"s").unwrap();
            let script = inside.join("script");
            fs::write(&script, b"x").unwrap();
            let named = [outside.join("named")].into_iter();
            let allowed = Allowed::new([script.as_path()].into_iter(), &[], named);
            Self { _root: root, inside, outside, allowed }
        }

        fn open(&mut self, path: &Path, access: Access) -> Option<io::ErrorKind> {
            let opened = self.allowed.open(path.to_str().unwrap().as_bytes(), access);
            opened.err().map(|error| error.kind())
        }
    }

    #[test]
    fn files_are_in_the_folders_that_were_named() {
        let mut folders = Folders::new();
        let (inside, outside) = (folders.inside.clone(), folders.outside.clone());
        fs::create_dir(inside.join("folder")).unwrap();
        assert_eq!(folders.open(&inside.join("script"), READ), None);
        for name in ["script", "new", "folder/new"] {
            assert_eq!(folders.open(&inside.join(name), WRITE), DENIED, "{name}");
        }
        assert_eq!(fs::read(inside.join("script")).unwrap(), b"x");
        assert_eq!(folders.open(&outside.join("named"), WRITE), None);
        assert_eq!(folders.open(&outside.join("secret"), READ), DENIED);
        assert_eq!(folders.open(&outside.join("other"), WRITE), DENIED);
        assert_eq!(folders.open(&inside.join("../outside/secret"), READ), DENIED);
        assert_eq!(folders.open(&inside.join("folder"), READ), DENIED);
        assert_eq!(folders.open(&inside, READ), DENIED);
        assert_eq!(folders.open(&inside.join("none"), READ), Some(io::ErrorKind::NotFound));
        assert!(!outside.join("other").exists());
    }

    #[test]
    fn what_is_written_is_in_a_folder_that_was_named_and_not_hidden() {
        let mut folders = Folders::new();
        let inside = folders.inside.clone();
        for folder in [".git", "folder"] {
            fs::create_dir(inside.join(folder)).unwrap();
            fs::write(inside.join(folder).join("config"), b"x").unwrap();
        }
        let hidden = inside.join(".named");
        let root = std::slice::from_ref(&inside);
        folders.allowed = Allowed::new(std::iter::empty(), root, [hidden.clone()].into_iter());
        for name in [".git/config", ".git/new", ".new", "folder/../.git/config"] {
            assert_eq!(folders.open(&inside.join(name), WRITE), DENIED, "{name}");
        }
        assert_eq!(folders.open(&hidden, WRITE), DENIED);
        assert_eq!(folders.open(&inside.join(".git/config"), READ), None);
        assert_eq!(folders.open(&inside.join("folder/../folder/config"), WRITE), None);
        assert_eq!(fs::read(inside.join(".git/config")).unwrap(), b"x");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(inside.join(".git"), inside.join("link")).unwrap();
            assert_eq!(folders.open(&inside.join("link/config"), WRITE), DENIED);
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_out() {
        use std::os::unix::fs::symlink;
        let mut folders = Folders::new();
        let (inside, outside) = (folders.inside.clone(), folders.outside.clone());
        symlink(outside.join("secret"), inside.join("link")).unwrap();
        symlink(outside.join("new"), inside.join("dangling")).unwrap();
        symlink(&outside, inside.join("folder")).unwrap();
        assert_eq!(folders.open(&inside.join("link"), READ), DENIED);
        assert_eq!(folders.open(&inside.join("dangling"), WRITE), DENIED);
        assert_eq!(folders.open(&inside.join("folder/secret"), READ), DENIED);
        assert_eq!(folders.open(&inside.join("folder/new"), WRITE), DENIED);
        assert!(!outside.join("new").exists());
    }

    /// `drives.rs` tests more names; this test opens them.
    #[cfg(windows)]
    #[test]
    fn what_windows_reads_into_names_does_not_lead_out() {
        let mut folders = Folders::new();
        let (inside, outside) = (folders.inside.clone(), folders.outside.clone());
        for name in ["NUL", "con", "new.", "new ", "script:stream", "script::$DATA", "com1.txt"] {
            assert_eq!(folders.open(&inside.join(name), READ), DENIED, "{name}");
            assert_eq!(folders.open(&inside.join(name), WRITE), DENIED, "{name}");
        }
        let secret = fs::canonicalize(outside.join("secret")).unwrap();
        let below_drive = secret.to_str().unwrap().strip_prefix(r"\\?\").unwrap().to_owned();
        for path in [
            secret.to_str().unwrap(),
            &below_drive,
            &below_drive.to_uppercase(),
            &below_drive.replace('\\', "/"),
            &format!(r"\\.\{below_drive}"),
            &format!(r"\\localhost\{}", below_drive.replacen(':', "$", 1)),
        ] {
            assert_eq!(folders.open(Path::new(path), READ), DENIED, "{path}");
        }
        let upper = inside.join("SCRIPT");
        assert_eq!(folders.open(&upper, READ), None, "case is nothing here");
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 1);
    }
}
