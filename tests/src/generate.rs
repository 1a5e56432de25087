//! Random programs: a seed and settings in, items out. A seed generates the same program on every machine.

pub mod batch;
mod boundary;
mod builder;
mod counted;
mod crowded;
mod fused;
mod links;
pub mod loading;
pub mod mutant;
mod numbers;
mod pieces;
mod pointers;
mod random;
mod search;
mod stream;
mod structured;

use antares_abi::{CompileOptions, Isa};

pub use random::Random;

use crate::asm::{Item, Label};

/// Entry of a program.
pub const ENTRY: Label = 0;
/// Start of a program's own constants.
pub const CONSTANTS: Label = 1;
/// Start of the batch's writable scratch area of [`SCRATCH_BYTES`], shared by all programs of a batch.
pub const SCRATCH: Label = 2;
/// Start of the code segment, shared by all programs of a batch.
pub const TEXT: Label = 3;
/// Start of the initial registers of called programs, shared by all programs of a batch.
pub const REGISTERS: Label = 8;
/// First label that is private to a program.
pub const FIRST_OWN: Label = 16;

/// Size of the scratch area: two pages, which meet in the middle.
pub const SCRATCH_BYTES: u64 = 8192;

/// Maximum labels of one program.
pub const LABELS_MAX: u32 = 4096;

/// Kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Instruction sequences of all kinds, with branches and loops between them.
    Stream,
    /// Functions that call each other, loops, jump tables, frames.
    Structured,
    /// As [`Kind::Stream`], but only a few statements: many compile in the time of one long program.
    Short,
    /// Small functions that call each other through several link registers and modify them.
    Links,
    /// Accesses near every boundary of memory.
    Boundary,
    /// Loops with a counter, near values that change its behaviour.
    Counted,
    /// Indirect calls of a few functions.
    Pointers,
    /// Long instruction sequences with most registers live.
    Crowded,
    /// Code loaded at run time, only on machines for ckb-script.
    Loading,
}

/// How a program starts and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It initialises its own registers, and stores them at its end.
    Alone,
    /// The start of the batch initialises registers, calls the program and stores them: less code per
    /// program.
    Called,
}

impl Kind {
    /// The form of programs of this kind.
    #[must_use]
    pub fn form(self) -> Form {
        if matches!(self, Self::Stream | Self::Structured) { Form::Alone } else { Form::Called }
    }
}

/// Settings of a generated program.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// Kind of program.
    pub kind: Kind,
    /// Whether the program may do what ends in an error: invalid addresses and encodings, forged returns.
    pub wild: bool,
    /// Whether the system calls of [`crate::oracle::LOADER`] exist.
    pub loader: bool,
}

/// A generated program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its code; starts with [`ENTRY`].
    pub text: Vec<Item>,
    /// Its constants and tables; start with [`CONSTANTS`].
    pub constants: Vec<Item>,
    /// All 32 initial registers; empty for [`Form::Alone`].
    pub registers: Vec<u64>,
    /// Cycle limit of its run.
    pub cycles_max: u64,
}

/// Generates the program of `seed`.
#[must_use]
pub fn program(seed: u64, settings: Settings) -> Program {
    let builder = builder::Builder::new(Random::new(seed), settings);
    match settings.kind {
        Kind::Stream => stream::build(builder, &[4, 8, 16, 30, 60]),
        Kind::Short => stream::build(builder, &[1, 2, 3, 5]),
        Kind::Links => links::build(builder),
        Kind::Boundary => boundary::build(builder),
        Kind::Counted => counted::build(builder),
        Kind::Pointers => pointers::build(builder),
        Kind::Crowded => crowded::build(builder),
        Kind::Loading => loading::build(builder),
        Kind::Structured => structured::build(builder),
    }
}

/// Draws options for a batch of programs: usually a version with its standard ISA, sometimes another
/// combination.
pub fn draw_options(random: &mut Random) -> CompileOptions {
    let vm_version = [0, 1, 2, 2][random.below(4) as usize];
    let usual = Isa::of_version(vm_version);
    let isa = if random.one_in(3) { Isa(random.below(8) as u8) } else { usual };
    // Version 0 with fusions is always refused: draw it rarely.
    let is_fused = !(vm_version == 0 && isa.has(Isa::MOP)) || random.one_in(20);
    CompileOptions { vm_version, isa: if is_fused { isa } else { Isa(isa.0 & !Isa::MOP.0) } }
}
