//! IR to host code to shared object in one pass: the tier that is there at once.
//!
//! The generated code keeps the contract of `antares-abi` to the letter, so whoever runs it need not know
//! which of the two generators made it. Its shape is the simplest one that is sound:
//!
//! * Guest registers are always where they are: in the state, or, the six that the program mentions most, in
//!   a host register of their own. Functions pass nothing and return nothing, so every place with a syscall
//!   is one from which anybody can go on.
//! * A guest function is a host function: `call` and `ret`, with the return address that it was called with
//!   in its frame where the IR says that it must be compared.
//! * Inside a block, values are in the six other host registers (`values.rs`).
#![forbid(unsafe_code)]

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
        /// Small pieces of every library, by their places.
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

/// What the parts of the generator share.
#[derive(Debug)]
pub(crate) struct Context<'m> {
    module: &'m Module,
    pinned: Pinned,
    functions: Vec<Label>,
    stubs: Stubs,
    /// Where the entry table is in the data.
    tables: library::Tables,
    /// Bits of a counter's number, if the code counts where it goes.
    counter_bits: Option<u8>,
}

/// Generates a shared object for `module`.
///
/// # Errors
/// Only for modules beyond the limits of a compile, or not verified.
pub fn compile(module: &Module) -> Result<Vec<u8>, BaselineError> {
    compile_as(module, None)
}

/// The same with counters of where the code goes, by numbers of `bits` bits (antares-abi's `counters.rs` has
/// the rule).
///
/// # Errors
/// As [`compile`].
pub fn compile_counted(module: &Module, bits: u8) -> Result<Vec<u8>, BaselineError> {
    compile_as(module, Some(bits.clamp(COUNTER_BITS_MIN, COUNTER_BITS_MAX)))
}

fn compile_as(module: &Module, counter_bits: Option<u8>) -> Result<Vec<u8>, BaselineError> {
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
    /// Where functions (without their entry thunks) are in it, with their guest addresses.
    pub functions: Vec<(GuestAddr, Range<usize>)>,
    /// Where the small pieces that every library has begin.
    pub stubs: Vec<(&'static str, usize)>,
}

/// The code that [`compile`] puts into the library, or [`compile_counted`], where there are bits of numbers.
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
        let start = code.asm.place(context.functions[function.id.0 as usize])?;
        functions.push((function.entry, start..code.asm.code.len()));
    }
    let place = |(name, label)| Ok((name, code.asm.place(label)?));
    let stubs = context.stubs.named().into_iter().map(place).collect::<Result<_, BaselineError>>()?;
    code.asm.finish(0)?;
    Ok(Listing { code: code.asm.code, functions, stubs })
}

impl<'m> Context<'m> {
    fn new(module: &'m Module, code: &mut Code) -> Self {
        let asm = &mut code.asm;
        // What is called by its address returns through `ra`.
        let has_entry =
            |function: &&Function| (function.is_exposed || function.is_resumable) && function.link == Reg::RA;
        let tables = library::reserve(module, asm, module.functions.iter().filter(has_entry));
        let stubs = Stubs::new(asm);
        let functions = module.functions.iter().map(|_| asm.label()).collect();
        Self { module, pinned: Pinned::choose(module), functions, stubs, tables, counter_bits: None }
    }

    /// Whether the state holds all registers for somebody else to go on from. Before VM version 2 nobody may.
    fn is_complete(&self) -> i32 {
        i32::from(self.module.options.vm_version >= 2)
    }
}

/// The number of a reason in a trap.
fn number(reason: BailoutReason) -> u8 {
    fitted(reason as u64)
}
