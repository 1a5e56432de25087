//! Which files a script may open: those in folders that its user named, and files that its user named
//! themselves.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use antares_profile_view::printable;

/// Folders for scripts, beside those on the command line, for tools that pass none: separated by colons.
const VARIABLE: &str = "ANTARES_DEBUGGER_PATHS";

/// What a script may open.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    /// Without links.
    folders: Vec<PathBuf>,
    /// As the script has them, too.
    files: Vec<PathBuf>,
    has_told: bool,
}

/// How a file is to be opened.
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
    /// The folders of `named` files, `folders`, and `files` if they are what a script asks for in the same
    /// words.
    pub(crate) fn new<'a>(
        named: impl Iterator<Item = &'a Path>,
        folders: &[PathBuf],
        files: impl Iterator<Item = PathBuf>,
    ) -> Self {
        let of_file = |path: &Path| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let told = split(&std::env::var_os(VARIABLE).unwrap_or_default());
        let all = named.map(of_file).chain(folders.iter().cloned()).chain(told);
        let all = all.filter(|folder| !folder.as_os_str().is_empty());
        let folders = all.filter_map(|folder| canonical(&folder).ok()).collect();
        Self { folders, files: files.collect(), has_told: false }
    }

    /// Opens the file that a script calls `name`.
    ///
    /// # Errors
    /// It may not, or the system says why not.
    pub(crate) fn open(&mut self, name: &[u8], access: Access) -> io::Result<File> {
        let path = &called(name).ok_or(io::ErrorKind::InvalidInput)?;
        let real = real(path, access.create)?;
        let is_named = self.files.iter().any(|file| file == path);
        if !is_named && !self.folders.iter().any(|folder| real.starts_with(folder)) {
            self.tell(path);
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Opening a pipe waits, and devices do what they do.
        if fs::symlink_metadata(&real).is_ok_and(|found| !found.is_file()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let Access { read, write, append, truncate, create, create_new } = access;
        let mut options = OpenOptions::new();
        options.read(read).write(write).append(append).truncate(truncate);
        options.create(create).create_new(create_new).open(real)
    }

    fn tell(&mut self, path: &Path) {
        if !std::mem::replace(&mut self.has_told, true) {
            let path = printable(&path.to_string_lossy());
            eprintln!(
                "ckb-debugger: the script may not open {path}: its folder is none of those that were named"
            );
            eprintln!("  to let it: --allow-path FOLDER, or {VARIABLE}=FOLDER:FOLDER");
        }
    }
}

/// The folders in a list.
#[cfg(not(target_os = "wasi"))]
fn split(list: &OsStr) -> Vec<PathBuf> {
    std::env::split_paths(list).collect()
}

/// The same where the standard library has no such lists.
#[cfg(target_os = "wasi")]
fn split(list: &OsStr) -> Vec<PathBuf> {
    list.to_string_lossy().split(':').map(PathBuf::from).collect()
}

/// The path that a script calls by these bytes.
#[cfg(unix)]
fn called(name: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// The same where paths are text.
#[cfg(not(unix))]
fn called(name: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(name).ok().map(PathBuf::from)
}

/// `path` from the root on, without links.
#[cfg(not(target_os = "wasi"))]
fn canonical(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The same where the system cannot tell: there is no way out of the folders that the host has opened, and
/// links inside of them are not followed.
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

/// `path` without links. The last part of a file that `may_be_new` need not be there.
fn real(path: &Path, may_be_new: bool) -> io::Result<PathBuf> {
    match canonical(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_be_new => {
            // A link that leads nowhere would be followed where it is opened.
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
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    const READ: Access =
        Access { read: true, write: false, append: false, truncate: false, create: false, create_new: false };
    const WRITE: Access =
        Access { read: false, write: true, append: false, truncate: true, create: true, create_new: false };

    fn kind(opened: io::Result<File>) -> Option<io::ErrorKind> {
        opened.err().map(|error| error.kind())
    }

    #[test]
    fn files_are_in_the_folders_that_were_named() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("inside"), root.path().join("outside"));
        [&inside, &outside].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
        fs::write(outside.join("secret"), b"s").unwrap();
        fs::write(inside.join("script"), b"x").unwrap();
        std::os::unix::fs::symlink(outside.join("secret"), inside.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("new"), inside.join("dangling")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("folder")).unwrap();
        let script = inside.join("script");
        let named = outside.join("named");
        let mut allowed = Allowed::new([script.as_path()].into_iter(), &[], [named.clone()].into_iter());
        let mut open = |path: PathBuf, access| kind(allowed.open(path.as_os_str().as_bytes(), access));
        let denied = Some(io::ErrorKind::PermissionDenied);
        assert_eq!(open(script, READ), None);
        assert_eq!(open(inside.join("new"), WRITE), None);
        assert_eq!(open(named, WRITE), None);
        assert_eq!(open(outside.join("secret"), READ), denied);
        assert_eq!(open(outside.join("other"), WRITE), denied);
        assert_eq!(open(inside.join("../outside/secret"), READ), denied);
        assert_eq!(open(inside.join("link"), READ), denied);
        assert_eq!(open(inside.join("dangling"), WRITE), denied);
        assert_eq!(open(inside.join("folder/secret"), READ), denied);
        assert_eq!(open(inside.join("folder/new"), WRITE), denied);
        assert_eq!(open(inside.join("folder"), READ), denied);
        assert_eq!(open(inside.clone(), READ), denied);
        assert_eq!(open(inside.join("none"), READ), Some(io::ErrorKind::NotFound));
        assert!(!outside.join("new").exists() && !outside.join("other").exists());
    }
}
