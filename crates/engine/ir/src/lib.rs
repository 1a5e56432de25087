//! The intermediate representation of guest code, in 64-bit values and guest registers.
//!
//! Inside a block, each operation produces at most one value, numbered by the operation's index. Between
//! blocks, guest registers hold values: a block reads them ([`Op::Read`]) and writes them at its end
//! ([`Block::writes`]).

mod cfg;
mod charge;
mod checks;
pub mod dataflow;
mod dominators;
mod linear;
mod loop_nest;
mod operators;
mod terminator;
mod text;
mod verify;
mod versioned;

use antares_abi::{CompileOptions, GUEST_MEMORY_BYTES, STORES_ANYWHERE};
use antares_program::{FunctionId, GuestAddr, Reg, RegSet};

pub use cfg::{Cfg, reached, successors};
pub use charge::Charge;
pub use dominators::DominatorTree;
pub use linear::Linear;
pub use loop_nest::{ENTRY_FREQUENCY, LoopNest, frequencies};
pub use operators::{BinaryOp, UnaryOp};
pub use terminator::{JumpTable, Terminator};
pub use verify::{FormRule, VerifyError, verify, verify_unsigned};
pub use versioned::{LinearSum, LoopSpan, VersionedLoop};

/// A value of a block: the index of the operation that produces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u32);

impl Value {
    /// The value of operation number `index`.
    ///
    /// # Panics
    /// Panics from 2^32 operations on, far beyond the limits.
    #[must_use]
    pub fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("limits keep operations below 2^32"))
    }
}

/// Width of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
    /// 8 bytes.
    Double,
}

impl Width {
    /// All widths.
    pub const ALL: [Self; 4] = [Self::Byte, Self::Half, Self::Word, Self::Double];

    /// Bytes of the access.
    #[must_use]
    pub const fn bytes(self) -> i64 {
        1 << self as i64
    }
}

/// The kind of access that a check allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Inside memory.
    Read,
    /// Inside memory and not on an executable page.
    Write,
}

impl Access {
    /// The range `[start, end)` of valid accesses, if stores may lie in `writable`. In VM version 0 a load
    /// may not touch the last byte of memory.
    #[must_use]
    pub fn bounds(self, vm_version: u32, writable: (u64, u64)) -> (u64, u64) {
        match self {
            Self::Write => writable,
            Self::Read if vm_version == 0 => (0, GUEST_MEMORY_BYTES - 1),
            Self::Read => (0, GUEST_MEMORY_BYTES),
        }
    }
}

/// An operation. Addresses are `base + offset` modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A constant.
    Const(i64),
    /// The register's value at block entry.
    Read(Reg),
    /// An operation with two operands.
    Binary(BinaryOp, Value, Value),
    /// An operation with one operand.
    Unary(UnaryOp, Value),
    /// A load, extended to 64 bits. A check has passed before.
    Load {
        /// Bytes.
        width: Width,
        /// Whether the load sign-extends; otherwise it zero-extends.
        is_signed: bool,
        /// Base.
        base: Value,
        /// Offset.
        offset: i64,
    },
    /// A store of the low bytes; produces no value. A check has passed before.
    Store {
        /// Bytes.
        width: Width,
        /// Base.
        base: Value,
        /// Offset.
        offset: i64,
        /// The value to store.
        value: Value,
    },
    /// Bails out unless all of `[base + low, base + high)` may be accessed; produces no value.
    Check {
        /// The kind of access.
        access: Access,
        /// Base.
        base: Value,
        /// First offset.
        low: i64,
        /// Offset after the last byte.
        high: i64,
    },
    /// A check that always holds at block entry, because another block ensures it. Produces no value.
    Proved {
        /// The kind of access.
        access: Access,
        /// Base.
        base: Value,
        /// First offset.
        low: i64,
        /// Offset after the last byte.
        high: i64,
    },
    /// The cycles left, negative if the limit is exceeded.
    CyclesLeft,
    /// Charges cycles for the iterations of a loop that the code skips; produces no value.
    Charge(Value),
}

impl Op {
    /// Whether the operation produces a value.
    #[must_use]
    pub fn has_value(&self) -> bool {
        !matches!(self, Self::Store { .. } | Self::Check { .. } | Self::Proved { .. } | Self::Charge(_))
    }

    /// The number that it produces, if it is a constant.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        match *self {
            Self::Const(number) => Some(number),
            _ => None,
        }
    }

    /// The operands.
    #[must_use]
    pub fn operands(&self) -> Vec<Value> {
        let mut operands = Vec::new();
        let _same = self.map(|value| {
            operands.push(value);
            value
        });
        operands
    }

    /// Maps the operands to other values.
    #[must_use]
    pub fn map(&self, mut other: impl FnMut(Value) -> Value) -> Self {
        match *self {
            Self::Const(_) | Self::Read(_) | Self::CyclesLeft => *self,
            Self::Binary(op, a, b) => Self::Binary(op, other(a), other(b)),
            Self::Unary(op, a) => Self::Unary(op, other(a)),
            Self::Charge(a) => Self::Charge(other(a)),
            Self::Load { width, is_signed, base, offset } => {
                Self::Load { width, is_signed, base: other(base), offset }
            }
            Self::Store { width, base, offset, value } => {
                Self::Store { width, base: other(base), offset, value: other(value) }
            }
            Self::Check { access, base, low, high } => Self::Check { access, base: other(base), low, high },
            Self::Proved { access, base, low, high } => Self::Proved { access, base: other(base), low, high },
        }
    }
}

/// Straight-line operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Guest address.
    pub pc: GuestAddr,
    /// Cycles of the whole block.
    pub cycles: u64,
    /// When the cycles are charged.
    pub charge: Charge,
    /// Whether block entry polls the cycle limit.
    pub is_metered: bool,
    /// Whether the block is in a loop that ends within the cycles left. Such a loop does not poll, and its
    /// guard replaces its checks.
    pub is_bounded: bool,
    /// Operations.
    pub ops: Vec<Op>,
    /// Registers and their final values; each register once, never `x0`.
    pub writes: Vec<(Reg, Value)>,
    /// The terminator.
    pub terminator: Terminator,
}

impl Block {
    /// Cycles that are charged at block entry; `None` if the charge is deferred.
    #[must_use]
    pub fn charged(&self) -> Option<u64> {
        match self.charge {
            Charge::Entered | Charge::OfDeferred { .. } => Some(self.cycles),
            Charge::Moved(cycles) => Some(cycles),
            Charge::Deferred => None,
        }
    }

    /// The operation that produces `value`.
    #[must_use]
    pub fn op(&self, value: Value) -> Op {
        self.ops[value.0 as usize]
    }

    /// The number that `value` always holds, if it is constant.
    #[must_use]
    pub fn number(&self, value: Value) -> Option<i64> {
        self.op(value).number()
    }

    /// The register whose entry value `value` is, if any.
    #[must_use]
    pub fn read_of(&self, value: Value) -> Option<Reg> {
        match self.op(value) {
            Op::Read(register) => Some(register),
            _ => None,
        }
    }

    /// The final value of `register`, if the block writes it.
    #[must_use]
    pub fn written(&self, register: Reg) -> Option<Value> {
        self.writes.iter().find(|(written, _)| *written == register).map(|(_, value)| *value)
    }

    /// The registers whose entry values the block reads.
    pub fn reads(&self) -> impl Iterator<Item = Reg> {
        self.ops.iter().filter_map(|op| match *op {
            Op::Read(register) => Some(register),
            _ => None,
        })
    }

    /// The registers that the block reads or writes, with repetitions.
    pub fn mentions(&self) -> impl Iterator<Item = Reg> {
        self.reads().chain(self.writes.iter().map(|(register, _)| *register))
    }

    /// Adds an operation.
    pub fn push(&mut self, op: Op) -> Value {
        self.ops.push(op);
        Value::at(self.ops.len() - 1)
    }

    /// Creates an inserted block, which takes no cycles and writes nothing.
    pub fn between(pc: GuestAddr, ops: Vec<Op>, terminator: Terminator) -> Self {
        Self {
            pc,
            cycles: 0,
            charge: Charge::Entered,
            is_metered: false,
            is_bounded: false,
            ops,
            writes: Vec::new(),
            terminator,
        }
    }
}

/// The value of `sp` after a call of a function, from the best case to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpAfter {
    /// Proved to be the value before the call.
    Same,
    /// Expected to be the value before the call. Callers compare it, except in tail calls, and bail out if it
    /// differs.
    Compared,
    /// Changed; callers do not compare it.
    Moved,
}

/// Where calls of a function return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Returns {
    /// To the caller, once.
    #[default]
    Once,
    /// To the caller, like `setjmp`, and again whenever other code jumps there with the caller's `sp`. All
    /// registers may have changed then.
    Again,
    /// To a function that returned again, like `longjmp`; to the caller only if the target is the caller.
    Far,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its index in the module.
    pub id: FunctionId,
    /// Entry pc.
    pub entry: GuestAddr,
    /// Link register.
    pub link: Reg,
    /// Whether the host or an indirect call may enter it.
    pub is_exposed: bool,
    /// Whether the host may enter it in the middle of a run and read all registers after its return.
    pub is_resumable: bool,
    /// Registers passed in.
    pub params: RegSet,
    /// Registers passed out.
    pub results: RegSet,
    /// If present, the entry checks stores to `[sp + low, sp)` once.
    pub frame_low: Option<i64>,
    /// The value of `sp` after a call.
    pub sp_after: SpAfter,
    /// How it treats return points of other functions.
    pub returns: Returns,
    /// Blocks; the first one is the entry.
    pub blocks: Vec<Block>,
    /// Versioned loops: their bounded blocks, and why these need no checks.
    pub loops: Vec<VersionedLoop>,
}

/// Bytes of the shortest guest instruction.
const INSTRUCTION_BYTES_MIN: u64 = 2;

impl Function {
    /// Operations of all blocks.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.blocks.iter().map(|block| block.ops.len()).sum()
    }

    /// Indices of the functions that it calls directly, with repetitions.
    pub fn callees(&self) -> impl Iterator<Item = usize> {
        self.blocks.iter().filter_map(|block| Some(block.terminator.callee()?.0 as usize))
    }

    /// Whether it compares its link register with the return address.
    #[must_use]
    pub fn compares_link(&self) -> bool {
        self.blocks.iter().any(|block| block.terminator.link().is_some())
    }

    /// The guest address to which a profile attributes a call at the end of `block`: one inside the call
    /// instruction, if known.
    #[must_use]
    pub fn caller(&self, block: &Block) -> GuestAddr {
        match &block.terminator {
            Terminator::Call { to, .. } | Terminator::CallIndirect { to, .. } => {
                GuestAddr(self.blocks[to.0 as usize].pc.0.saturating_sub(INSTRUCTION_BYTES_MIN))
            }
            _ => block.pc,
        }
    }
}

/// The offset to add to the base of `[base + low, base + high)`, and the maximum of the sum for ranges inside
/// the bounds. None if the range is longer than the bounds.
#[must_use]
pub fn span((start, end): (u64, u64), low: i64, high: i64) -> Option<(i64, u64)> {
    let bytes = high.wrapping_sub(low).cast_unsigned();
    let room = end.checked_sub(start)?.checked_sub(bytes)?;
    Some((low.wrapping_sub_unsigned(start), room))
}

/// A whole program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// First address of executable pages.
    pub code_start: u64,
    /// End of executable pages.
    pub code_end: u64,
    /// The range `[start, end)` in which stores are native.
    pub writable: (u64, u64),
    /// Whether other libraries may exist next to this one. Functions found by address may then belong to
    /// them, and may be called by them, so all registers must be available there.
    pub is_open: bool,
    /// Whether even stores that change nothing happen: pages that become executable refuse them.
    pub keeps_stores: bool,
    /// Registers that some exposed function reads.
    pub indirect_params: RegSet,
    /// Registers that some exposed function may change.
    pub indirect_changes: RegSet,
    /// Functions, by id.
    pub functions: Vec<Function>,
}

impl Module {
    /// The range `[start, end)` of valid accesses.
    #[must_use]
    pub fn bounds(&self, access: Access) -> (u64, u64) {
        access.bounds(self.options.vm_version, self.writable)
    }

    /// The range `[start, end)` of accesses that a frame check at function entry allows: loads and stores.
    #[must_use]
    pub fn frame_bounds(&self) -> (u64, u64) {
        let (start, end) = self.bounds(Access::Write);
        (start, end.min(self.bounds(Access::Read).1))
    }

    /// Whether calls of a function may return more than once.
    #[must_use]
    pub fn returns_again(&self, callee: FunctionId) -> bool {
        let callee = &self.functions[callee.0 as usize];
        // Other libraries do not know which registers are read after such a call.
        callee.returns == Returns::Again && callee.sp_after == SpAfter::Same && !self.is_open
    }

    /// Whether `function` marks its frame, for calls that return again.
    #[must_use]
    pub fn has_marks(&self, function: &Function) -> bool {
        function.blocks.iter().any(|block| match block.terminator {
            Terminator::Call { callee, .. } => self.returns_again(callee),
            _ => false,
        })
    }

    /// How a library's header describes its stores.
    #[must_use]
    pub fn retained_stores(&self) -> u32 {
        if self.writable.0 < self.code_end { STORES_ANYWHERE } else { u32::from(self.keeps_stores) }
    }

    /// By function: its direct callers, each once, ascending.
    #[must_use]
    pub fn callers(&self) -> Vec<Vec<usize>> {
        let mut callers = vec![Vec::new(); self.functions.len()];
        for (index, function) in self.functions.iter().enumerate() {
            for callee in function.callees() {
                if callers[callee].last() != Some(&index) {
                    callers[callee].push(index);
                }
            }
        }
        callers
    }
}
