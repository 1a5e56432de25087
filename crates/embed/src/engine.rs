//! What makes scripts, and keeps them for transactions that use them.

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

/// Scripts with native code that an engine keeps for [`Verifier`](crate::Verifier).
const CACHED_MAX: usize = 4096;

/// Which rules a script is run by. It decides instructions, cycles and the layout of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VmVersion {
    /// RV64IMC.
    V0,
    /// With B and fused operations.
    V1,
    /// The newest: with spawn.
    #[default]
    V2,
}

impl VmVersion {
    pub(crate) fn options(self) -> CompileOptions {
        let vm_version = match self {
            Self::V0 => 0,
            Self::V1 => 1,
            Self::V2 => 2,
        };
        CompileOptions { vm_version, isa: Isa::of_version(vm_version) }
    }
}

/// What tells most scripts apart at no cost: length, VM version and ISA.
type Key = (usize, u32, u8);

/// Native code of scripts. They are told apart by their bytes: a transaction asks again and again for the
/// same ones, whose digests would take longer than their runs.
#[derive(Default)]
struct Cached {
    count: usize,
    by_key: HashMap<Key, Vec<Arc<Program>>>,
    /// What was asked for and cannot be compiled. Its bytes are not kept.
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

/// Whether these are the same bytes, of one length. What is kept stays what it is: at one address it is the
/// same.
fn is_same(known: &Bytes, elf: &Bytes) -> bool {
    known.as_ptr() == elf.as_ptr() || known == elf
}

/// Makes scripts, and keeps their native code for transactions that use them. Cheap to clone; clones are one
/// engine.
#[derive(Clone, Default)]
pub struct Engine {
    cached: Arc<Mutex<Cached>>,
    compiles_on_use: bool,
}

impl Engine {
    /// An engine that has nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An engine that makes native code of each program of a transaction when that is met for the first time,
    /// by the quick generator: milliseconds each. One that cannot be compiled is interpreted.
    #[cfg(feature = "compile")]
    #[must_use]
    pub fn compiling_on_use() -> Self {
        Self { compiles_on_use: true, ..Self::default() }
    }

    /// A script that is interpreted. Nothing of the ELF is looked at before it runs: what is wrong with it is
    /// an outcome.
    #[must_use]
    pub fn script(&self, elf: impl Into<Bytes>, version: VmVersion) -> Script {
        let elf = elf.into();
        let digest = Sha256Digest::of(&elf);
        let options = version.options();
        Script { elf, digest, options, program: None, library: None, sealed: Arc::default() }
    }

    /// Compiles a script by LLVM, on the calling thread: some tenths of a second for 100 KB of code, more for
    /// large ones.
    ///
    /// # Errors
    /// [`Error::Refused`] for an ELF that is malformed or beyond a limit, [`Error::Compiler`] when we fail.
    #[cfg(feature = "compile")]
    pub fn compile(&self, elf: impl Into<Bytes>, version: VmVersion) -> Result<Script, Error> {
        self.compile_at(elf.into(), version, antares_compiler::Stage::Library)
    }

    /// Compiles a script by the baseline generator: milliseconds, for code that is some three times slower.
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

    /// A script with native code that was compiled elsewhere. It is taken if one of `keys` signed it for this
    /// ELF, this version, this engine and this processor, and if it is nothing but code that our generators
    /// make.
    ///
    /// # Errors
    /// [`Error::Artifact`], with the first reason against it.
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

    /// Keeps the native code of `script`. An ELF that ckb-vm does not load has none: its outcome is ckb-vm's
    /// error.
    fn keep(&self, mut script: Script, Loaded { library, sealed }: Loaded) -> Result<Script, Error> {
        let Ok(program) = Program::new(script.elf.clone(), library) else { return Ok(script) };
        let program = Arc::new(program);
        self.cached().insert(script.options, program.clone());
        (script.program, script.library) = (Some(program), Some(Arc::new(sealed)));
        Ok(script)
    }

    /// Native code of a script that was compiled or loaded here, or is compiled now.
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

/// Loads a shared object whose structure and code are such as we make.
fn load(bytes: &[u8]) -> Result<Loaded, String> {
    let sealed = Sealed::new("antares-library", bytes).map_err(|error| chain(&error))?;
    verify_library(&sealed, Sha256Digest::of(bytes)).map_err(|error| chain(&error))?;
    antares_codecheck::check(bytes).map_err(|error| chain(&error))?;
    let library = Library::load(std::os::fd::AsFd::as_fd(&sealed)).map_err(|error| chain(&error))?;
    Ok(Loaded { library, sealed })
}
