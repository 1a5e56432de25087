//! How blocks end.

use std::collections::HashSet;

use antares_program::{BlockId, FunctionId, GuestAddr, RegSet};

use crate::{Value, Width};

/// How a block ends, after the block's register writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// Continues at a block.
    Jump(BlockId),
    /// Goes to `taken` if the value is not 0.
    Branch {
        /// The condition.
        condition: Value,
        /// The block for a condition other than 0.
        taken: BlockId,
        /// The block for a condition of 0.
        otherwise: BlockId,
    },
    /// Calls a function; the link register has been written.
    Call {
        /// The function.
        callee: FunctionId,
        /// The block to continue at.
        to: BlockId,
    },
    /// Jumps to another function. When that one returns, `link`, if present, must equal this function's own
    /// return address.
    TailCall {
        /// The function.
        callee: FunctionId,
        /// Current value of the link register, if the function ever writes it.
        link: Option<Value>,
    },
    /// Calls the function at an address; `ra` has been written.
    CallIndirect {
        /// Guest address.
        target: Value,
        /// Registers that may be read after the call.
        live: RegSet,
        /// The block to continue at.
        to: BlockId,
    },
    /// Jumps to one of `candidates`. For other addresses, tail-calls the function there, or bails out.
    JumpIndirect {
        /// Guest address.
        target: Value,
        /// Addresses inside this function.
        candidates: Vec<(GuestAddr, BlockId)>,
        /// Whether it may be a tail call.
        may_call: bool,
        /// Current value of the link register, if this may be a tail call and the function ever writes the
        /// register.
        link: Option<Value>,
        /// The constant table from which `target` is read, if any.
        table: Option<JumpTable>,
    },
    /// Returns to the caller. If `link` is present and differs from the function's own return address, jumps
    /// to one of `locals` or bails out.
    Return {
        /// The guest's return target, if the function ever writes the link register.
        link: Option<Value>,
        /// Return points of calls into this function's own body.
        locals: Vec<(GuestAddr, BlockId)>,
    },
    /// A syscall.
    Ecall {
        /// Address of the instruction.
        pc: GuestAddr,
        /// Registers that the syscall may read. If the set is complete, the script can resume from here
        /// without native code.
        uses: RegSet,
        /// The block to continue at.
        to: BlockId,
    },
    /// The syscall that ends the script.
    Exit {
        /// Address of the instruction.
        pc: GuestAddr,
    },
    /// Bails out: native code does not support the instruction, or no run reaches this point.
    Leave,
}

/// A jump's table of targets in executable pages. If `register` holds its number and `base` is `index` times
/// the bytes of `width`, the jump goes to candidate `entries[index]`. Other values have no guarantees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JumpTable {
    /// A value that is part of the address, and the number that it must equal.
    pub register: Option<(Value, u64)>,
    /// Distance in bytes of the entry from `start`.
    pub base: Value,
    /// Guest address of the first entry.
    pub start: u64,
    /// Width of an entry.
    pub width: Width,
    /// Indices of the jump's candidates.
    pub entries: Vec<usize>,
}

impl JumpTable {
    /// Whether the table lists all of the jump's `candidates`.
    #[must_use]
    pub fn lists_all(&self, candidates: usize) -> bool {
        self.entries.iter().collect::<HashSet<_>>().len() == candidates
    }
}

impl Terminator {
    /// Possible next blocks in this function.
    pub fn successors(&self) -> impl Iterator<Item = BlockId> {
        let mut named = [None; 2];
        let mut listed: &[(GuestAddr, BlockId)] = &[];
        match self {
            Self::Jump(to)
            | Self::Call { to, .. }
            | Self::CallIndirect { to, .. }
            | Self::Ecall { to, .. } => named[0] = Some(*to),
            Self::Branch { taken, otherwise, .. } => named = [Some(*taken), Some(*otherwise)],
            Self::JumpIndirect { candidates: blocks, .. } | Self::Return { locals: blocks, .. } => {
                listed = blocks;
            }
            Self::TailCall { .. } | Self::Exit { .. } | Self::Leave => {}
        }
        named.into_iter().flatten().chain(listed.iter().map(|(_, block)| *block))
    }

    /// The function of a direct call or tail call.
    #[must_use]
    pub fn callee(&self) -> Option<FunctionId> {
        match self {
            Self::Call { callee, .. } | Self::TailCall { callee, .. } => Some(*callee),
            _ => None,
        }
    }

    /// The value of the link register for comparison with the return address, if any.
    #[must_use]
    pub fn link(&self) -> Option<Value> {
        match self {
            Self::TailCall { link, .. } | Self::JumpIndirect { link, .. } | Self::Return { link, .. } => {
                *link
            }
            _ => None,
        }
    }

    /// Whether this may be a tail call by address.
    #[must_use]
    pub fn is_indirect_tail_call(&self) -> bool {
        matches!(self, Self::JumpIndirect { may_call: true, .. })
    }

    /// Whether this may be a call or tail call by address.
    #[must_use]
    pub fn calls_by_address(&self) -> bool {
        matches!(self, Self::CallIndirect { .. }) || self.is_indirect_tail_call()
    }

    /// Whether this is a call that returns here.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. } | Self::CallIndirect { .. })
    }

    /// Maps the operands to other values.
    #[must_use]
    pub fn map(&self, mut other: impl FnMut(Value) -> Value) -> Self {
        let mut mapped = self.clone();
        match &mut mapped {
            Self::Branch { condition: value, .. } | Self::CallIndirect { target: value, .. } => {
                *value = other(*value);
            }
            Self::JumpIndirect { target, link, table, .. } => {
                *target = other(*target);
                if let Some(table) = table {
                    table.base = other(table.base);
                    table.register = table.register.map(|(value, number)| (other(value), number));
                }
                *link = link.map(other);
            }
            Self::TailCall { link, .. } | Self::Return { link, .. } => *link = link.map(other),
            Self::Jump(_) | Self::Call { .. } | Self::Ecall { .. } | Self::Exit { .. } | Self::Leave => {}
        }
        mapped
    }

    /// Maps the target blocks to others.
    #[must_use]
    pub fn map_targets(&self, other: impl Fn(BlockId) -> BlockId) -> Self {
        let mut mapped = self.clone();
        match &mut mapped {
            Self::Jump(to)
            | Self::Call { to, .. }
            | Self::CallIndirect { to, .. }
            | Self::Ecall { to, .. } => *to = other(*to),
            Self::Branch { taken, otherwise, .. } => {
                *taken = other(*taken);
                *otherwise = other(*otherwise);
            }
            Self::JumpIndirect { candidates: blocks, .. } | Self::Return { locals: blocks, .. } => {
                blocks.iter_mut().for_each(|(_, block)| *block = other(*block));
            }
            Self::TailCall { .. } | Self::Exit { .. } | Self::Leave => {}
        }
        mapped
    }

    /// The operands.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        let mut values = Vec::new();
        let _same = self.map(|value| {
            values.push(value);
            value
        });
        values.into_iter()
    }
}
