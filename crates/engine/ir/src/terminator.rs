//! How blocks end.

use std::collections::HashSet;

use antares_program::{BlockId, FunctionId, GuestAddr, RegSet};

use crate::{Value, Width};

/// How a block ends. Register writes of the block have happened before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// Goes on at a block.
    Jump(BlockId),
    /// Goes to `taken` if the value is not 0.
    Branch {
        /// 0 or not.
        condition: Value,
        /// Where to go if it is not 0.
        taken: BlockId,
        /// Where to go if it is 0.
        otherwise: BlockId,
    },
    /// Calls a function; the link register has been written.
    Call {
        /// The function.
        callee: FunctionId,
        /// Where to go on.
        to: BlockId,
    },
    /// Goes to another function for good. If `link` is given it must equal the function's own return address
    /// when that one returns.
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
        /// Where to go on.
        to: BlockId,
    },
    /// Jumps to one of `candidates`; else it is a tail call of the function there, or leaves native code.
    JumpIndirect {
        /// Guest address.
        target: Value,
        /// Addresses inside this function.
        candidates: Vec<(GuestAddr, BlockId)>,
        /// Whether it may be a tail call.
        may_call: bool,
        /// Current value of the link register, if it may be a tail call and the function ever writes the
        /// register.
        link: Option<Value>,
        /// What `target` is read from, if that never changes.
        table: Option<JumpTable>,
    },
    /// Returns to the caller. If `link` is given: only if it equals the function's own return address, else
    /// jumps to one of `locals`, or leaves native code.
    Return {
        /// Where the guest jumps to, if the function ever writes the link register.
        link: Option<Value>,
        /// Return points of calls into this function's own middle.
        locals: Vec<(GuestAddr, BlockId)>,
    },
    /// A syscall.
    Ecall {
        /// Address of the instruction.
        pc: GuestAddr,
        /// Registers that the syscall may read. If these are all of them, the script can go on from here
        /// without native code.
        uses: RegSet,
        /// Where to go on.
        to: BlockId,
    },
    /// The syscall that ends the script.
    Exit {
        /// Address of the instruction.
        pc: GuestAddr,
    },
    /// Leaves native code: there is no instruction that it runs, or no run comes here.
    Leave,
}

/// A table of places that a jump goes to, in executable pages. If `register` is as said, and `base` is
/// `index` times the bytes of `width`, the jump goes to candidate `entries[index]`; nothing is said about
/// other values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JumpTable {
    /// A value that is part of the address, and the number that it has to be.
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
    /// Whether each of the jump's `candidates` is in the table.
    #[must_use]
    pub fn lists_all(&self, candidates: usize) -> bool {
        self.entries.iter().collect::<HashSet<_>>().len() == candidates
    }
}

impl Terminator {
    /// Blocks of this function that may come next.
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

    /// The function that is called by its name, for good or not.
    #[must_use]
    pub fn callee(&self) -> Option<FunctionId> {
        match self {
            Self::Call { callee, .. } | Self::TailCall { callee, .. } => Some(*callee),
            _ => None,
        }
    }

    /// The same, to name another one.
    pub fn callee_mut(&mut self) -> Option<&mut FunctionId> {
        match self {
            Self::Call { callee, .. } | Self::TailCall { callee, .. } => Some(callee),
            _ => None,
        }
    }

    /// The value of the link register that is compared with the return address, if one is.
    #[must_use]
    pub fn link(&self) -> Option<Value> {
        match self {
            Self::TailCall { link, .. } | Self::JumpIndirect { link, .. } | Self::Return { link, .. } => {
                *link
            }
            _ => None,
        }
    }

    /// Whether it may be a tail call of a function that is found by its address.
    #[must_use]
    pub fn is_indirect_tail_call(&self) -> bool {
        matches!(self, Self::JumpIndirect { may_call: true, .. })
    }

    /// Whether a function is called, for good or not, that is found by its address.
    #[must_use]
    pub fn calls_by_address(&self) -> bool {
        matches!(self, Self::CallIndirect { .. }) || self.is_indirect_tail_call()
    }

    /// Whether a function is called that comes back here.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. } | Self::CallIndirect { .. })
    }

    /// The same terminator on other values.
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

    /// The same terminator with other blocks to go on at.
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

    /// Its operands.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        let (mut own, mut listed) = (None, None);
        match self {
            Self::Branch { condition: value, .. } | Self::CallIndirect { target: value, .. } => {
                own = Some(*value);
            }
            Self::JumpIndirect { target, table, .. } => {
                own = Some(*target);
                listed = table.as_ref();
            }
            _ => {}
        }
        let listed = listed.map(|table| [Some(table.base), table.register.map(|(value, _)| value)]);
        own.into_iter().chain(listed.into_iter().flatten().flatten()).chain(self.link())
    }
}
