//! Compiles and loads libraries in this process; the services do so in sandboxed children.

use std::{
    fs::{self, File},
    io::Write,
    os::fd::AsFd,
};

use antares_abi::{CodeTier, CompileOptions, Hints};
use antares_codegen::{Convention, Form, Part};
use antares_compiler::{CompileError, CompileLimits, Output, Request, Stage};
use antares_ir::{Module, Op};
use antares_vm::Library;
use anyhow::{Context, Result, anyhow};

use crate::crates::target_folder;

/// Compiles `elf` with the given generator and hints, and loads the library; the inner error is the reason of a
/// refusal.
///
/// # Errors
/// The compiler failed, or its library cannot be loaded.
pub fn compile_with(
    elf: &[u8],
    options: CompileOptions,
    tier: CodeTier,
    hints: &Hints,
) -> Result<Result<Library, String>> {
    Ok(match library_with(elf, options, tier, hints)? {
        Ok(bytes) => Ok(load(&bytes)?),
        Err(reason) => Err(reason),
    })
}

/// The bytes of a library; the inner error is the reason of a refusal.
///
/// # Errors
/// The compiler failed.
pub fn library_with(
    elf: &[u8],
    options: CompileOptions,
    tier: CodeTier,
    hints: &Hints,
) -> Result<Result<Vec<u8>, String>> {
    let stage = match tier {
        CodeTier::Baseline => Stage::Baseline,
        CodeTier::Full => Stage::Library,
    };
    let request = Request { hints: hints.clone(), ..request(options, stage) };
    match antares_compiler::compile(elf, &request) {
        Ok(output) => {
            none(output.unproved_functions, UNPROVED)?;
            none(output.refused_orders, DISORDERED)?;
            Ok(Ok(output.bytes))
        }
        Err(error) => refusal(error).map(Err),
    }
}

/// The reason of a refusal.
pub(crate) fn refusal(error: CompileError) -> Result<String> {
    match error {
        CompileError::Refused { reason, .. } => Ok(reason.to_owned()),
        CompileError::Failed { detail } => Err(anyhow!("the compiler failed: {detail}")),
    }
}

/// The full-tier library of `elf`, with most registers passed through the state. The compiler otherwise does
/// so only for programs whose functions pass many. The inner error is the reason of a refusal.
///
/// # Errors
/// The compiler failed, or its library cannot be loaded.
pub fn compile_through_state(elf: &[u8], options: CompileOptions) -> Result<Result<Library, String>> {
    let module = match lift(elf, options) {
        Ok(module) => module,
        Err(error) => return refusal(error).map(Err),
    };
    let code = antares_codegen::compile(&module, Convention::Arguments, Part::WHOLE, Form::Object)?;
    none(code.refused_orders, DISORDERED)?;
    Ok(Ok(load(&antares_codegen::link(&[code.bytes])?)?))
}

const UNPROVED: &str = "functions, whose optimized form the verifier refused";
const DISORDERED: &str = "blocks, whose order by the scheduler does something else";

/// Fails if the verifier refused something: such refusals would only slow users down, and would make tests
/// meaningless.
fn none(count: u64, what: &str) -> Result<(), CompileError> {
    if count == 0 { Ok(()) } else { Err(CompileError::Failed { detail: format!("{count} {what}") }) }
}

fn lift(elf: &[u8], options: CompileOptions) -> Result<Module, CompileError> {
    let limits = CompileLimits::default();
    let image = antares_program::read(elf, options, &limits)?;
    let program = antares_program::recover(&image, &limits, &Hints::default())?;
    let lowered =
        antares_compiler::lower(antares_opt::optimize, &program, limits.operations_max, CodeTier::Full)?;
    none(lowered.unproved_functions, UNPROVED)?;
    Ok(lowered.module)
}

/// Output of a stage for `elf`.
///
/// # Errors
/// The compiler refused or failed.
pub fn output(elf: &[u8], options: CompileOptions, stage: Stage) -> Result<Output> {
    antares_compiler::compile(elf, &request(options, stage)).context("compiling")
}

/// The library of `elf`, compiled on all processors.
///
/// # Errors
/// The compiler refused or failed.
pub fn library_in_parallel(elf: &[u8], options: CompileOptions) -> Result<Output> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    antares_compiler::compile_in_parallel(elf, &request(options, Stage::Library), threads)
        .context("compiling")
}

/// Claims that every check is proved.
pub fn claim_proofs(module: &mut Module) {
    let blocks = module.functions.iter_mut().flat_map(|function| &mut function.blocks);
    blocks.flat_map(|block| &mut block.ops).for_each(claim_proof);
}

/// Claims that a check is proved.
pub fn claim_proof(op: &mut Op) {
    if let Op::Check { access, base, low, high } = *op {
        *op = Op::Proved { access, base, low, high };
    }
}

/// Where the code of a library of ours is.
///
/// # Panics
/// It has none.
#[must_use]
pub fn code_of(library: &[u8]) -> std::ops::Range<usize> {
    let mut headers = (0..usize::from(library[56])).map(|index| 64 + 56 * index);
    let code = headers.find(|at| library[*at] == 1 && library[at + 4] & 1 == 1).expect("a library has code");
    let number = |at: usize| u64::from_le_bytes(library[at..at + 8].try_into().expect("8 bytes")) as usize;
    number(code + 8)..number(code + 8) + number(code + 32)
}

/// Checks the code of a library and loads it from bytes.
///
/// # Errors
/// The bytes are not one of our libraries, or have code that our generators do not emit. Such a library is
/// stored in the target folder.
pub fn load(bytes: &[u8]) -> Result<Library> {
    if let Err(error) = antares_codecheck::check(bytes) {
        let kept = target_folder().join("refused.so");
        fs::write(&kept, bytes)?;
        return Err(error).with_context(|| format!("checking compiled code, which is in {}", kept.display()));
    }
    let mut file: File = tempfile::tempfile()?;
    file.write_all(bytes)?;
    let library = Library::load(file.as_fd()).context("loading a compiled library")?;
    library.with_frames(&file).context("reading its frames")
}

/// A request without hints, under the default limits.
#[must_use]
pub fn request(options: CompileOptions, stage: Stage) -> Request {
    Request { options, stage, hints: Hints::default(), limits: CompileLimits::default() }
}
