//! Orders: instructions for an actor, eight words each, in the format of `tests/guests/actor/actor.c`.

use std::fmt;

use strum::FromRepr;

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order(pub [u64; 8]);

/// Operations of orders, numbered as in the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, FromRepr)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Verb {
    End,
    Call,
    Poke,
    Peek,
    Fill,
    Sum,
    Copy,
    Jump,
    Work,
    Again,
    Spawn,
    Pipe,
    Transfer,
    Wait,
    Exec,
    Inherit,
    Load,
    Set,
    Skip,
    Deep,
    Exit,
}

/// Registers of an actor for numbers between orders.
pub(super) type Register = u8;

/// Flag: print the result and the position of the order.
const PRINT: u64 = 1;
/// Flag: also print the cycles so far, which version 0 cannot query.
const CYCLES: u64 = 2;
/// Flag: read numbers of system calls from memory.
const COMPUTED: u64 = 4;

/// Operand: a register plus an offset.
pub(super) const fn register(register: Register, plus: u32) -> u64 {
    0xa5 << 56 | (plus as u64) << 8 | register as u64
}

impl Order {
    /// An order of `verb` with its operands; missing ones are 0. Prints nothing.
    pub(super) fn new(verb: Verb, words: &[u64]) -> Self {
        let mut all = [0; 8];
        all[0] = verb as u64;
        all[1..=words.len()].copy_from_slice(words);
        Self(all)
    }

    /// Stores the result in `register`.
    pub(super) fn to(mut self, register: Register) -> Self {
        self.0[0] = self.0[0] & !(15 << 16) | u64::from(register) << 16;
        self
    }

    pub(super) fn printed(mut self, with_cycles: bool) -> Self {
        self.0[0] |= (PRINT | if with_cycles { CYCLES } else { 0 }) << 8;
        self
    }

    /// Reads numbers of system calls from memory.
    pub(super) fn computed(mut self) -> Self {
        self.0[0] |= COMPUTED << 8;
        self
    }

    /// Its verb.
    #[must_use]
    pub fn verb(&self) -> Verb {
        Verb::from_repr(self.0[0] as usize & 0xff).unwrap_or(Verb::End)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.verb())?;
        let flags = self.0[0] >> 8;
        for (bit, name) in [(PRINT, "print"), (CYCLES, "cycles"), (COMPUTED, "computed")] {
            if flags & bit != 0 {
                write!(f, " {name}")?;
            }
        }
        let last = self.0.iter().rposition(|word| *word != 0).unwrap_or(0);
        for word in self.0.iter().take(last + 1).skip(1) {
            match word >> 56 {
                0xa5 => write!(f, " r{}+{:#x}", word & 15, word >> 8 & 0xffff_ffff)?,
                _ => write!(f, " {word:#x}")?,
            }
        }
        write!(f, " -> r{}", self.0[0] >> 16 & 15)
    }
}
