//! The baseline tier: compiles IR to host code and a shared object in one fast pass.
//!
//! The generated code follows the contract of `antares-abi`, so its caller need not know which generator made
//! it. It uses the simplest sound design:
//!
//! * Guest registers live in the state. The six that the program mentions most live in host registers.
//! * Functions pass and return no values, so execution can resume after every syscall.
//! * A guest function is a host function that uses `call` and `ret`. If the IR requires a comparison of the
//!   return address, the frame stores the one that the function was called with.
//! * Inside a block, the six other host registers hold values (`values.rs`).

mod arithmetic;
mod assembler;
mod block;
mod control;
mod counters;
mod error;
mod fitted;
mod fold;
mod function;
mod library;
mod operand;
mod registers;
mod stubs;
mod values;

pub use error::BaselineError;
use fitted::fitted;

use std::ops::Range;

use antares_abi::{BailoutReason, COUNTED_MAGIC, COUNTER_BITS_MAX, COUNTER_BITS_MIN, LIBRARY_MAGIC};
use antares_ir::{Function, Module};
use antares_program::{GuestAddr, Reg};

use crate::{
    assembler::{Assembler, Label},
    registers::Pinned,
    values::Code,
};

macro_rules! stubs {
    ($($name:ident),*) => {
        /// Labels of the shared routines that every library contains.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Stubs { $($name: Label,)* }

        impl Stubs {
            fn new(asm: &mut Assembler) -> Self {
                Self { $($name: asm.label(),)* }
            }

            fn named(&self) -> Vec<(&'static str, Label)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

stubs! {
    enter, ecall, dispatch, divide, divide_unsigned, carryless, bad_address, unknown_target, unknown_callee,
    past_table, unsupported, far_jump
}

/// Shared state of the generator's parts.
#[derive(Debug)]
pub(crate) struct Context<'m> {
    module: &'m Module,
    pinned: Pinned,
    functions: Vec<Label>,
    stubs: Stubs,
    tables: library::Tables,
    /// Bits of a counter's index, if the code counts branches.
    counter_bits: Option<u8>,
}

/// Generates a shared object for `module`; with `counter_bits`, one with counters of branches and jumps, whose
/// indexes have so many bits. antares-abi's `counters.rs` defines them.
///
/// # Errors
/// Fails only for modules that exceed the limits of a compile or are not verified.
pub fn compile(module: &Module, counter_bits: Option<u8>) -> Result<Vec<u8>, BaselineError> {
    let counter_bits = counter_bits.map(|bits| bits.clamp(COUNTER_BITS_MIN, COUNTER_BITS_MAX));
    let mut code = Code::default();
    let context = Context { counter_bits, ..Context::new(module, &mut code) };
    stubs::emit(&context, &mut code);
    for function in &module.functions {
        function::emit(&context, &mut code, function)?;
    }
    let magic = if counter_bits.is_some() { COUNTED_MAGIC } else { LIBRARY_MAGIC };
    library::link(module, code.asm, &context.tables, magic)
}

/// The code of a library, for people and for tests of its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// All code.
    pub code: Vec<u8>,
    /// Guest addresses and code ranges of functions, without their entry thunks.
    pub functions: Vec<(GuestAddr, Range<usize>)>,
    /// Names and offsets of the shared routines.
    pub stubs: Vec<(&'static str, usize)>,
}

/// Returns the code of the library that [`compile`] makes.
///
/// # Errors
/// As [`compile`].
pub fn listing(module: &Module, counter_bits: Option<u8>) -> Result<Listing, BaselineError> {
    let mut code = Code::default();
    let context = Context { counter_bits, ..Context::new(module, &mut code) };
    stubs::emit(&context, &mut code);
    let mut functions = Vec::new();
    for function in &module.functions {
        function::emit(&context, &mut code, function)?;
        let start = code.asm.offset_of(context.functions[function.id.0 as usize])?;
        functions.push((function.entry, start..code.asm.code.len()));
    }
    let place = |(name, label)| Ok((name, code.asm.offset_of(label)?));
    let stubs = context.stubs.named().into_iter().map(place).collect::<Result<_, BaselineError>>()?;
    code.asm.finish(0)?;
    Ok(Listing { code: code.asm.code, functions, stubs })
}

impl<'m> Context<'m> {
    fn new(module: &'m Module, code: &mut Code) -> Self {
        let asm = &mut code.asm;
        // Functions that are called by address return through `ra`.
        let has_entry =
            |function: &&Function| (function.is_exposed || function.is_resumable) && function.link == Reg::RA;
        let tables = library::reserve(module, asm, module.functions.iter().filter(has_entry));
        let stubs = Stubs::new(asm);
        let functions = module.functions.iter().map(|_| asm.label()).collect();
        Self { module, pinned: Pinned::choose(module), functions, stubs, tables, counter_bits: None }
    }

    /// Whether the state holds all registers, so that other code can resume. No code may before VM version 2.
    fn is_complete(&self) -> i32 {
        i32::from(self.module.options.vm_version >= 2)
    }
}

/// The number of a bailout reason in a trap.
fn number(reason: BailoutReason) -> u8 {
    fitted(reason as u64)
}
