//! The background compile of full code, and of missing baseline code, after a command. A separate process at
//! the lowest priority outlives the command, one at a time for each cache. It only writes to the cache. The
//! next command requests whatever this process does not finish.

use std::{
    env,
    fs::File,
    io::{self, Read as _, Seek as _},
    os::fd::AsFd as _,
    path::Path,
    process::{Command, Stdio},
};

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Hints, Isa, Sha256Digest};
use antares_pool::{Cancel, Sealed, job::Stage};

use crate::{
    failure::Failure,
    local::code_cache::CodeFolder,
    local::workers::{self, Compiled},
};

/// Version of the VM, instruction set, length of the ELF that follows, and length of the hints after it.
const HEAD_BYTES: usize = 4 + 1 + 8 + 4;

/// A script to compile fully for the next run.
pub(crate) struct Wanted<'a> {
    pub(crate) elf: &'a [u8],
    pub(crate) digest: Sha256Digest,
    pub(crate) options: CompileOptions,
    pub(crate) hints: Hints,
}

impl Wanted<'_> {
    fn key(&self, tier: CodeTier) -> ArtifactKey {
        let key = Sha256Digest::for_artifact(self.digest, self.options, tier);
        key.with_hints(self.hints.digest())
    }
}

/// Starts a full compile of `wanted`, unless one is in progress. Failure is harmless.
pub(crate) fn start(kept: &CodeFolder, wanted: &[Wanted<'_>]) {
    let wanted: Vec<_> = wanted.iter().filter(|wanted| !is_settled(kept, wanted)).collect();
    if wanted.is_empty() || kept.turn().is_none() {
        return;
    }
    let mut jobs = Vec::new();
    for Wanted { elf, options, hints, .. } in wanted {
        let hints = hints.to_bytes();
        jobs.extend(options.vm_version.to_le_bytes());
        jobs.push(options.isa.0);
        jobs.extend((elf.len() as u64).to_le_bytes());
        jobs.extend(u32::try_from(hints.len()).unwrap_or(0).to_le_bytes());
        jobs.extend(*elf);
        jobs.extend(hints);
    }
    let jobs = Sealed::new("jobs", &jobs).and_then(|jobs| jobs.as_fd().try_clone_to_owned());
    // This may be ckb-debugger, which is in the same folder.
    let antares = env::current_exe().map(|this| this.with_file_name("antares"));
    let (Ok(jobs), Ok(antares)) = (jobs, antares) else { return };
    let mut command = Command::new(antares);
    command.arg(crate::args::code::COMMAND).arg(kept.folder()).current_dir("/");
    command.stdin(Stdio::from(jobs)).stdout(Stdio::null()).stderr(Stdio::null());
    // Nothing waits for it: it outlives this command in its own session.
    drop(command.spawn());
}

fn is_settled(kept: &CodeFolder, wanted: &Wanted<'_>) -> bool {
    let key = wanted.key(CodeTier::Full);
    kept.has(key) || kept.is_marked(key)
}

/// Runs in that process.
pub(crate) fn compile(folder: &Path) -> Result<(), Failure> {
    let ours = |error: io::Error| Failure::Service(error.into());
    // The end of the terminal must not end this process. Both calls fail only if already done.
    let _ = rustix::process::setsid();
    let _ = rustix::process::nice(19);
    let Some(kept) = CodeFolder::at(folder) else { return Ok(()) };
    let Some(_turn) = kept.turn() else { return Ok(()) };
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(ours)?);
    let mut jobs = Vec::new();
    input.rewind().and_then(|()| input.read_to_end(&mut jobs)).map_err(ours)?;
    let pool = workers::start("antares-compile-worker")?;
    for wanted in decode(&jobs).iter().filter(|wanted| !is_settled(&kept, wanted)) {
        let elf = workers::seal(wanted.elf)?;
        let key = wanted.key(CodeTier::Full);
        let source = (wanted.options, &wanted.hints);
        let compile = |stage| workers::compile_in(&pool, &elf, source, stage, &Cancel::new());
        let put = |key, compiled: Compiled| {
            compiled.output.read().and_then(|library| kept.put(key, &library)).map_err(ours)
        };
        let baseline = wanted.key(CodeTier::Baseline);
        if !kept.has(baseline)
            && let Ok(compiled) = compile(Stage::Baseline)
        {
            put(baseline, compiled)?;
        }
        match compile(Stage::Library) {
            Ok(compiled) => put(key, compiled)?,
            Err(_) => kept.mark(key),
        }
    }
    Ok(())
}

fn decode(mut jobs: &[u8]) -> Vec<Wanted<'_>> {
    let mut wanted = Vec::new();
    while let Some((head, rest)) = jobs.split_first_chunk::<HEAD_BYTES>() {
        let ([vm_version @ .., isa], lengths) = head.split_at(5) else { break };
        let (length_of_elf, hints) = lengths.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let length = |bytes| usize::try_from(number(bytes)).unwrap_or(usize::MAX);
        let Some((elf, behind)) = rest.split_at_checked(length(length_of_elf)) else { break };
        let Some((hints, behind)) = behind.split_at_checked(length(hints)) else { break };
        let vm_version = u32::try_from(number(vm_version)).unwrap_or(u32::MAX);
        let options = CompileOptions { vm_version, isa: Isa(*isa) };
        wanted.push(Wanted { elf, digest: Sha256Digest::of(elf), options, hints: Hints::from_bytes(hints) });
        jobs = behind;
    }
    wanted
}
