//! Versioned loops: what the guard in the preheader shows about the version without checks. The verifier
//! proves these claims from the guard, so nothing else needs to trust them.

use std::fmt;

use antares_program::{BlockId, Reg};

use crate::{Access, Value};

/// `factor * register + ... + offset` modulo 2^64, with the register values at the guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinearSum {
    /// Registers and their factors.
    pub terms: Vec<(Reg, i64)>,
    /// The constant.
    pub offset: i64,
}

/// A loop whose bounded version needs no cycle-limit check, and no address checks inside `spans`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedLoop {
    /// The block that branches to one of the versions.
    pub guard: BlockId,
    /// Header of the bounded version.
    pub header: BlockId,
    /// Number of blocks of the bounded version, from the header on, in the order of an iteration.
    pub blocks: u32,
    /// The block whose branch bounds the iterations.
    pub exit: BlockId,
    /// The left operand of that branch's comparison in iteration 0.
    pub counter: LinearSum,
    /// The amount by which it grows in each iteration.
    pub step: i64,
    /// The right operand of the comparison.
    pub end: LinearSum,
    /// A value of the guard: the maximum iteration number, counted from 0.
    pub last: Value,
    /// Address ranges that the guard has compared with the bounds.
    pub spans: Vec<LoopSpan>,
}

/// In iteration `k`, all of `[start + k * step, start + k * step + bytes)` may be accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopSpan {
    /// The kind of access.
    pub access: Access,
    /// The start in iteration 0.
    pub start: LinearSum,
    /// The distance that the span moves in each iteration.
    pub step: i64,
    /// Length in bytes.
    pub bytes: i64,
}

impl VersionedLoop {
    /// Whether `block` belongs to the bounded version.
    #[must_use]
    pub fn has(&self, block: BlockId) -> bool {
        block.0.checked_sub(self.header.0).is_some_and(|place| place < self.blocks)
    }

    /// Shifts all block numbers of the loop by `more`.
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
