//! The compiler: read, recover, lift, optimize, verify, emit, link; or one step for the baseline.
//!
//! It reads no clock, environment or randomness: the same ELF and request give the same bytes.

mod counted;
mod explain;
mod growth;

use std::sync::atomic::{AtomicU32, Ordering};

use antares_abi::{CodeTier, CompileOptions, Hints, parts_of};
pub use antares_abi::{CompileLimits, Stage};
use antares_baseline::BaselineError;
pub use antares_codegen::llvm_version;
use antares_codegen::{Code, CodegenError, Convention, Form, Part};
use antares_ir::Module;
use antares_lift::LiftError;
use antares_opt::{Context, Level, Target};
use antares_program::{Program, ProgramError};
use antares_proof::refused;
pub use counted::optimize_counted;

/// One compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// The result to produce.
    pub stage: Stage,
    /// Observed targets of the script's jumps and calls.
    pub hints: Hints,
    /// Limits.
    pub limits: CompileLimits,
}

/// The result of a compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Text or code, depending on the stage.
    pub bytes: Vec<u8>,
    /// Bytes of guest instructions in all blocks.
    pub guest_code_bytes: u64,
    /// Functions.
    pub functions: u64,
    /// Blocks.
    pub blocks: u64,
    /// Functions whose optimized form the verifier refused. If there is one, the compiler used the plain form
    /// of all.
    pub unproved_functions: u64,
    /// Blocks that keep LLVM's order of instructions, because the scheduler's order was refused.
    pub refused_orders: u64,
}

impl Output {
    /// An output for which no function was compiled.
    #[must_use]
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes, guest_code_bytes: 0, functions: 0, blocks: 0, unproved_functions: 0, refused_orders: 0 }
    }
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The input cannot be compiled; the same input always gives the same error.
    #[error("{reason}: {detail}")]
    Refused {
        /// `elf`, `options`, `limit_code_bytes`, `limit_functions`, `limit_blocks` or `limit_operations`.
        reason: &'static str,
        /// Details.
        detail: String,
    },
    /// The compiler failed.
    #[error("{detail}")]
    Failed {
        /// Details.
        detail: String,
    },
}

impl From<ProgramError> for CompileError {
    fn from(error: ProgramError) -> Self {
        let reason = match error {
            ProgramError::Elf { .. } => "elf",
            ProgramError::Options { .. } => "options",
            ProgramError::CodeBytes { .. } => "limit_code_bytes",
            ProgramError::Functions { .. } => "limit_functions",
            ProgramError::Blocks { .. } => "limit_blocks",
        };
        Self::Refused { reason, detail: error.to_string() }
    }
}

impl From<LiftError> for CompileError {
    fn from(error: LiftError) -> Self {
        Self::Refused { reason: "limit_operations", detail: error.to_string() }
    }
}

impl From<CodegenError> for CompileError {
    fn from(error: CodegenError) -> Self {
        match error {
            CodegenError::Giants { .. } => {
                Self::Refused { reason: "limit_operations", detail: error.to_string() }
            }
            error => Self::Failed { detail: error.to_string() },
        }
    }
}

impl From<BaselineError> for CompileError {
    fn from(error: BaselineError) -> Self {
        Self::Failed { detail: format!("the baseline generator: {error}") }
    }
}

/// Compiles `elf` up to the requested stage.
///
/// # Errors
/// [`CompileError::Refused`] for input that is malformed or beyond a limit, [`CompileError::Failed`] for
/// failures of the compiler.
pub fn compile(elf: &[u8], request: &Request) -> Result<Output, CompileError> {
    let output = compile_by(antares_opt::optimize, elf, request)?;
    debug_assert_eq!(output.unproved_functions, 0, "the verifier refuses what was optimised");
    debug_assert_eq!(output.refused_orders, 0, "the scheduler's order does something else");
    Ok(output)
}

/// Optimizes a module. It may be wrong: the compiler does not use what the verifier refuses.
pub type Optimize = fn(&mut Module, Context, Level);

/// Like [`compile`], with another `optimize`.
///
/// # Errors
/// As [`compile`].
pub fn compile_by(optimize: Optimize, elf: &[u8], request: &Request) -> Result<Output, CompileError> {
    let image = antares_program::read(elf, request.options, &request.limits)?;
    if request.stage == Stage::Image {
        return Ok(Output::of_bytes(image.to_string().into()));
    }
    let program = growth::recover(&image, request)?;
    drop(image);
    if request.stage == Stage::Program {
        return Ok(output(&program, program.to_string().into()));
    }
    let tier = match request.stage {
        Stage::Baseline | Stage::Counted { .. } => CodeTier::Baseline,
        _ => CodeTier::Full,
    };
    if let Stage::IrAfter { .. } | Stage::Passes = request.stage {
        return Ok(output(&program, explain::passes(&program, request)?.into()));
    }
    let optimize = if let Stage::Counted { .. } = request.stage { optimize_counted } else { optimize };
    let Lowered { module, unproved_functions } =
        lower(optimize, &program, request.limits.operations_max, tier)?;
    let as_given = |bytes| Code { bytes, refused_orders: 0 };
    let Code { bytes, refused_orders } = match request.stage {
        Stage::Ir => as_given(module.to_string().into()),
        Stage::Baseline => as_given(antares_baseline::compile(&module, None)?),
        Stage::Counted { bits } => as_given(antares_baseline::compile(&module, Some(bits))?),
        stage => generate(&module, stage, elf.len() as u64)?,
    };
    Ok(Output { unproved_functions, refused_orders, ..output(&program, bytes) })
}

/// Facts about LLVM's generator for optimization; the baseline's module has the same shape.
pub const TARGET: Target = Target {
    own_switches_max: antares_codegen::OWN_SWITCHES_MAX,
    blocks_max: antares_codegen::OPTIMIZED_BLOCKS_MAX,
};

/// The IR for a generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// Lifted, optimized, verified.
    pub module: Module,
    /// Functions whose optimized form the verifier refused. If there is one, no part of the module is
    /// optimized.
    pub unproved_functions: u64,
}

/// The IR for the generator of `tier`, optimized by `optimize`. If the verifier refuses it, which is a bug, the
/// module is lowered again without optimization.
///
/// # Errors
/// As [`compile`].
pub fn lower(
    optimize: Optimize,
    program: &Program,
    operations_max: u64,
    tier: CodeTier,
) -> Result<Lowered, CompileError> {
    let level = match tier {
        CodeTier::Baseline => Level::Baseline,
        CodeTier::Full => Level::Full,
    };
    let context = Context { program, target: TARGET };
    let optimized = |level| -> Result<Module, CompileError> {
        let mut module = antares_lift::lift(program, operations_max)?;
        optimize(&mut module, context, level);
        Ok(module)
    };
    let module = optimized(level)?;
    let unproved_functions = refused(&module).len() as u64;
    if unproved_functions == 0 {
        return Ok(Lowered { module, unproved_functions });
    }
    let module = optimized(Level::Plain)?;
    match refused(&module).first() {
        None => Ok(Lowered { module, unproved_functions }),
        Some(error) => Err(CompileError::Failed { detail: format!("the IR is wrong: {error}") }),
    }
}

/// Links the parts of an ELF, in order.
///
/// # Errors
/// [`CompileError::Failed`] if they are not such parts.
pub fn link(parts: &[Vec<u8>]) -> Result<Vec<u8>, CompileError> {
    Ok(antares_codegen::link(parts)?)
}

/// Compiles `elf` to a library on up to `threads` threads.
///
/// # Errors
/// As [`compile`].
pub fn compile_in_parallel(elf: &[u8], request: &Request, threads: usize) -> Result<Output, CompileError> {
    let of = parts_of(elf.len() as u64);
    let part = |index| compile(elf, &Request { stage: Stage::Part { index, of }, ..request.clone() });
    let next = AtomicU32::new(0);
    let work = || {
        let indices = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        indices.take_while(|index| *index < of).map(|index| (index, part(index))).collect::<Vec<_>>()
    };
    let mut made = std::thread::scope(|scope| {
        let running: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut made = work();
        for thread in running {
            let lost = || CompileError::Failed { detail: "a thread of the compiler panicked".to_owned() };
            made.extend(thread.join().map_err(|_| lost())?);
        }
        Ok::<_, CompileError>(made)
    })?;
    made.sort_by_key(|(index, _)| *index);
    let mut outputs = made.into_iter().map(|(_, output)| output).collect::<Result<Vec<_>, _>>()?;
    let objects: Vec<Vec<u8>> = outputs.iter_mut().map(|output| std::mem::take(&mut output.bytes)).collect();
    let library = link(&objects)?;
    let refused_orders = outputs.iter().map(|output| output.refused_orders).sum();
    outputs
        .pop()
        .map(|output| Output { bytes: library, refused_orders, ..output })
        .ok_or_else(|| CompileError::Failed { detail: "there are no parts".to_owned() })
}

fn generate(module: &Module, stage: Stage, elf_bytes: u64) -> Result<Code, CodegenError> {
    let convention = Convention::of(&module.functions);
    if stage == Stage::Library {
        let of = parts_of(elf_bytes);
        let part = |index| antares_codegen::compile(module, convention, Part { index, of }, Form::Object);
        let parts = (0..of).map(part).collect::<Result<Vec<_>, _>>()?;
        let refused_orders = parts.iter().map(|part| part.refused_orders).sum();
        let objects: Vec<_> = parts.into_iter().map(|part| part.bytes).collect();
        return Ok(Code { bytes: antares_codegen::link(&objects)?, refused_orders });
    }
    let form = match stage {
        Stage::LlvmBefore => Form::LlvmBefore,
        Stage::Llvm => Form::Llvm,
        Stage::Asm => Form::Assembly,
        _ => Form::Object,
    };
    let part = match stage {
        Stage::Part { index, of } => Part { index, of: of.max(1) },
        _ => Part::WHOLE,
    };
    antares_codegen::compile(module, convention, part, form)
}

fn output(program: &Program, bytes: Vec<u8>) -> Output {
    let blocks = program.functions.iter().flat_map(|function| &function.blocks);
    let instructions = blocks.clone().flat_map(|block| &block.instructions);
    Output {
        bytes,
        guest_code_bytes: instructions.map(|(_, instruction)| u64::from(instruction.length)).sum(),
        functions: program.functions.len() as u64,
        blocks: blocks.count() as u64,
        unproved_functions: 0,
        refused_orders: 0,
    }
}
