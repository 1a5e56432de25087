//! Directory lock: one process per directory, only on file systems with reliable locks and syncs.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, Write},
    os::unix::fs::{DirBuilderExt as _, MetadataExt, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock, fstatfs},
    io::Errno,
};

use crate::{config::CacheConfig, error::CacheError};

const LOCK_FILE: &str = "LOCK";
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_millis(250);
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Magic numbers of statfs(2) for rejected file systems.
const REFUSED_FILESYSTEMS: [(u32, &str); 13] = [
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x6573_5546, "FUSE"),
    (0x794c_7630, "overlay"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0000_f15f, "eCryptfs"),
    (0x0161_1970, "GFS2"),
];

/// The lock of a cache directory; released on drop, or by the kernel when the process dies.
#[derive(Debug)]
pub(crate) struct DirLock {
    file: File,
}

impl DirLock {
    /// Whether the path still names the locked directory.
    pub(crate) fn is_there(&self, dir: &Path) -> bool {
        let name = |data: &fs::Metadata| (data.dev(), data.ino());
        match (self.file.metadata(), fs::metadata(dir.join(LOCK_FILE))) {
            (Ok(ours), Ok(found)) => name(&ours) == name(&found),
            _ => false,
        }
    }
}

/// Restricts the directory to its owner, whatever the umask was when it was created: it holds tenants'
/// uploads.
fn keep_from_others(dir: &Path) {
    let Ok(found) = fs::metadata(dir) else { return };
    if found.mode() & 0o077 != 0 {
        // A volume that another user owns keeps the mode of its mount.
        drop(fs::set_permissions(dir, fs::Permissions::from_mode(0o700)));
    }
}

/// Creates the directory, checks its file system and takes its lock.
pub(crate) fn claim(config: &CacheConfig) -> Result<DirLock, CacheError> {
    let dir = &config.dir;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(CacheError::io("make", dir))?;
    keep_from_others(dir);
    let path = dir.join(LOCK_FILE);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)
        .map_err(CacheError::io("open", &path))?;
    if !config.allow_any_filesystem {
        let status = fstatfs(&file).map_err(|errno| CacheError::io("statfs", &path)(errno.into()))?;
        check_filesystem(dir, status.f_type.cast_unsigned())?;
    }
    wait_for_lock(&mut file, config, &path)?;
    write_owner(&mut file).map_err(CacheError::io("write", &path))?;
    Ok(DirLock { file })
}

fn check_filesystem(dir: &Path, magic: u64) -> Result<(), CacheError> {
    match REFUSED_FILESYSTEMS.iter().find(|(refused, _)| u64::from(*refused) == magic & 0xffff_ffff) {
        Some((_, filesystem)) => Err(CacheError::Filesystem { dir: dir.to_owned(), filesystem }),
        None => Ok(()),
    }
}

fn wait_for_lock(file: &mut File, config: &CacheConfig, path: &Path) -> Result<(), CacheError> {
    let deadline = Instant::now() + config.lock_wait;
    let mut pause = RETRY_FIRST;
    loop {
        match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                thread::sleep(pause);
                pause = RETRY_MAX.min(pause * 2);
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(CacheError::Locked { dir: config.dir.clone(), holder: read_owner(file) });
            }
            Err(errno) => return Err(CacheError::io("lock", path)(errno.into())),
        }
    }
}

/// The owner of the lock, for the error message.
fn read_owner(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(200).read_to_string(&mut text));
    let mut words = text.split_whitespace();
    match (read, words.next(), words.next()) {
        (Ok(_), Some(pid), Some(boot)) if boot == boot_id() => format!("process {pid}"),
        (Ok(_), Some(pid), Some(_)) => format!("process {pid} of another machine or boot"),
        _ => "another process".to_owned(),
    }
}

fn write_owner(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{} {}", std::process::id(), boot_id())
}

fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_nobody_elses() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("deep/cache");
        let config = CacheConfig { allow_any_filesystem: true, ..CacheConfig::new(&dir, 1 << 20) };
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        drop(claim(&config).unwrap());
        assert_eq!((mode(&dir), mode(&dir.join(LOCK_FILE))), (0o700, 0o600));
        // The mode that an earlier version set.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        drop(claim(&config).unwrap());
        assert_eq!(mode(&dir), 0o700);
    }

    #[test]
    fn network_and_overlay_file_systems_are_refused_by_name() {
        for (magic, name) in [(0x6969, "NFS"), (0x794c_7630, "overlay"), (0x6573_5546, "FUSE")] {
            match check_filesystem(Path::new("/cache"), magic) {
                Err(CacheError::Filesystem { filesystem, .. }) => assert_eq!(filesystem, name),
                other => panic!("{other:?}"),
            }
        }
        // The kernel sign-extends a magic number with its top bit set.
        assert!(check_filesystem(Path::new("/cache"), 0xffff_ffff_ff53_4d42).is_err());
        for local in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e] {
            assert!(check_filesystem(Path::new("/cache"), local).is_ok());
        }
    }
}
