//! Native code that is kept on this machine for the next time: a folder of files under their artifact keys, for several
//! commands at once. All of it may be deleted at any time, and where it cannot be used, nothing is kept.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use antares_abi::{ArtifactKey, CompileOptions, Hints, Sha256Digest};
use antares_pool::{LeftEarly, NativeEnd, Sealed, verify_library};
use rustix::fs::OFlags;

use crate::limits::{KEPT_AGAIN_AFTER, KEPT_BYTES_MAX, KEPT_FILES_MAX, LIBRARY_BYTES_MAX};

/// What every file begins with; the last byte is the version of the format.
const MAGIC: &[u8; 8] = b"antkept\x01";
/// Magic, key, and digest of what follows.
const HEAD_BYTES: usize = MAGIC.len() + 32 + 32;

/// What the name of a mark ends with: of a script without full code.
const WITHOUT: &str = "without";

/// What the name of a file with hints ends with.
const HINTS: &str = "hints";

/// What the name of a file ends with that tells how often a library was left before a run's end.
const LEFT: &str = "left";

/// Times that the hints of a script may change; one that shows new ones for ever is left alone.
const HINT_ROUNDS_MAX: u32 = 8;

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    folder: PathBuf,
}

impl Kept {
    /// The user's folder; none if it is switched off or cannot be used.
    pub(crate) fn of_user(is_off: bool) -> Option<Self> {
        let is_off = is_off || env::var_os("ANTARES_CACHE").is_some_and(|word| word == "off");
        let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let base = base.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        base.filter(|_| !is_off).and_then(|base| Self::at(&base.join("antares")))
    }

    /// This folder, made if it is not there. It must be ours alone: what is in it is run.
    pub(crate) fn at(folder: &Path) -> Option<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        let found = fs::symlink_metadata(folder).ok()?;
        let is_ours = found.is_dir() && is_private(&found);
        is_ours.then(|| Self { folder: folder.to_owned() })
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The library with this key. A file that is not as it was written is removed.
    pub(crate) fn get(&self, key: ArtifactKey) -> Option<Sealed> {
        let path = self.path(key);
        let file = open(&path).ok()?;
        // Hashed once, as it is sealed.
        let library = unchecked(&file, key).and_then(|(digest, bytes)| {
            let sealed = Sealed::new("library", &bytes).ok()?;
            verify_library(&sealed, digest).ok()?;
            Some(sealed)
        });
        match &library {
            // What was used last goes last. It is no matter if that fails.
            Some(_) => drop(file.set_modified(SystemTime::now())),
            None => drop(fs::remove_file(&path)),
        }
        library
    }

    /// Whether there is a library with this key.
    pub(crate) fn has(&self, key: ArtifactKey) -> bool {
        self.path(key).exists()
    }

    /// Keeps a library, and lets old ones go. Others see the whole file or none. That it fails is no matter.
    pub(crate) fn put(&self, key: ArtifactKey, library: &[u8]) -> io::Result<()> {
        if library.len() as u64 > LIBRARY_BYTES_MAX {
            return Ok(());
        }
        self.write(&self.path(key), key, library)
    }

    /// Where the script with this digest was seen to go, by runs on this machine; none where nothing was seen.
    pub(crate) fn hints(&self, elf: Sha256Digest, options: CompileOptions) -> Hints {
        self.round_of_hints(elf, options).1
    }

    /// Keeps hints, unless they have changed too often.
    pub(crate) fn put_hints(&self, elf: Sha256Digest, options: CompileOptions, hints: &Hints) {
        let (round, known) = self.round_of_hints(elf, options);
        if round >= HINT_ROUNDS_MAX || *hints == known {
            return;
        }
        let key = hints_key(elf, options);
        let content = [(round + 1).to_le_bytes().as_slice(), &hints.to_bytes()].concat();
        self.put_as(HINTS, key, &content);
    }

    fn round_of_hints(&self, elf: Sha256Digest, options: CompileOptions) -> (u32, Hints) {
        let key = hints_key(elf, options);
        let content = self.get_as(HINTS, key).unwrap_or_default();
        let Some((round, hints)) = content.split_first_chunk() else { return (0, Hints::default()) };
        (u32::from_le_bytes(*round), Hints::from_bytes(hints))
    }

    /// Keeps something of another kind than libraries. That it fails is no matter: what is not kept is found out again.
    pub(crate) fn put_as(&self, kind: &str, key: ArtifactKey, content: &[u8]) {
        drop(self.write(&self.path(key).with_extension(kind), key, content));
    }

    /// What was kept so.
    pub(crate) fn get_as(&self, kind: &str, key: ArtifactKey) -> Option<Vec<u8>> {
        let file = open(&self.path(key).with_extension(kind)).ok()?;
        let content = read(&file, key);
        // What was used last goes last, as with libraries.
        drop(file.set_modified(SystemTime::now()));
        content
    }

    fn write(&self, path: &Path, key: ArtifactKey, content: &[u8]) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&key.0)?;
        file.write_all(&Sha256Digest::of(content).0)?;
        file.write_all(content)?;
        file.persist(path).map_err(|error| error.error)?;
        self.make_room();
        Ok(())
    }

    /// Notes that there will be no library with this key, so that nobody tries again soon.
    pub(crate) fn mark(&self, key: ArtifactKey) {
        // Without the mark it is tried again, no more.
        drop(File::create(self.path(key).with_extension(WITHOUT)));
    }

    /// Whether that was noted lately.
    pub(crate) fn is_marked(&self, key: ArtifactKey) -> bool {
        let mark = fs::metadata(self.path(key).with_extension(WITHOUT)).and_then(|mark| mark.modified());
        mark.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < KEPT_AGAIN_AFTER))
    }

    /// The right to compile in the background, for as long as the file lives: one process at a time has it.
    pub(crate) fn turn(&self) -> Option<File> {
        let path = self.folder.join("compiling.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).ok()?;
        file.try_lock().ok()?;
        Some(file)
    }

    fn path(&self, key: ArtifactKey) -> PathBuf {
        self.folder.join(key.to_string())
    }

    /// Whether a run begins in the interpreter, since the last ones left this library before their end; that is counted.
    pub(crate) fn begins_interpreted(&self, library: ArtifactKey) -> bool {
        let Some(bytes) = self.get_as(LEFT, library) else { return false };
        let before = LeftEarly::from_bytes(&bytes);
        let mut known = before;
        let is_interpreted = known.begins_interpreted();
        if known != before {
            self.put_as(LEFT, library, &known.to_bytes());
        }
        is_interpreted
    }

    /// Notes what a run with a library says of it.
    pub(crate) fn note_run(&self, library: ArtifactKey, end: NativeEnd) {
        let before = self.get_as(LEFT, library).as_deref().map(LeftEarly::from_bytes).unwrap_or_default();
        let known = before.after(end);
        if known != before {
            self.put_as(LEFT, library, &known.to_bytes());
        }
    }

    /// Removes what was used longest ago until the rest fits.
    fn make_room(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut files = Vec::new();
        for entry in entries.flatten() {
            let Ok(found) = entry.metadata() else { continue };
            let at = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if found.is_file() && entry.file_name() != "compiling.lock" {
                files.push((at, found.len(), entry.path()));
            }
        }
        files.sort();
        let (mut bytes, mut count) = (files.iter().map(|file| file.1).sum::<u64>(), files.len());
        for (at, length, path) in files {
            let is_left_over = path.extension().is_none_or(|end| end != WITHOUT) && is_temporary(&path, at);
            if bytes > KEPT_BYTES_MAX || count > KEPT_FILES_MAX || is_left_over {
                // Another command may have been faster.
                let _ = fs::remove_file(&path);
                bytes -= length;
                count -= 1;
            }
        }
    }
}

/// What hints are kept under: those of another engine are as good.
fn hints_key(elf: Sha256Digest, options: CompileOptions) -> Sha256Digest {
    Sha256Digest::of(
        &[b"hints".as_slice(), &elf.0, &options.vm_version.to_le_bytes(), &[options.isa.0]].concat(),
    )
}

/// What a command that was killed left behind.
fn is_temporary(path: &Path, at: SystemTime) -> bool {
    let is_named = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".tmp"));
    is_named && at.elapsed().is_ok_and(|age| age > Duration::from_secs(3600))
}

fn is_private(found: &fs::Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}

fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

/// The library in a file, if the file is ours and as it was written.
fn read(file: &File, key: ArtifactKey) -> Option<Vec<u8>> {
    let (digest, content) = unchecked(file, key)?;
    (Sha256Digest::of(&content) == digest).then_some(content)
}

/// The same, with the digest that it has to have.
fn unchecked(file: &File, key: ArtifactKey) -> Option<(Sha256Digest, Vec<u8>)> {
    let found = file.metadata().ok()?;
    let length = found.len().checked_sub(HEAD_BYTES as u64).filter(|length| *length <= LIBRARY_BYTES_MAX)?;
    if !found.is_file() || !is_private(&found) {
        return None;
    }
    let (mut head, mut content) = ([0; HEAD_BYTES], vec![0; usize::try_from(length).ok()?]);
    let mut file = file;
    file.read_exact(&mut head).ok()?;
    file.read_exact(&mut content).ok()?;
    let digest = head.strip_prefix(MAGIC)?.strip_prefix(&key.0)?;
    Some((Sha256Digest(digest.try_into().ok()?), content))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use antares_pool::{EARLY_RUNS_MIN, EARLY_TRY_ONE_IN};

    use super::*;

    fn key(number: u64) -> ArtifactKey {
        Sha256Digest::of(&number.to_le_bytes())
    }

    #[test]
    fn files_are_private_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::at(&folder.path().join("deep/antares")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(kept.folder()), 0o700);
        let megabytes = vec![7; 16 << 20];
        for number in 0..20 {
            kept.put(key(number), &megabytes).unwrap();
            assert_eq!(mode(&kept.path(key(number))), 0o600);
        }
        let files =
            || fs::read_dir(kept.folder()).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
        assert!(files().sum::<u64>() <= KEPT_BYTES_MAX);
        assert!(!kept.has(key(0)) && kept.has(key(19)));
    }

    #[test]
    fn only_what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::at(folder.path()).unwrap();
        kept.put(key(1), b"some bytes").unwrap();
        let content = |number| read(&open(&kept.path(key(number))).unwrap(), key(number));
        assert_eq!(content(1).unwrap(), b"some bytes");
        // It is no library, though.
        assert!(kept.get(key(1)).is_none() && !kept.has(key(1)));
        kept.put(key(1), b"some bytes").unwrap();
        fs::copy(kept.path(key(1)), kept.path(key(2))).unwrap();
        assert_eq!(content(2), None, "under another key");
        let mut bytes = fs::read(kept.path(key(1))).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(kept.path(key(1)), &bytes).unwrap();
        assert_eq!(content(1), None, "damaged");
        fs::write(kept.path(key(1)), &bytes[..10]).unwrap();
        assert_eq!(content(1), None, "cut off");
        fs::set_permissions(kept.path(key(2)), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(content(2), None, "anybody's");
        fs::remove_file(kept.path(key(2))).unwrap();
        std::os::unix::fs::symlink(kept.path(key(1)), kept.path(key(2))).unwrap();
        assert!(open(&kept.path(key(2))).is_err(), "a link");
    }

    #[test]
    fn folders_of_others_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Kept::at(folder.path()).is_none());
        assert!(Kept::at(Path::new("/dev/null/antares")).is_none());
        assert!(Kept::at(Path::new("/proc/antares")).is_none());
    }

    #[test]
    fn what_is_left_is_counted_until_a_run_goes_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::at(folder.path()).unwrap();
        let files = || fs::read_dir(kept.folder()).unwrap().count();
        kept.note_run(key(1), NativeEnd::Unknown);
        assert_eq!((kept.begins_interpreted(key(1)), files()), (false, 0));
        for _ in 0..EARLY_RUNS_MIN {
            assert!(!kept.begins_interpreted(key(1)));
            kept.note_run(key(1), NativeEnd::Left);
        }
        let tried = (0..2 * EARLY_TRY_ONE_IN).filter(|_| !kept.begins_interpreted(key(1)));
        assert_eq!((tried.count(), files()), (2, 1));
        assert!(!kept.begins_interpreted(key(2)), "another library");
        kept.note_run(key(1), NativeEnd::Whole);
        assert_eq!((kept.begins_interpreted(key(1)), files()), (false, 1));
    }

    #[test]
    fn one_at_a_time_compiles_behind() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::at(folder.path()).unwrap();
        let turn = kept.turn().unwrap();
        assert!(kept.turn().is_none());
        drop(turn);
        assert!(kept.turn().is_some());
        assert!(!kept.is_marked(key(1)));
        kept.mark(key(1));
        assert!(kept.is_marked(key(1)));
    }
}
