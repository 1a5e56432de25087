//! Promotes calls by address with few possible callees: compares the address with each and calls the match
//! directly, with its own signature.
//!
//! The run-time address decides, not recovery's guess: if no candidate matches, the call by address remains.

use std::collections::{BTreeMap, BTreeSet};

use antares_ir::{BinaryOp, Block, Function, Module, Op, SpAfter, Terminator, Value};
use antares_program::{BlockId, FunctionId, GuestAddr, Program, Reg};

/// Maximum functions found by address for comparisons with all of them. Beyond it comparisons cost more than
/// they save, unless a table lists the candidates.
const TARGETS_MAX: usize = 6;

/// Maximum functions in all tables whose addresses a function computes.
const LISTED_MAX: usize = 16;

/// Maximum comparisons with functions in tables: each is a block.
const COMPARISONS_MAX: usize = 4096;

/// Functions found by address. They restore `sp` according to the stack analysis, as it assumes for calls by
/// address.
type Found = BTreeMap<GuestAddr, FunctionId>;

/// All such functions except the program's entry.
fn found(module: &Module, program: &Program) -> Found {
    let is_target = |function: &&Function| {
        let is_found = function.is_exposed && function.link == Reg::RA && function.entry != program.entry;
        is_found && function.sp_after == SpAfter::Same
    };
    module.functions.iter().filter(is_target).map(|function| (function.entry, function.id)).collect()
}

/// Compares call addresses with all functions found by address, if these are few.
pub(crate) fn promote_few(module: &mut Module, program: &Program) {
    let found = found(module, program);
    if found.len() > TARGETS_MAX {
        return;
    }
    let targets: Vec<_> = found.into_iter().collect();
    let mut left = usize::MAX;
    module.functions.iter_mut().for_each(|function| promote(function, &targets, &mut left));
}

/// Compares call addresses with the functions in tables of the caller, if the functions found by address are
/// many.
pub(crate) fn promote_listed(module: &mut Module, program: &Program) {
    let found = found(module, program);
    if found.len() <= TARGETS_MAX {
        return;
    }
    let mut left = COMPARISONS_MAX;
    for function in &mut module.functions {
        let listed = listed(function, program);
        let targets = listed.iter().filter_map(|entry| Some((*entry, *found.get(entry)?)));
        promote(function, &targets.collect::<Vec<_>>(), &mut left);
    }
}

/// Compares the call addresses of `function` with `targets`, while comparisons are `left`.
fn promote(function: &mut Function, targets: &[(GuestAddr, FunctionId)], left: &mut usize) {
    for index in 0..function.blocks.len() {
        if let Some(call) = Call::of(&function.blocks[index])
            && targets.len() <= *left
        {
            *left -= targets.len();
            call.compare(function, index, targets);
        }
    }
}

/// The functions in tables whose addresses `function` computes; empty if they are too many.
fn listed(function: &Function, program: &Program) -> BTreeSet<GuestAddr> {
    let is_call = |block: &Block| matches!(block.terminator, Terminator::CallIndirect { .. });
    let mut listed = BTreeSet::new();
    if function.blocks.iter().any(is_call) {
        for op in function.blocks.iter().flat_map(|block| &block.ops) {
            if let Op::Const(number) = op
                && let Some(table) = program.function_tables.get(&number.cast_unsigned())
            {
                listed.extend(table);
            }
        }
    }
    if listed.len() > LISTED_MAX { BTreeSet::new() } else { listed }
}

/// A call by an address that a register still holds at the end of its block.
struct Call {
    register: Reg,
    offset: i64,
    terminator: Terminator,
    to: BlockId,
}

impl Call {
    fn of(block: &Block) -> Option<Self> {
        let Terminator::CallIndirect { target, to, .. } = block.terminator else { return None };
        let op = |value: Value| block.op(value);
        // The mask clears bit 0 of the address.
        let Op::Binary(BinaryOp::And, sum, _) = op(target) else { return None };
        let held = |value: Value| match (block.writes.iter().find(|(_, held)| *held == value), op(value)) {
            (Some((register, _)), _) => Some(*register),
            (None, Op::Read(register)) if block.writes.iter().all(|(written, _)| *written != register) => {
                Some(register)
            }
            _ => None,
        };
        let (register, offset) = match (held(sum), op(sum)) {
            (Some(register), _) => (register, 0),
            (None, Op::Binary(BinaryOp::Add, base, offset)) => (held(base)?, block.number(offset)?),
            _ => return None,
        };
        Some(Self { register, offset, terminator: block.terminator.clone(), to })
    }

    /// Extends the block `index` of `function` by a comparison with each of `targets`.
    fn compare(&self, function: &mut Function, index: usize, targets: &[(GuestAddr, FunctionId)]) {
        let pc = function.blocks[index].pc;
        let mut at = index;
        for &(entry, callee) in targets {
            let next = function.blocks.len();
            let (called, otherwise) = (BlockId::at(next), BlockId::at(next + 1));
            let block = &mut function.blocks[at];
            let target = match block.terminator {
                Terminator::CallIndirect { target, .. } => target,
                _ => return,
            };
            let known = block.push(Op::Const(entry.0.cast_signed()));
            let condition = block.push(Op::Binary(BinaryOp::Eq, target, known));
            block.terminator = Terminator::Branch { condition, taken: called, otherwise };
            function.blocks.push(Block::between(pc, Vec::new(), Terminator::Call { callee, to: self.to }));
            at = function.blocks.len();
            function.blocks.push(self.again(pc));
        }
    }

    /// A block that only makes the call.
    fn again(&self, pc: GuestAddr) -> Block {
        let mut block = Block::between(pc, Vec::new(), self.terminator.clone());
        let mut sum = block.push(Op::Read(self.register));
        if self.offset != 0 {
            let offset = block.push(Op::Const(self.offset));
            sum = block.push(Op::Binary(BinaryOp::Add, sum, offset));
        }
        let mask = block.push(Op::Const(!1));
        let target = block.push(Op::Binary(BinaryOp::And, sum, mask));
        block.terminator = block.terminator.map(|_| target);
        block
    }
}
