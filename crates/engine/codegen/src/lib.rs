//! Generates LLVM IR from IR, then objects and shared objects. No other crate uses LLVM.
//!
//! Each guest function becomes one host function in LLVM's `x86_regcallcc`, with guest registers as
//! parameters and results (see [`antares_ir`]). The first two parameters are `base`, the host address of
//! guest address 0, and the cycles left. Native code bails out through a trap with a
//! [`antares_abi::BailoutReason`] as its number.
//!
//! Guest symbol names never reach the generated code: its symbols consist of addresses.
#![allow(unsafe_code, reason = "LLVM without a safe form")]

mod emit;
mod frames;
mod link;
mod optimize;
mod order;

use antares_ir::Module;
use inkwell::context::Context;

pub use emit::{OWN_SWITCHES_MAX, giants::OPTIMIZED_BLOCKS_MAX, signature::Convention};
pub use link::link;

/// The result of a step of code generation.
pub(crate) type Result<T = (), E = CodegenError> = std::result::Result<T, E>;

/// Why no code was generated. Except for `Giants`, the cause is a bug here or in LLVM, never the input.
#[derive(Debug, thiserror::Error)]
pub enum CodegenError {
    /// The builder refused an operation.
    #[error("LLVM's builder: {0}")]
    Builder(#[from] inkwell::builder::BuilderError),
    /// LLVM has no such intrinsic for these types.
    #[error("LLVM has no intrinsic {name}")]
    Intrinsic {
        /// Its name.
        name: &'static str,
    },
    /// LLVM's verifier found an error in the emitted or scheduled code.
    #[error("LLVM's verifier: {message}")]
    Verifier {
        /// LLVM's message.
        message: String,
    },
    /// The target, the passes or the code generator failed.
    #[error("LLVM at {step}: {message}")]
    Llvm {
        /// The failed step.
        step: &'static str,
        /// LLVM's message.
        message: String,
    },
    /// Functions that are too large to optimize have too many operations.
    #[error(
        "{operations} operations in functions that are too big to be optimized, the limit is {operations_max}"
    )]
    Giants {
        /// Sum over all such functions.
        operations: usize,
        /// The limit.
        operations_max: usize,
    },
    /// The linker failed.
    #[error("lld: {message}")]
    Link {
        /// lld's message.
        message: String,
    },
    /// The debug information of a library could not be read.
    #[error("debug information: {0}")]
    Frames(#[from] gimli::Error),
    /// A library could not be read.
    #[error("library: {0}")]
    Library(#[from] object::Error),
    /// A file for the linker could not be made or read.
    #[error("linker file: {0}")]
    File(#[from] std::io::Error),
}

/// The version of LLVM that this process has loaded, as in `22.1.8`.
#[must_use]
pub fn llvm_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}

/// The form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// LLVM IR as emitted, as text.
    LlvmBefore,
    /// LLVM IR after optimization, as text.
    Llvm,
    /// Host assembly, as text.
    Assembly,
    /// A relocatable object.
    Object,
}

/// Generated code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// In the requested form.
    pub bytes: Vec<u8>,
    /// Blocks that keep LLVM's order of instructions because the scheduler's is not equivalent, which is a
    /// bug.
    pub refused_orders: u64,
}

/// One of the parts of a library, which are compiled separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index, from 0.
    pub index: u32,
    /// Number of parts, at least 1. All parts must come from the same module.
    pub of: u32,
}

impl Part {
    /// The only part.
    pub const WHOLE: Self = Self { index: 0, of: 1 };
}

/// One of several equal shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    /// Index, from 0.
    index: u32,
    /// Number of shares.
    of: u32,
    /// Whether the last share consists of exactly the functions that are too large for LLVM's passes.
    has_giants: bool,
}

impl Share {
    /// Whether its functions are too large for LLVM's passes.
    fn is_giants(self) -> bool {
        self.has_giants && self.index + 1 == self.of
    }
}

/// Bytes of executable pages from which pairs of parts no longer emit the same functions. Interprocedural
/// analysis is a fifth of the work, and too much to do twice.
const PAIRS_CODE_BYTES_MAX: u64 = 256 << 10;

/// How parts divide a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    /// Whether the last part consists of exactly the giants.
    has_giants: bool,
    /// Whether pairs of parts emit the same functions.
    in_pairs: bool,
    /// Whether no part is optimized.
    is_crowd: bool,
}

impl Division {
    fn of(module: &Module) -> Self {
        let is_crowd = emit::giants::is_crowd(module);
        Self {
            has_giants: emit::giants::has_giants(module),
            in_pairs: !is_crowd && module.code_end - module.code_start < PAIRS_CODE_BYTES_MAX,
            is_crowd,
        }
    }
}

impl Part {
    /// The functions to emit for the part. Pairs of parts emit the same functions, so that interprocedural
    /// facts and inlining are lost at few boundaries.
    fn emitted(self, division: Division) -> Share {
        let has_giants = division.has_giants && self.of > 1;
        let of = self.of - u32::from(has_giants);
        let together = if division.in_pairs { 2 } else { 1 };
        let groups = of.div_ceil(together);
        let index = if self.index < of { self.index / together } else { groups };
        Share { index, of: groups + u32::from(has_giants), has_giants }
    }

    /// The part's share of the emitted functions.
    fn fixed_share(self, division: Division) -> Share {
        let of = self.of - u32::from(division.has_giants && self.of > 1);
        let is_one_of_two = division.in_pairs && (self.index | 1) < of;
        let index = if is_one_of_two { self.index % 2 } else { 0 };
        Share { index, of: if is_one_of_two { 2 } else { 1 }, has_giants: false }
    }
}

/// Generates code for `part` of `module`, usually by the better [`Convention`] for its functions.
///
/// # Errors
/// Fails for bugs here or in LLVM, and with [`CodegenError::Giants`]. Every other module that the verifier of
/// `antares-proof` accepts has code.
pub fn compile(
    module: &Module,
    convention: Convention,
    part: Part,
    form: Form,
) -> Result<Code, CodegenError> {
    optimize::with_options(|| generate(module, convention, part, form))
}

fn generate(module: &Module, convention: Convention, part: Part, form: Form) -> Result<Code, CodegenError> {
    emit::giants::check(module)?;
    let context = Context::create();
    if form == Form::Object {
        optimize::forget_names(&context);
    }
    let division = Division::of(module);
    let share = part.emitted(division);
    let is_plain = division.is_crowd || share.is_giants();
    let target = optimize::target_machine(is_plain)?;
    let emitted = emit::module(&context, module, convention, share, &target)?;
    if form == Form::LlvmBefore {
        return Ok(Code { bytes: text(&emitted), refused_orders: 0 });
    }
    let mut refused_orders = 0;
    if is_plain {
        optimize::forbid_vectors(&emitted);
    } else {
        optimize::run(&emitted, part.fixed_share(division), &target)?;
        refused_orders = order::run(&emitted);
    }
    if cfg!(debug_assertions) {
        emit::verify(&emitted)?;
    }
    let bytes = match form {
        Form::LlvmBefore | Form::Llvm => text(&emitted),
        Form::Assembly => optimize::write(&emitted, &target, inkwell::targets::FileType::Assembly)?,
        Form::Object => optimize::write(&emitted, &target, inkwell::targets::FileType::Object)?,
    };
    Ok(Code { bytes, refused_orders })
}

fn text(module: &inkwell::module::Module) -> Vec<u8> {
    module.print_to_string().to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_shares_of_what_is_emitted() {
        let divisions = [(false, true), (true, true), (false, false), (true, false)];
        for (of, (has_giants, in_pairs)) in (1..=17).flat_map(|of| divisions.map(|division| (of, division))) {
            let division = Division { has_giants, in_pairs, is_crowd: false };
            let shares: Vec<_> = (0..of).map(|index| Part { index, of }).collect();
            let groups = shares.last().map(|part| part.emitted(division).index + 1);
            assert!(shares.iter().all(|part| Some(part.emitted(division).of) == groups));
            for group in 0..groups.unwrap() {
                let of_group = shares.iter().filter(|part| part.emitted(division).index == group);
                let fixed_share: Vec<Share> = of_group.map(|part| part.fixed_share(division)).collect();
                let of = fixed_share[0].of;
                let all = (0..of).map(|index| Share { index, of, has_giants: false });
                assert_eq!(fixed_share, all.collect::<Vec<_>>());
            }
            let giants = shares.iter().filter(|part| part.emitted(division).is_giants()).count();
            assert_eq!(giants, usize::from(has_giants && of > 1));
        }
    }
}
