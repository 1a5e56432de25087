//! Loops in two versions: what the guard in the preheader shows about the version without checks. The
//! verifier proves from the guard what is claimed here; nobody else has to believe it.

use std::fmt;

use antares_program::{BlockId, Reg};

use crate::{Access, Value};

/// `factor * register + ... + offset` modulo 2^64, the registers as the guard finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinearSum {
    /// Registers and their factors.
    pub terms: Vec<(Reg, i64)>,
    /// What is added.
    pub offset: i64,
}

/// A loop whose bounded version needs no cycle-limit check, nor address checks where `spans` reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedLoop {
    /// The block that branches to one of the versions.
    pub guard: BlockId,
    /// Header of the bounded version.
    pub header: BlockId,
    /// Blocks of the bounded version, from the header on, each before those that follow it in an iteration.
    pub blocks: u32,
    /// The block whose branch bounds the iterations.
    pub exit: BlockId,
    /// What that branch compares in iteration 0.
    pub counter: LinearSum,
    /// What is added to it in each iteration.
    pub step: i64,
    /// What it is compared with.
    pub end: LinearSum,
    /// The value of the guard that no iteration's number is above, counted from 0.
    pub last: Value,
    /// Ranges of addresses that the guard has compared with the bounds.
    pub spans: Vec<LoopSpan>,
}

/// In iteration `k` all of `[start + k * step + low, start + k * step + high)` may be accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopSpan {
    /// What for.
    pub access: Access,
    /// Where it starts.
    pub start: LinearSum,
    /// How far it moves in each iteration.
    pub step: i64,
    /// Bytes that it has.
    pub bytes: i64,
}

impl VersionedLoop {
    /// Whether `block` is one of the bounded version.
    #[must_use]
    pub fn has(&self, block: BlockId) -> bool {
        block.0.checked_sub(self.header.0).is_some_and(|place| place < self.blocks)
    }

    /// The same loop in a function with `more` blocks before the first one.
    #[must_use]
    pub fn shifted(&self, more: u32) -> Self {
        let [guard, header, exit] = [self.guard, self.header, self.exit].map(|id| BlockId(id.0 + more));
        Self { guard, header, exit, ..self.clone() }
    }
}

impl fmt::Display for LinearSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (register, factor) in &self.terms {
            write!(f, "{factor}*{register} + ")?;
        }
        write!(f, "{}", self.offset)
    }
}

impl fmt::Display for VersionedLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { guard, header, blocks, exit, counter, step, end, last, spans } = self;
        writeln!(f, "loop {header} blocks {blocks} guard {guard} last {last}")?;
        writeln!(f, "    exit {exit} counter {counter} step {step} end {end}")?;
        for LoopSpan { access, start, step, bytes } in spans {
            writeln!(f, "    span.{access} {start} step {step} bytes {bytes}")?;
        }
        Ok(())
    }
}
