//! The engine: makes scripts, and caches them for transactions that use them.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_abi::{CodeTier, CompileOptions, Isa, Sha256Digest};
use antares_pool::{Sealed, verify_library};
use antares_trust::Facts;
use antares_vm::{Library, Program};
use bytes::Bytes;

use crate::{Error, Script, SignedArtifact, TrustedKeys, error::chain};

/// Maximum scripts with native code that an engine caches for [`Verifier`](crate::Verifier).
const CACHED_MAX: usize = 4096;

/// Version of the VM's rules. It determines instructions, cycles and the layout of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VmVersion {
    /// RV64IMC.
    V0,
    /// RV64IMC with B and fused operations.
    V1,
    /// The latest version: adds spawn.
    #[default]
    V2,
}

impl VmVersion {
    pub(crate) fn options(self) -> CompileOptions {
        let vm_version = self as u32;
        CompileOptions { vm_version, isa: Isa::of_version(vm_version) }
    }
}

/// A cheap key that distinguishes most scripts: length, VM version and ISA.
type Key = (usize, u32, u8);

/// Native code by the bytes of scripts. Transactions request the same scripts repeatedly, and hashing them
/// would take longer than running them.
#[derive(Default)]
struct Cached {
    count: usize,
    by_key: HashMap<Key, Vec<Arc<Program>>>,
    /// Scripts that cannot be compiled; their bytes are not cached.
    refused: HashSet<(Sha256Digest, u32, u8)>,
}

impl Cached {
    fn get(&self, elf: &Bytes, options: CompileOptions) -> Option<&Arc<Program>> {
        let mut same = self.by_key.get(&(elf.len(), options.vm_version, options.isa.0))?.iter();
        same.find(|program| is_same(program.elf(), elf))
    }

    fn insert(&mut self, options: CompileOptions, program: Arc<Program>) {
        if self.count >= CACHED_MAX {
            (self.by_key, self.count) = Default::default();
        }
        let key = (program.elf().len(), options.vm_version, options.isa.0);
        let same = self.by_key.entry(key).or_default();
        let before = same.len();
        same.retain(|known| !is_same(known.elf(), program.elf()));
        same.push(program);
        self.count += same.len() - before;
    }

    fn refuse(&mut self, key: (Sha256Digest, u32, u8)) {
        if self.refused.len() >= CACHED_MAX {
            self.refused.clear();
        }
        self.refused.insert(key);
    }
}

/// Whether the bytes, of equal length, are equal. Cached bytes never change, so equal addresses imply equal
/// bytes.
fn is_same(known: &Bytes, elf: &Bytes) -> bool {
    known.as_ptr() == elf.as_ptr() || known == elf
}

/// Makes scripts, and caches their native code for transactions that use them. Cheap to clone; clones share
/// the cache.
#[derive(Clone, Default)]
pub struct Engine {
    cached: Arc<Mutex<Cached>>,
    compiles_on_use: bool,
}

impl Engine {
    /// An engine with an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An engine that compiles each program of a transaction on first use with the baseline generator, which
    /// takes milliseconds. Programs that cannot be compiled are interpreted.
    #[cfg(feature = "compile")]
    #[must_use]
    pub fn compiling_on_use() -> Self {
        Self { compiles_on_use: true, ..Self::default() }
    }

    /// An interpreted script. The ELF is not validated before it runs: an invalid ELF is an outcome.
    #[must_use]
    pub fn script(&self, elf: impl Into<Bytes>, version: VmVersion) -> Script {
        let elf = elf.into();
        let digest = Sha256Digest::of(&elf);
        let options = version.options();
        Script { elf, digest, options, program: None, library: None, sealed: Arc::default() }
    }

    /// Compiles a script with LLVM, on the calling thread: some tenths of a second for 100 KB of code, more
    /// for large scripts.
    ///
    /// # Errors
    /// [`Error::Refused`] for an ELF that is malformed or exceeds a limit, [`Error::Compiler`] for an
    /// internal error.
    #[cfg(feature = "compile")]
    pub fn compile(&self, elf: impl Into<Bytes>, version: VmVersion) -> Result<Script, Error> {
        self.compile_at(elf.into(), version, antares_compiler::Stage::Library)
    }

    /// Compiles a script with the baseline generator, in milliseconds; the code is about three times slower.
    ///
    /// # Errors
    /// As [`Engine::compile`].
    #[cfg(feature = "compile")]
    pub fn compile_quickly(&self, elf: impl Into<Bytes>, version: VmVersion) -> Result<Script, Error> {
        self.compile_at(elf.into(), version, antares_compiler::Stage::Baseline)
    }

    #[cfg(feature = "compile")]
    fn compile_at(
        &self,
        elf: Bytes,
        version: VmVersion,
        stage: antares_compiler::Stage,
    ) -> Result<Script, Error> {
        let request = antares_compiler::Request {
            options: version.options(),
            stage,
            hints: antares_abi::Hints::default(),
            limits: antares_compiler::CompileLimits::default(),
        };
        let output = antares_compiler::compile(&elf, &request).map_err(|error| match error {
            antares_compiler::CompileError::Refused { reason, detail } => Error::Refused { reason, detail },
            antares_compiler::CompileError::Failed { detail } => Error::Compiler(detail),
        })?;
        let library = load(&output.bytes).map_err(Error::Compiler)?;
        self.keep(self.script(elf, version), library)
    }

    /// A script with native code that was compiled elsewhere. One of `keys` must have signed it for this ELF,
    /// version, engine and processor, and it must contain only code that our generators emit.
    ///
    /// # Errors
    /// [`Error::Artifact`], with the first reason for the refusal.
    pub fn load(
        &self,
        elf: impl Into<Bytes>,
        version: VmVersion,
        artifact: &SignedArtifact,
        keys: &TrustedKeys,
    ) -> Result<Script, Error> {
        let script = self.script(elf, version);
        let digest = Sha256Digest::of(&artifact.library);
        let refusals = [CodeTier::Full, CodeTier::Baseline].map(|tier| {
            let key = Sha256Digest::for_artifact(script.digest, script.options, tier);
            let facts = Facts { key, script: script.digest, digest, length: artifact.library.len() as u64 };
            keys.keyring.verify(&artifact.manifest, &facts).err()
        });
        if let [Some(refusal), Some(_)] = refusals {
            return Err(Error::Artifact(chain(&refusal)));
        }
        let library = load(&artifact.library).map_err(Error::Artifact)?;
        self.keep(script, library)
    }

    /// Caches the native code of `script`. An ELF that ckb-vm does not load has none: its outcome is ckb-vm's
    /// error.
    fn keep(&self, mut script: Script, Loaded { library, sealed }: Loaded) -> Result<Script, Error> {
        let Ok(program) = Program::new(script.elf.clone(), library) else { return Ok(script) };
        let program = Arc::new(program);
        self.cached().insert(script.options, program.clone());
        (script.program, script.library) = (Some(program), Some(Arc::new(sealed)));
        Ok(script)
    }

    /// Native code of a script, from the cache or compiled now.
    #[cfg(feature = "ckb")]
    pub(crate) fn find(&self, elf: &Bytes, vm_version: u32, isa: u8) -> Option<Arc<Program>> {
        let options = CompileOptions { vm_version, isa: Isa(isa) };
        let known = self.cached().get(elf, options).cloned();
        if known.is_some() || !self.compiles_on_use {
            return known;
        }
        let key = (Sha256Digest::of(elf), vm_version, isa);
        if self.cached().refused.contains(&key) {
            return None;
        }
        let made = self.make(elf, vm_version);
        if made.is_none() {
            self.cached().refuse(key);
        }
        made
    }

    #[cfg(all(feature = "ckb", feature = "compile"))]
    fn make(&self, elf: &Bytes, vm_version: u32) -> Option<Arc<Program>> {
        let mut versions = [VmVersion::V0, VmVersion::V1, VmVersion::V2].into_iter();
        let version = versions.find(|version| version.options().vm_version == vm_version)?;
        self.compile_quickly(elf.clone(), version).ok()?.program
    }

    #[cfg(all(feature = "ckb", not(feature = "compile")))]
    fn make(&self, _: &Bytes, _: u32) -> Option<Arc<Program>> {
        None
    }

    fn cached(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("native_scripts", &self.cached().count).finish()
    }
}

/// Native code, and the file that it was loaded from.
struct Loaded {
    library: Library,
    sealed: Sealed,
}

/// Loads a shared object whose structure and code our generators could have emitted.
fn load(bytes: &[u8]) -> Result<Loaded, String> {
    let sealed = Sealed::new("antares-library", bytes).map_err(|error| chain(&error))?;
    verify_library(&sealed, Sha256Digest::of(bytes)).map_err(|error| chain(&error))?;
    antares_codecheck::check(bytes).map_err(|error| chain(&error))?;
    let library = Library::load(std::os::fd::AsFd::as_fd(&sealed)).map_err(|error| chain(&error))?;
    Ok(Loaded { library, sealed })
}
