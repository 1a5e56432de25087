//! Cache of native code on this machine: a folder of files by artifact key, shared by concurrent commands.
//! All of it may be deleted at any time; without a usable folder, nothing is cached.

use std::{
    env,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use antares_abi::{ArtifactKey, CompileOptions, Hints, Sha256Digest};
use antares_pool::{EarlyBailouts, NativeEnd, Sealed, verify_library};

use crate::{
    limits::{CACHED_BYTES_MAX, CACHED_FILES_MAX, LIBRARY_BYTES_MAX, RETRY_FULL_AFTER},
    local::private_folder::{OwnFolder, TEMPORARY},
};

/// First bytes of every file; the last byte is the version of the format.
const MAGIC: &[u8; 8] = b"antkept\x01";
/// Magic, key, and digest of the content.
const HEAD_BYTES: usize = MAGIC.len() + 32 + 32;

/// Suffix of a marker of a script without full code.
const WITHOUT: &str = "without";

/// Suffix of a file with hints.
const HINTS: &str = "hints";

/// Suffix of a file with the number of early bailouts of a library.
const LEFT: &str = "left";

/// Limit for changes of a script's hints; endless changes are ignored.
const HINT_ROUNDS_MAX: u32 = 8;

#[derive(Debug, Default)]
pub(crate) struct CodeFolder {
    /// None if caching is off or the folder is unusable.
    folder: Option<OwnFolder>,
}

impl CodeFolder {
    /// The user's folder, unless caching is off.
    pub(crate) fn of_user(is_off: bool) -> Self {
        let is_off = is_off || env::var_os("ANTARES_CACHE").is_some_and(|word| word == "off");
        let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let base = base.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        base.filter(|_| !is_off).map(|base| Self::at(&base.join("antares"))).unwrap_or_default()
    }

    /// Opens or creates this folder. Only this user may have access: its contents are executed.
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: OwnFolder::open(folder).ok() }
    }

    /// Its path; none if nothing is cached.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.folder.as_ref().map(OwnFolder::path)
    }

    /// The library with this key. Removes a file whose content changed since it was written.
    pub(crate) fn get(&self, key: ArtifactKey) -> Option<Sealed> {
        let folder = self.folder.as_ref()?;
        let file = folder.read(&key.to_string()).ok()?;
        // Sealing computes the digest, so the content is hashed once.
        let library = unchecked(&file, key).and_then(|(digest, bytes)| {
            let sealed = Sealed::new("library", &bytes).ok()?;
            verify_library(&sealed, digest).ok()?;
            Some(sealed)
        });
        match &library {
            // Eviction removes the least recently used first. Failure is harmless.
            Some(_) => drop(file.set_modified(SystemTime::now())),
            None => folder.remove(&key.to_string()),
        }
        library
    }

    /// Whether there is a library with this key.
    pub(crate) fn has(&self, key: ArtifactKey) -> bool {
        self.modified(&key.to_string()).is_some()
    }

    fn modified(&self, name: &str) -> Option<SystemTime> {
        self.folder.as_ref()?.modified(name)
    }

    /// Stores a library and evicts old ones. Others see a complete file or none. Failure is harmless.
    pub(crate) fn put(&self, key: ArtifactKey, library: &[u8]) -> io::Result<()> {
        if library.len() as u64 > LIBRARY_BYTES_MAX {
            return Ok(());
        }
        self.write(&key.to_string(), key, library)
    }

    /// Hints from runs of the script with this digest on this machine; empty if there are none.
    pub(crate) fn hints(&self, elf: Sha256Digest, options: CompileOptions) -> Hints {
        self.round_of_hints(elf, options).1
    }

    /// Stores hints, unless they changed too often.
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

    /// Stores an entry of another kind. Failure is harmless: it can be recomputed.
    pub(crate) fn put_as(&self, kind: &str, key: ArtifactKey, content: &[u8]) {
        drop(self.write(&name(key, kind), key, content));
    }

    /// An entry stored by `put_as`.
    pub(crate) fn get_as(&self, kind: &str, key: ArtifactKey) -> Option<Vec<u8>> {
        let file = self.folder.as_ref()?.read(&name(key, kind)).ok()?;
        let content = read(&file, key);
        // Least recently used is evicted first, as with libraries.
        drop(file.set_modified(SystemTime::now()));
        content
    }

    fn write(&self, name: &str, key: ArtifactKey, content: &[u8]) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        folder.write(name, &[MAGIC, &key.0, &Sha256Digest::of(content).0, content])?;
        evict_for_space(folder);
        Ok(())
    }

    /// Marks this key as having no library, to avoid another attempt soon.
    pub(crate) fn mark(&self, key: ArtifactKey) {
        // Without the marker, the only effect is another attempt.
        let mark = self.folder.as_ref().and_then(|folder| folder.touch(&name(key, WITHOUT)).ok());
        mark.map(|mark| mark.set_modified(SystemTime::now()));
    }

    /// Whether it was marked recently.
    pub(crate) fn is_marked(&self, key: ArtifactKey) -> bool {
        let mark = self.modified(&name(key, WITHOUT));
        mark.is_some_and(|at| at.elapsed().is_ok_and(|age| age < RETRY_FULL_AFTER))
    }

    /// The exclusive right to compile in the background, until the file closes.
    pub(crate) fn turn(&self) -> Option<File> {
        let file = self.folder.as_ref()?.touch("compiling.lock").ok()?;
        file.try_lock().ok()?;
        Some(file)
    }

    /// Whether a run starts in the interpreter because recent runs bailed out of this library. Counts the
    /// query.
    pub(crate) fn begins_interpreted(&self, library: ArtifactKey) -> bool {
        let Some(bytes) = self.get_as(LEFT, library) else { return false };
        let before = EarlyBailouts::from_bytes(&bytes);
        let mut known = before;
        let is_interpreted = known.begins_interpreted();
        if known != before {
            self.put_as(LEFT, library, &known.to_bytes());
        }
        is_interpreted
    }

    /// Records how a run of a library ended.
    pub(crate) fn record_run(&self, library: ArtifactKey, end: NativeEnd) {
        let before = self.get_as(LEFT, library).as_deref().map(EarlyBailouts::from_bytes).unwrap_or_default();
        let known = before.after(end);
        if known != before {
            self.put_as(LEFT, library, &known.to_bytes());
        }
    }
}

/// Removes the least recently used files until the rest fits.
fn evict_for_space(folder: &OwnFolder) {
    let Ok(mut files) = folder.files(is_ours) else { return };
    files.sort();
    let (mut bytes, mut count) = (files.iter().map(|file| file.length).sum::<u64>(), files.len());
    for file in files {
        if bytes > CACHED_BYTES_MAX || count > CACHED_FILES_MAX || is_left_over(&file.name, file.modified) {
            folder.remove(&file.name);
            bytes -= file.length;
            count -= 1;
        }
    }
}

/// Name of the file of a kind.
fn name(key: ArtifactKey, kind: &str) -> String {
    format!("{key}.{kind}")
}

/// Whether this cache created a file of this name: a key, possibly with a kind, or a temporary file.
fn is_ours(name: &str) -> bool {
    let (key, kind) = name.split_once('.').unwrap_or((name, "library"));
    let is_key = key.len() == 64 && key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_key && !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        || name.strip_prefix(TEMPORARY).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Key of hints: they are valid for every engine.
fn hints_key(elf: Sha256Digest, options: CompileOptions) -> Sha256Digest {
    Sha256Digest::of(
        &[b"hints".as_slice(), &elf.0, &options.vm_version.to_le_bytes(), &[options.isa.0]].concat(),
    )
}

/// Whether a killed command abandoned this file.
fn is_left_over(name: &str, at: SystemTime) -> bool {
    name.starts_with(TEMPORARY) && at.elapsed().is_ok_and(|age| age > Duration::from_secs(3600))
}

/// The library in a file, if the file is ours and unchanged.
fn read(file: &File, key: ArtifactKey) -> Option<Vec<u8>> {
    let (digest, content) = unchecked(file, key)?;
    (Sha256Digest::of(&content) == digest).then_some(content)
}

/// The same without verification, with the expected digest.
fn unchecked(file: &File, key: ArtifactKey) -> Option<(Sha256Digest, Vec<u8>)> {
    let found = file.metadata().ok()?;
    let length = found.len().checked_sub(HEAD_BYTES as u64).filter(|length| *length <= LIBRARY_BYTES_MAX)?;
    let (mut head, mut content) = ([0; HEAD_BYTES], vec![0; usize::try_from(length).ok()?]);
    let mut file = file;
    file.read_exact(&mut head).ok()?;
    file.read_exact(&mut content).ok()?;
    let digest = head.strip_prefix(MAGIC)?.strip_prefix(&key.0)?;
    Some((Sha256Digest(digest.try_into().ok()?), content))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    };

    use antares_pool::{EARLY_RUNS_MIN, EARLY_TRY_ONE_IN};

    use super::*;

    fn path(kept: &CodeFolder, key: ArtifactKey) -> PathBuf {
        kept.path().unwrap().join(key.to_string())
    }

    fn key(number: u64) -> ArtifactKey {
        Sha256Digest::of(&number.to_le_bytes())
    }

    #[test]
    fn files_are_private_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let kept = CodeFolder::at(&folder.path().join("deep/antares"));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(kept.path().unwrap()), 0o700);
        let megabytes = vec![7; 16 << 20];
        for number in 0..20 {
            kept.put(key(number), &megabytes).unwrap();
            assert_eq!(mode(&path(&kept, key(number))), 0o600);
        }
        let files = || {
            fs::read_dir(kept.path().unwrap()).unwrap().map(|file| file.unwrap().metadata().unwrap().len())
        };
        assert!(files().sum::<u64>() <= CACHED_BYTES_MAX);
        assert!(!kept.has(key(0)) && kept.has(key(19)));
    }

    #[test]
    fn files_that_are_not_ours_stay() {
        let folder = tempfile::tempdir().unwrap();
        let kept = CodeFolder::at(folder.path());
        let others = ["notes.txt", ".tmpabc", "ABC", "compiling.lock", ".tmp-x"];
        let long = format!("{}.tar.gz", key(3));
        for name in others.into_iter().chain([long.as_str()]) {
            fs::write(folder.path().join(name), vec![1; 64]).unwrap();
            File::open(folder.path().join(name)).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            assert!(!is_ours(name), "{name}");
        }
        fs::write(folder.path().join(".tmp-7"), "old").unwrap();
        let left = File::open(folder.path().join(".tmp-7")).unwrap();
        left.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        for number in 0..u64::try_from(CACHED_FILES_MAX).unwrap() + 8 {
            kept.folder.as_ref().unwrap().write(&key(number).to_string(), &[b"x"]).unwrap();
        }
        kept.put(key(0), b"library").unwrap();
        for name in others.into_iter().chain([long.as_str()]) {
            assert!(folder.path().join(name).exists(), "{name}");
        }
        assert!(!folder.path().join(".tmp-7").exists());
        assert_eq!(kept.folder.as_ref().unwrap().files(is_ours).unwrap().len(), CACHED_FILES_MAX);
    }

    #[test]
    fn only_what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let kept = CodeFolder::at(folder.path());
        kept.put(key(1), b"some bytes").unwrap();
        let content = |number| {
            kept.folder
                .as_ref()
                .unwrap()
                .read(&key(number).to_string())
                .ok()
                .and_then(|file| read(&file, key(number)))
        };
        assert_eq!(content(1).unwrap(), b"some bytes");
        // It is not a library.
        assert!(kept.get(key(1)).is_none() && !kept.has(key(1)));
        kept.put(key(1), b"some bytes").unwrap();
        fs::copy(path(&kept, key(1)), path(&kept, key(2))).unwrap();
        assert_eq!(content(2), None, "under another key");
        let mut bytes = fs::read(path(&kept, key(1))).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path(&kept, key(1)), &bytes).unwrap();
        assert_eq!(content(1), None, "damaged");
        fs::write(path(&kept, key(1)), &bytes[..10]).unwrap();
        assert_eq!(content(1), None, "cut off");
        fs::set_permissions(path(&kept, key(2)), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(content(2), None, "anybody's");
        fs::remove_file(path(&kept, key(2))).unwrap();
        std::os::unix::fs::symlink(path(&kept, key(1)), path(&kept, key(2))).unwrap();
        assert!(kept.folder.as_ref().unwrap().read(&key(2).to_string()).is_err(), "a link");
    }

    #[test]
    fn folders_of_others_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(CodeFolder::at(folder.path()).path().is_none());
        assert!(CodeFolder::at(Path::new("/dev/null/antares")).path().is_none());
        assert!(CodeFolder::at(Path::new("/proc/antares")).path().is_none());
    }

    #[test]
    fn what_is_left_is_counted_until_a_run_goes_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let kept = CodeFolder::at(folder.path());
        let files = || fs::read_dir(kept.path().unwrap()).unwrap().count();
        kept.record_run(key(1), NativeEnd::Unknown);
        assert_eq!((kept.begins_interpreted(key(1)), files()), (false, 0));
        for _ in 0..EARLY_RUNS_MIN {
            assert!(!kept.begins_interpreted(key(1)));
            kept.record_run(key(1), NativeEnd::Left);
        }
        let tried = (0..2 * EARLY_TRY_ONE_IN).filter(|_| !kept.begins_interpreted(key(1)));
        assert_eq!((tried.count(), files()), (2, 1));
        assert!(!kept.begins_interpreted(key(2)), "another library");
        kept.record_run(key(1), NativeEnd::Whole);
        assert_eq!((kept.begins_interpreted(key(1)), files()), (false, 1));
    }

    #[test]
    fn one_at_a_time_compiles_behind() {
        let folder = tempfile::tempdir().unwrap();
        let kept = CodeFolder::at(folder.path());
        let turn = kept.turn().unwrap();
        assert!(kept.turn().is_none());
        drop(turn);
        assert!(kept.turn().is_some());
        assert!(!kept.is_marked(key(1)));
        kept.mark(key(1));
        assert!(kept.is_marked(key(1)));
    }
}
