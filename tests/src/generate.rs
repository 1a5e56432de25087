//! Random programs: a seed and settings in, items out. The same seed gives the same program on every machine.

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

/// Where a program starts.
pub const ENTRY: Label = 0;
/// Start of a program's own constants.
pub const CONSTANTS: Label = 1;
/// Start of the batch's writable scratch area of [`SCRATCH_BYTES`]; the same for all programs of a batch.
pub const SCRATCH: Label = 2;
/// Start of the code segment; the same for all programs of a batch.
pub const TEXT: Label = 3;
/// Start of the registers that the batch's start sets for called programs; the same for all programs of a
/// batch.
pub const REGISTERS: Label = 8;
/// First label that is a program's own.
pub const FIRST_OWN: Label = 16;

/// Size of the scratch area: two pages, with their border in the middle.
pub const SCRATCH_BYTES: u64 = 8192;

/// Most labels of one program.
pub const LABELS_MAX: u32 = 4096;

/// What kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Instructions of all kinds in a row, with branches and loops between them.
    Stream,
    /// Functions that call each other, loops, jump tables, frames.
    Structured,
    /// As [`Kind::Stream`], a few statements long: many can be compiled in the time that one long program
    /// takes.
    Short,
    /// Small functions that call each other through several link registers and tamper with them.
    Links,
    /// Accesses around every boundary that memory has.
    Boundary,
    /// Loops with a counter, near every value at which something changes.
    Counted,
    /// Calls of few functions by their addresses.
    Pointers,
    /// Long rows of instructions in which most registers are live.
    Crowded,
    /// Code that is loaded while the program runs, on machines for ckb-script only.
    Loading,
}

/// What programs leave to the start of their batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing: each sets its registers, and stores them at its end.
    Alone,
    /// The start sets registers, calls the program and stores them afterwards: less to compile for each.
    Called,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Stream,
        Self::Structured,
        Self::Short,
        Self::Links,
        Self::Boundary,
        Self::Counted,
        Self::Pointers,
        Self::Crowded,
        Self::Loading,
    ];

    /// The form of programs of this kind.
    #[must_use]
    pub fn form(self) -> Form {
        match self {
            Self::Stream | Self::Structured => Form::Alone,
            Self::Short
            | Self::Links
            | Self::Boundary
            | Self::Counted
            | Self::Pointers
            | Self::Crowded
            | Self::Loading => Form::Called,
        }
    }

    /// The name as reports print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Structured => "structured",
            Self::Short => "short",
            Self::Links => "links",
            Self::Boundary => "boundary",
            Self::Counted => "counted",
            Self::Pointers => "pointers",
            Self::Crowded => "crowded",
            Self::Loading => "loading",
        }
    }
}

/// What is generated.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// What kind of program.
    pub kind: Kind,
    /// Whether the program may do what ends in an error: bad addresses, invalid encodings, forged returns.
    pub wild: bool,
    /// Whether there are the system calls of [`crate::oracle::LOADER`].
    pub loader: bool,
}

/// One program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its code; starts with [`ENTRY`].
    pub text: Vec<Item>,
    /// Its constants and tables; start with [`CONSTANTS`].
    pub constants: Vec<Item>,
    /// What the registers hold when it is called: all 32, or none if it is of [`Form::Alone`].
    pub registers: Vec<u64>,
    /// Cycle limit that it is run with.
    pub cycles_max: u64,
}

/// The program of `seed`.
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

/// Settings for a batch of programs, drawn by `random`: every version with the ISA that it implies most
/// often, other combinations sometimes.
pub fn draw_options(random: &mut Random) -> CompileOptions {
    let vm_version = [0, 1, 2, 2][random.below(4) as usize];
    let usual = Isa::of_version(vm_version);
    let isa = if random.one_in(3) { Isa(random.below(8) as u8) } else { usual };
    // Version 0 with fusions is refused as a whole: worth one batch in a while.
    let isa = if vm_version == 0 && isa.has(Isa::MOP) && !random.one_in(20) {
        Isa(isa.0 & !Isa::MOP.0)
    } else {
        isa
    };
    CompileOptions { vm_version, isa }
}
