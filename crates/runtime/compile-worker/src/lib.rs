//! The sandboxed worker around the compiler.
//!
//! LLVM and lld run inside the sandbox: if they crash, only the child is lost, not its zygote and the
//! service.

use std::{os::unix::fs::FileExt, time::Instant};

use antares_abi::{CompileOptions, Hints, Isa, LLVM_VERSION, Sha256Digest, parts_of};
use antares_compiler::{CompileError, Output, Request};
use antares_pool::{
    Files, OUTPUT_BYTES_MAX, Worker, ZygoteError, cut_text,
    job::{CompileJob, CompileLimits, CompileReport, CompileSummary, CompileTask, Stage},
    serve,
};
use antares_sandbox::{Confinement, Policy, SandboxError, compile_file_bytes_max};

pub mod sample;

/// The compile function: [`antares_compiler::compile`], or a faulty one in tests.
pub type Compile = fn(&[u8], &Request) -> Result<Output, CompileError>;

/// Serves the supervisor until it disconnects, and compiles with `compile`.
///
/// # Errors
/// As [`serve`].
pub fn work_by(compile: Compile) -> Result<(), ZygoteError> {
    serve(|| CompileWorker::prepare(compile))
}

struct CompileWorker {
    compile: Compile,
}

impl CompileWorker {
    /// Compiles a script of two instructions, so that children inherit an initialized LLVM and lld. If this
    /// fails, every other compile would fail, too.
    fn prepare(compile: Compile) -> Result<Self, String> {
        expect_llvm(&antares_compiler::llvm_version())?;
        let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
        let (hints, limits) = (Hints::default(), CompileLimits::default());
        let request = Request { options, stage: Stage::Library, hints, limits };
        compile(&sample::elf(), &request).map_err(|error| error.to_string())?;
        Ok(Self { compile })
    }
}

impl Worker for CompileWorker {
    type Job = CompileJob;
    type Report = CompileReport;

    fn confinement(&self, job: &CompileJob) -> Result<Confinement, SandboxError> {
        let cpu_seconds_max = job.limits.wall_ms_max.div_ceil(1000);
        Confinement::new(Policy::compile(job.limits.memory_bytes_max, cpu_seconds_max, files_of(job.task)))
    }

    fn work(&mut self, job: CompileJob, files: &Files) -> Result<CompileReport, String> {
        let started = Instant::now();
        let elf = files.elf().map_err(|error| format!("cannot read the ELF: {error}"))?;
        let CompileJob { options, task, hints, limits } = job;
        let made = match task {
            CompileTask::Link => link(&elf),
            CompileTask::Check => check(&elf),
            CompileTask::Compile(stage) => (self.compile)(&elf, &Request { options, stage, hints, limits }),
        };
        let output = match made {
            Ok(output) => output,
            Err(CompileError::Refused { reason, detail }) => {
                return Ok(CompileReport::Refused { reason: reason.to_owned(), detail: cut_text(detail) });
            }
            Err(CompileError::Failed { detail }) => {
                return Ok(CompileReport::Failed { detail: cut_text(detail) });
            }
        };
        let output_bytes_max =
            compile_file_bytes_max(limits.memory_bytes_max, files_of(task)).min(OUTPUT_BYTES_MAX);
        let file = files.extras().next().ok_or("there is no output file")?;
        let output_bytes = u64::try_from(output.bytes.len()).map_err(|error| error.to_string())?;
        if output_bytes > output_bytes_max {
            let detail = format!("{output_bytes} bytes of output, over the limit of {output_bytes_max}");
            return Ok(CompileReport::Failed { detail });
        }
        file.write_all_at(&output.bytes, 0).map_err(|error| format!("cannot write the output: {error}"))?;
        Ok(CompileReport::Done(summary(&output, output_bytes, started)))
    }
}

/// A different LLVM may generate other bytes, under a cache key that claims they are equal.
fn expect_llvm(found: &str) -> Result<(), String> {
    match found {
        LLVM_VERSION => Ok(()),
        _ => Err(format!(
            "built with LLVM {LLVM_VERSION}, but {found} is loaded: build again, or install that one"
        )),
    }
}

/// Number of memory files that a task creates for the linker: one for each part.
fn files_of(task: CompileTask) -> u64 {
    match task {
        CompileTask::Compile(Stage::Library) | CompileTask::Link => u64::from(parts_of(u64::MAX)),
        _ => 0,
    }
}

/// Checks the machine code of a library that another child generated.
fn check(library: &[u8]) -> Result<Output, CompileError> {
    match antares_codecheck::check(library) {
        Ok(_) => Ok(Output::of_bytes(Vec::new())),
        Err(error) => Err(CompileError::Refused { reason: "code", detail: error.to_string() }),
    }
}

/// Links parts, each prefixed with its length.
fn link(mut blob: &[u8]) -> Result<Output, CompileError> {
    let cut_short = || CompileError::Failed { detail: "the parts to link are cut short".to_owned() };
    let mut parts = Vec::new();
    while let Some((length, rest)) = blob.split_first_chunk() {
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (part, rest) = rest.split_at_checked(length).ok_or_else(cut_short)?;
        parts.push(part.to_vec());
        blob = rest;
    }
    Ok(Output::of_bytes(antares_compiler::link(&parts)?))
}

fn summary(output: &Output, output_bytes: u64, started: Instant) -> CompileSummary {
    CompileSummary {
        sha256: Sha256Digest::of(&output.bytes),
        output_bytes,
        guest_code_bytes: output.guest_code_bytes,
        functions: output.functions,
        blocks: output.blocks,
        unproved_functions: output.unproved_functions,
        refused_orders: output.refused_orders,
        compile_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_llvm_than_the_one_of_the_keys_is_refused() {
        assert_eq!(expect_llvm(&antares_compiler::llvm_version()), Ok(()));
        assert!(expect_llvm("22.1.7").unwrap_err().contains("22.1.7"));
    }
}
