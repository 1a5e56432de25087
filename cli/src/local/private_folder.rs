//! A private folder of this user, held open. No name in it leads elsewhere, even if others change its path.

use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, renameat, statat,
        unlinkat,
    },
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

/// Follows no link, and does not block on a FIFO.
const NO_LINK: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Prefix of the name of a file that is being written.
pub(crate) const TEMPORARY: &str = ".tmp-";

/// A file of the folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Time of its last write or use.
    pub(crate) modified: SystemTime,
    /// Its length, bytes.
    pub(crate) length: u64,
    pub(crate) name: String,
}

#[derive(Debug)]
pub(crate) struct OwnFolder {
    path: PathBuf,
    folder: OwnedFd,
}

fn refused(path: &Path, problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {problem}", path.display()))
}

fn is_mine(owner: u32) -> bool {
    owner == rustix::process::geteuid().as_raw()
}

fn is_mine_or_roots(owner: u32) -> bool {
    owner == 0 || is_mine(owner)
}

/// Whether others can neither change a parent folder's entries nor replace them.
fn is_safe_parent(owner: u32, group: u32, mode: u32) -> bool {
    // If a group has its user's number, it is that user's private group.
    let is_own_group = is_mine(owner) && group == owner && owner != 0;
    let others = if is_own_group { 0o002 } else { 0o022 };
    // In a sticky folder, others may add names; the next component's owner is checked.
    is_mine_or_roots(owner) && (mode & others == 0 || mode & 0o1000 != 0)
}

/// Resolves links in the path and refuses those that others own. Missing components stay as they are.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let mut seen = PathBuf::new();
    let mut parts = path.components();
    for part in parts.by_ref() {
        seen.push(part);
        match fs::symlink_metadata(&seen) {
            Ok(found) if is_mine_or_roots(found.uid()) => {}
            Ok(_) => return Err(refused(&seen, "it is another user's")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                seen.pop();
                let rest = Path::new(part.as_os_str()).join(parts.as_path());
                return Ok(fs::canonicalize(&seen)?.join(rest));
            }
            Err(error) => return Err(error),
        }
    }
    fs::canonicalize(path)
}

fn owned(stat: &Stat) -> (u32, u32, u32) {
    (stat.st_uid, stat.st_gid, stat.st_mode)
}

impl OwnFolder {
    /// Opens the folder at `path`; creates it and its parents with mode 0700 if missing.
    ///
    /// # Errors
    /// It cannot be created or opened; or others own or may write to it or a parent.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = without_links(&env::current_dir()?.join(path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = openat(CWD, "/", flags, Mode::empty())?;
        let mut seen = PathBuf::from("/");
        for part in path.components() {
            let name = match part {
                Component::RootDir => continue,
                Component::Normal(name) => name,
                _ => return Err(refused(&path, "it has .. behind what is not there")),
            };
            let (owner, group, mode) = owned(&fstat(&folder)?);
            if !is_safe_parent(owner, group, mode) {
                return Err(refused(&seen, "others may write there"));
            }
            seen.push(name);
            let opened = openat(&folder, name, flags, Mode::empty());
            folder = match opened {
                Err(Errno::NOENT) => {
                    match mkdirat(&folder, name, Mode::RWXU) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    openat(&folder, name, flags, Mode::empty())?
                }
                opened => opened?,
            };
        }
        let (owner, _, mode) = owned(&fstat(&folder)?);
        if !is_mine(owner) || mode & 0o022 != 0 {
            return Err(refused(&path, "it is not this user's alone"));
        }
        Ok(Self { path, folder })
    }

    /// Its path when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file of this user for reading, if nobody else may write to it.
    pub(crate) fn read(&self, name: &str) -> io::Result<File> {
        let file = openat(&self.folder, name, OFlags::RDONLY | NO_LINK, Mode::empty())?;
        let stat = fstat(&file)?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_regular || !is_mine(stat.st_uid) || stat.st_mode & 0o022 != 0 {
            return Err(refused(Path::new(name), "it is no file of this user alone"));
        }
        Ok(file.into())
    }

    /// Opens a file for writing without truncation; creates it if missing.
    pub(crate) fn touch(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | NO_LINK;
        let file = openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?;
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !is_mine(stat.st_uid) {
            return Err(refused(Path::new(name), "it is no file of this user"));
        }
        Ok(file.into())
    }

    /// Time of the last write to a regular file in it.
    pub(crate) fn modified(&self, name: &str) -> Option<SystemTime> {
        let stat = statat(self.folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| written(&stat))
    }

    /// Writes a file from these parts atomically.
    pub(crate) fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let new = format!("{TEMPORARY}{}", u64::from_le_bytes(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | NO_LINK;
        let mut file = File::from(openat(&self.folder, &new, flags, Mode::RUSR | Mode::WUSR)?);
        // The umask can only remove permissions.
        let written = fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(io::Error::from).and_then(|()| {
            parts.iter().try_for_each(|part| file.write_all(part))?;
            Ok(renameat(&self.folder, &new, &self.folder, name)?)
        });
        if written.is_err() {
            self.remove(&new);
        }
        written
    }

    /// Removes a file. Failure is harmless: another command may have been faster.
    pub(crate) fn remove(&self, name: &str) {
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
    }

    /// The regular files of this user whose names `is_ours` accepts.
    pub(crate) fn files(&self, is_ours: impl Fn(&str) -> bool) -> io::Result<Vec<Entry>> {
        let mut files = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().ok().filter(|name| is_ours(name)) else { continue };
            let Ok(stat) = statat(self.folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && is_mine(stat.st_uid) {
                let length = u64::try_from(stat.st_size).unwrap_or(0);
                files.push(Entry { modified: written(&stat), length, name: name.to_owned() });
            }
        }
        Ok(files)
    }
}

fn written(stat: &Stat) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    let part = Duration::from_nanos(u64::from(u32::try_from(stat.st_mtime_nsec).unwrap_or(0)));
    UNIX_EPOCH.checked_add(seconds + part).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn with_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn ways_that_others_may_change_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (parent, own) = (folder.path().join("parent"), folder.path().join("parent/antares"));
        OwnFolder::open(&own).unwrap();
        with_mode(&parent, 0o777);
        assert!(OwnFolder::open(&own).is_err(), "anybody may put another one in its place");
        assert!(OwnFolder::open(&parent.join("new")).is_err());
        assert!(!parent.join("new").exists());
        with_mode(&parent, 0o1777);
        OwnFolder::open(&own).unwrap();
        with_mode(&parent, 0o755);
        with_mode(&own, 0o770);
        assert!(OwnFolder::open(&own).is_err());
        with_mode(&own, 0o700);
        symlink(&parent, folder.path().join("link")).unwrap();
        OwnFolder::open(&folder.path().join("link/antares")).unwrap();
        assert!(OwnFolder::open(&folder.path().join("link/no/../antares")).is_err());
        // Only root can change an owner.
        if rustix::process::geteuid().is_root() {
            chown(&parent, Some(65_534), None).unwrap();
            assert!(OwnFolder::open(&own).is_err(), "another user's");
            chown(&parent, Some(0), None).unwrap();
            std::os::unix::fs::lchown(folder.path().join("link"), Some(65_534), None).unwrap();
            assert!(OwnFolder::open(&folder.path().join("link/antares")).is_err(), "a link of another user");
        }
    }

    #[test]
    fn what_is_put_in_its_place_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("antares"), folder.path().join("victim"));
        let own = OwnFolder::open(&path).unwrap();
        own.write("kept", &[b"a", b"b"]).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("kept"), "precious").unwrap();
        fs::rename(&path, folder.path().join("old")).unwrap();
        symlink(&victim, &path).unwrap();
        own.write("new", &[b"c"]).unwrap();
        own.touch("mark").unwrap();
        own.remove("kept");
        assert_eq!(own.files(|_| true).unwrap().len(), 2);
        let left: Vec<_> = fs::read_dir(&victim).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["kept"]);
        assert_eq!(fs::read(victim.join("kept")).unwrap(), b"precious");
    }

    #[test]
    fn links_and_fifos_in_it_are_neither_read_nor_written() {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFolder::open(&folder.path().join("antares")).unwrap();
        let outside = folder.path().join("outside");
        fs::write(&outside, "precious").unwrap();
        symlink(&outside, own.path().join("link")).unwrap();
        rustix::fs::mknodat(CWD, own.path().join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        for name in ["link", "fifo"] {
            assert!(own.read(name).is_err() && own.touch(name).is_err(), "{name}");
        }
        assert!(own.files(|_| true).unwrap().is_empty());
        own.write("link", &[b"new"]).unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"precious", "the link itself was replaced");
        assert_eq!(fs::metadata(own.path().join("link")).unwrap().mode() & 0o7777, 0o600);
    }
}
