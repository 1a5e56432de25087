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

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Hints, Sha256Digest};
use antares_pool::{Cancel, Sealed, job::Stage};
use serde::{Deserialize, Serialize};

use crate::{
    failure::Failure,
    local::code_cache::CodeFolder,
    local::workers::{self, Compiled},
};

/// A script to compile fully for the next run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Wanted<'a> {
    pub(crate) elf: &'a [u8],
    #[serde(skip)]
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
    let Ok(jobs) = postcard::to_stdvec(&wanted) else { return };
    let jobs = Sealed::new("jobs", &jobs).and_then(|jobs| jobs.as_fd().try_clone_to_owned());
    // This may be ckb-debugger, which is in the same folder.
    let antares = env::current_exe().map(|this| this.with_file_name("antares"));
    let (Ok(jobs), Ok(antares), Some(folder)) = (jobs, antares, kept.path()) else { return };
    let mut command = Command::new(antares);
    command.arg(crate::args::code::COMMAND).arg(folder).current_dir("/");
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
    let kept = CodeFolder::at(folder);
    let Some(_turn) = kept.turn() else { return Ok(()) };
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(ours)?);
    let mut jobs = Vec::new();
    input.rewind().and_then(|()| input.read_to_end(&mut jobs)).map_err(ours)?;
    let pool = workers::start("antares-compile-worker")?;
    let mut all: Vec<Wanted<'_>> = postcard::from_bytes(&jobs).unwrap_or_default();
    all.iter_mut().for_each(|wanted| wanted.digest = Sha256Digest::of(wanted.elf));
    for wanted in all.iter().filter(|wanted| !is_settled(&kept, wanted)) {
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
