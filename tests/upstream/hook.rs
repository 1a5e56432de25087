//! Hook for the patched scheduler of ckb-script: sessions that compile native code when a program is first
//! seen.
//!
//! Environment: `ANTARES_TIER` (auto, native, interpreter), `ANTARES_LIBRARIES` (folder of compiled
//! libraries, for this compiler only), `ANTARES_COUNTS` (file that gets a line for each completed script).

use std::{
    collections::HashMap,
    env, fs,
    io::Write,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use antares_abi::{CodeTier, CompileOptions, Isa, Sha256Digest};
use antares_compiler::{CompileError, CompileLimits, Request, Stage};
use antares_vm::{Library, Program, Tier};
use bytes::Bytes;

pub use antares_vm::{NativeMachine, MachineSession};

/// Programs by artifact key; `None` if the compiler refuses.
static PROGRAMS: LazyLock<Mutex<HashMap<Sha256Digest, Option<Arc<Program>>>>> = LazyLock::new(Mutex::default);
static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// A session for one script group.
///
/// # Panics
///
/// The environment is not set, or the compiler fails.
pub fn session() -> Arc<MachineSession> {
    let tier = match setting("ANTARES_TIER").as_str() {
        "auto" => Tier::Auto,
        "native" => Tier::Native,
        "interpreter" => Tier::Interpreter,
        other => panic!("ANTARES_TIER={other}"),
    };
    if tier == Tier::Interpreter {
        return MachineSession::new(tier, Vec::new());
    }
    MachineSession::with_finder(tier, Box::new(find))
}

/// Records the tier of each run.
///
/// # Panics
///
/// The file cannot be written.
pub fn report(session: &MachineSession) {
    let counts = session.take_counts();
    let left = counts.restarted.map_or("-", |reason| reason.name());
    // The test harness names its threads after the tests.
    let thread = thread::current();
    let test = thread.name().unwrap_or("-");
    let line = format!("{} {} {left} {test}\n", counts.native_cycles, counts.interpreted_cycles);
    let file = fs::OpenOptions::new().append(true).create(true).open(setting("ANTARES_COUNTS"));
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file of counts");
}

fn setting(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn find(elf: &Bytes, vm_version: u32, isa: u8) -> Option<Arc<Program>> {
    let options = CompileOptions { vm_version, isa: Isa(isa) };
    let key = Sha256Digest::for_artifact(Sha256Digest::of(elf), options, CodeTier::Full);
    let mut programs = PROGRAMS.lock().expect("no compile panicked");
    let make = || {
        let file = fs::File::open(library(elf, options, &key)?).expect("a library's file");
        let library = Library::load(file.as_fd()).expect("a library");
        Some(Arc::new(Program::new(elf.clone(), library).expect("what the compiler read, ckb-vm reads")))
    };
    programs.entry(key).or_insert_with(make).clone()
}

/// The compiled library's file, created if missing.
fn library(elf: &[u8], options: CompileOptions, key: &Sha256Digest) -> Option<PathBuf> {
    let folder = PathBuf::from(setting("ANTARES_LIBRARIES"));
    let path = folder.join(format!("{key}.so"));
    if path.exists() {
        return Some(path);
    }
    let request = Request { options, stage: Stage::Library, hints: antares_abi::Hints::default(), limits: CompileLimits::default() };
    match antares_compiler::compile(elf, &request) {
        Ok(output) => {
            keep(&folder, &path, &output.bytes);
            Some(path)
        }
        Err(CompileError::Refused { .. }) => None,
        Err(CompileError::Failed { detail }) => panic!("the compiler failed: {detail}"),
    }
}

/// Writes atomically: other processes may do the same.
fn keep(folder: &Path, path: &Path, bytes: &[u8]) {
    fs::create_dir_all(folder).expect("the folder of libraries");
    let number = TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!("{}-{number}.new", process::id()));
    fs::write(&temporary, bytes).expect("a library's file");
    fs::rename(&temporary, path).expect("a library's name");
}
