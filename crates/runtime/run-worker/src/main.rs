//! The sandboxed worker around the machine, without LLVM and async code.
//!
//! A child is forked with a machine that its zygote mapped. It reads the script and loads the library in the
//! load stage, and enters the run stage, which permits hardly any system calls. Only then does it execute the
//! first guest instruction. With the same script and library it can do more jobs, each from wiped memory.
#![allow(unsafe_code, reason = "shared memory and the machine")]

mod batch;
mod explain;
mod profile;
mod verify;
mod wiping;

use std::{collections::hash_map::RandomState, os::fd::AsFd, sync::Arc};

use antares_abi::CompileOptions;
use antares_pool::{
    Files, ParentLink, REPORT_BYTES_MAX, Worker, describe, is_hosted,
    job::{
        DEBUG_BYTES_LEAST, RunJob, RunReport, RunWorkerJob, RunWorkerReport, Tier, VerifyJob, VerifyReport,
    },
    serve, serve_hosted,
};
use antares_sandbox::{Confinement, Policy, SandboxError};
use antares_verifier::serve_job;
use antares_vm::{
    Library, Limits, Machine, RunScript, Sampling, cache_cells, limits::RUN_HEAP_BYTES, reserve_heap,
};
use anyhow::Result;
use bytes::Bytes;

/// Heap bytes per byte of debug output, for its lines and for the report's frame.
const HEAP_PER_DEBUG_BYTE: usize = 4;
/// Fixed heap for debug output: 65,536 lines with their headers, and the growth of the list.
const DEBUG_HEAP_BYTES: usize = 16 << 20;

fn main() -> Result<()> {
    if is_hosted() {
        // The parent hosts a single script, over two pipes.
        return Ok(serve_hosted(|job, pipes| {
            serve_job(job, Arc::new(ParentLink(pipes)));
            Ok(())
        })?);
    }
    Ok(serve(RunWorker::prepare)?)
}

struct RunWorker {
    machine: Machine,
    load: Confinement,
    run: Confinement,
    /// The script, once loaded.
    loaded: Option<Loaded>,
    /// The loaded resources of a verification.
    verifier: Option<verify::Loaded>,
}

impl RunWorker {
    fn prepare() -> Result<Self, String> {
        let confinement = |policy| Confinement::new(policy).map_err(|error| error.to_string());
        if !reserve_heap(RUN_HEAP_BYTES + DEBUG_HEAP_BYTES) {
            return Err("cannot reserve heap".to_owned());
        }
        cache_cells();
        let machine = Machine::new().map_err(|error| error.to_string())?;
        let (load, run) = (confinement(Policy::run_load())?, confinement(Policy::run())?);
        Ok(Self { machine, load, run, loaded: None, verifier: None })
    }
}

impl Worker for RunWorker {
    type Job = RunWorkerJob;
    type Report = RunWorkerReport;

    const KEEPS_SPARE: bool = true;

    fn confinement(&self, _job: &RunWorkerJob) -> Result<Confinement, SandboxError> {
        // Seeds of hash tables: each worker draws its own, and cannot request them in the run stage.
        drop(RandomState::new());
        Ok(self.load.clone())
    }

    fn work(&mut self, job: RunWorkerJob, files: &Files) -> Result<RunWorkerReport, String> {
        match job {
            RunWorkerJob::Run(job) => self.run(job, files).map(RunWorkerReport::Run),
            RunWorkerJob::Verify(job) => self.verify(&job, files).map(RunWorkerReport::Verify),
            RunWorkerJob::Batch(job) => self.batch(job, files).map(RunWorkerReport::Batch),
            RunWorkerJob::Profile(job) => self.profile(job, files).map(RunWorkerReport::Profile),
            RunWorkerJob::Diagnose(job) => self.diagnose(job, files).map(RunWorkerReport::Diagnose),
        }
    }

    fn stays(&self) -> bool {
        self.loaded.is_some() || self.verifier.as_ref().is_some_and(|verifier| verifier.stays)
    }

    fn idle(&mut self) {
        self.machine.clear();
        if self.verifier.is_some() {
            wiping::wipe_stack();
        }
    }
}

impl RunWorker {
    fn verify(&mut self, job: &VerifyJob, files: &Files) -> Result<VerifyReport, String> {
        let loaded = match self.verifier.take() {
            Some(loaded) => loaded,
            None => {
                let loaded = verify::load(job, files)?;
                // SAFETY: the run stage closes no descriptor.
                unsafe { self.run.lock_in(files.zygote()) }.map_err(|error| describe(&error))?;
                loaded
            }
        };
        verify::verify(job, self.verifier.insert(loaded))
    }

    fn run(&mut self, job: RunJob, files: &Files) -> Result<RunReport, String> {
        let args: Vec<Bytes> = job.args.into_iter().map(Bytes::from).collect();
        self.load(job.debug_bytes_max, files)?;
        let limits = limits(job.cycles_max, job.debug_bytes_max);
        let sampling = (job.sample_cycles, job.sample_salt);
        self.run_loaded(job.options, &args, limits, (job.tier, sampling))
    }

    /// Reads the ELF, loads the library, reserves memory for a run, and enters the run stage, unless already
    /// done.
    fn load(&mut self, debug_bytes_max: u64, files: &Files) -> Result<(), String> {
        let debug_bytes_max = debug_bytes_max.max(DEBUG_BYTES_LEAST);
        if let Some(loaded) = &self.loaded {
            // The supervisor never sends such a job.
            let fits = debug_bytes_max <= loaded.debug_bytes_max;
            return if fits { Ok(()) } else { Err("no memory for so much debug output".to_owned()) };
        }
        let elf = Bytes::from(files.elf().map_err(|error| format!("cannot read the ELF: {error}"))?);
        // The supervisor verified the library's digest and shape after sealing it: these are the same bytes.
        let library = files.extras().next().map(|file| Library::load(file.as_fd())?.with_frames(file));
        let library = library.transpose();
        let library = library.map_err(|error| describe(&error))?;
        let debug_bytes = usize::try_from(debug_bytes_max).unwrap_or(usize::MAX).min(REPORT_BYTES_MAX);
        if !reserve_heap(RUN_HEAP_BYTES + DEBUG_HEAP_BYTES + HEAP_PER_DEBUG_BYTE * debug_bytes) {
            return Err("cannot reserve heap".to_owned());
        }
        // SAFETY: the run stage closes no descriptor.
        unsafe { self.run.lock_in(files.zygote()) }.map_err(|error| describe(&error))?;
        self.loaded = Some(Loaded { elf, library, debug_bytes_max });
        Ok(())
    }

    fn run_loaded(
        &mut self,
        options: CompileOptions,
        args: &[Bytes],
        limits: Limits,
        (tier, (sample_cycles, salt)): (Tier, (u64, u64)),
    ) -> Result<RunReport, String> {
        let loaded = self.loaded.as_ref().ok_or("no script is loaded")?;
        let script = RunScript { elf: &loaded.elf, args, vm_version: options.vm_version, isa: options.isa.0 };
        let how = (tier, loaded.library.as_ref());
        if sample_cycles == 0 || tier == Tier::Interpreter {
            return self.machine.run(&script, &limits, how.0, how.1).map_err(|error| describe(&error));
        }
        let sampling = Sampling { period: sample_cycles, seed: profile::seed(args, salt) };
        let (report, recording) =
            self.machine.run_sampled(&script, &limits, how, sampling).map_err(|error| describe(&error))?;
        let samples = profile::samples_of_run(&recording, report.cycles);
        Ok(RunReport { samples, ..report })
    }
}

/// A loaded script.
struct Loaded {
    elf: Bytes,
    library: Option<Library>,
    /// Maximum bytes of debug output that the heap is sized for.
    debug_bytes_max: u64,
}

fn limits(cycles_max: u64, debug_bytes_max: u64) -> Limits {
    Limits { cycles_max, debug_bytes_max }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::{
        fs::File,
        hash::BuildHasher,
        io::{Read, Write},
    };

    use antares_sandbox::{Fork, exit_now, fork};

    use super::*;

    /// A hash with the seeds of a child of this process.
    fn hash_in_child() -> u64 {
        let (reader, mut writer) = std::io::pipe().unwrap();
        // SAFETY: the child allocates no memory and takes no lock.
        if let Fork::Child = unsafe { fork() }.unwrap() {
            let hash = RandomState::new().hash_one(7_u64);
            exit_now(i32::from(writer.write_all(&hash.to_ne_bytes()).is_err()));
        }
        drop(writer);
        let mut hash = [0; 8];
        File::from(std::os::fd::OwnedFd::from(reader)).read_exact(&mut hash).unwrap();
        u64::from_ne_bytes(hash)
    }

    #[test]
    fn a_zygote_draws_no_seeds_that_its_workers_would_share() {
        let worker = RunWorker::prepare().unwrap();
        assert_ne!(hash_in_child(), hash_in_child());
        // This confirms that the test detects shared seeds.
        worker.confinement(&RunWorkerJob::Verify(VerifyJob::default())).unwrap();
        assert_eq!(hash_in_child(), hash_in_child());
    }
}
