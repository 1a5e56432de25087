//! Functions: lifts their blocks and terminators.

use antares_ir as ir;
use antares_ir::{BinaryOp, Value};
use antares_program::{
    Block, BlockId, Function, FunctionId, GuestAddr, Instruction, Op, Program, Reg, RegSet, Terminator,
};

use crate::{
    LiftError,
    block::{BlockBuilder, Finished},
    gather, hoist,
    instruction::{self, Lifted},
    ranges::Implied,
    stack::StackFacts,
};

/// A function whose blocks are lifted and whose checks are not placed yet.
pub(crate) struct FunctionDraft {
    id: FunctionId,
    entry: GuestAddr,
    pub(crate) link: Reg,
    is_exposed: bool,
    pub(crate) blocks: Vec<BlockDraft>,
}

/// A lifted block.
pub(crate) struct BlockDraft {
    pub(crate) pc: GuestAddr,
    cycles: u64,
    pub(crate) builder: BlockBuilder,
    pub(crate) terminator: ir::Terminator,
    /// Whether it ends in a jump through a table that lists all targets.
    pub(crate) is_table: bool,
    /// What the block makes of `sp`; none if that is neither `sp` nor `s0` and a number.
    pub(crate) sp_moved: Option<StackMove>,
    /// What it makes of `s0`, in the same way.
    pub(crate) frame_moved: Option<StackMove>,
}

/// `sp` or `s0` as a block found them, and what is added.
pub(crate) type StackMove = (Reg, i64);

/// Lifts every block of a program.
pub(crate) fn lift_blocks(program: &Program, operations_max: u64) -> Result<Vec<FunctionDraft>, LiftError> {
    let mut operations = 0;
    let mut drafts = Vec::with_capacity(program.functions.len());
    for function in &program.functions {
        let lifter =
            Lifter { vm_version: program.options.vm_version, function, writes_link: writes_link(function) };
        let mut blocks = Vec::with_capacity(function.blocks.len());
        for block in &function.blocks {
            let block = lifter.block(block);
            operations += block.builder.ops.len() as u64;
            if operations > operations_max {
                return Err(LiftError::Operations { max: operations_max });
            }
            blocks.push(block);
        }
        let Function { id, entry, link, is_exposed, .. } = *function;
        drafts.push(FunctionDraft { id, entry, link, is_exposed, blocks });
    }
    Ok(drafts)
}

/// Whether `function` may change its link register: by an instruction (operands of fused operations count as written), or
/// by a call of a function that returns through another register and so may do with this one as it likes.
fn writes_link(function: &Function) -> bool {
    let link = function.link;
    let calls_through_another = function.blocks.iter().any(|block| match block.terminator {
        Terminator::Call { link: other, .. } => other != link,
        Terminator::IndirectCall { .. } => link != Reg::RA,
        _ => false,
    });
    if calls_through_another {
        return true;
    }
    let mut instructions = function.blocks.iter().flat_map(|block| &block.instructions);
    instructions.any(|(_, i)| {
        let is_fused = i.rs3 != Reg::ZERO || i.op == Op::Adc;
        i.rd == link || (is_fused && [i.rs1, i.rs2, i.rs3].contains(&link))
    })
}

struct Lifter<'a> {
    vm_version: u32,
    function: &'a Function,
    writes_link: bool,
}

impl Lifter<'_> {
    fn block(&self, block: &Block) -> BlockDraft {
        let mut builder = BlockBuilder::new();
        let mut cycles = 0;
        let mut terminator = None;
        for (index, (pc, i)) in block.instructions.iter().enumerate() {
            cycles += u64::from(i.cycles);
            match instruction::lift(&mut builder, *pc, i) {
                Lifted::Done => {}
                Lifted::Ends => {
                    debug_assert_eq!(index + 1, block.instructions.len());
                    terminator = Some(self.ending(&mut builder, *pc, i, &block.terminator));
                }
                Lifted::Unsupported => {
                    terminator = Some(ir::Terminator::Leave);
                    break;
                }
            }
        }
        let terminator =
            terminator.unwrap_or_else(|| self.without_instruction(&mut builder, &block.terminator));
        let (sp_moved, frame_moved) = (moved(&builder, Reg::SP), moved(&builder, Reg::S0));
        let is_table = matches!(block.terminator, Terminator::IndirectJump { is_table: true, .. });
        BlockDraft { pc: block.pc, cycles, builder, terminator, is_table, sp_moved, frame_moved }
    }

    /// The terminator of a block whose last instruction is a jump, a branch or an `ecall`.
    fn ending(
        &self,
        b: &mut BlockBuilder,
        pc: GuestAddr,
        i: &Instruction,
        terminator: &Terminator,
    ) -> ir::Terminator {
        let next = GuestAddr(pc.0.wrapping_add(u64::from(i.length)));
        match terminator {
            Terminator::Branch { taken, otherwise } => {
                let condition = instruction::condition(b, i);
                ir::Terminator::Branch { condition, taken: *taken, otherwise: *otherwise }
            }
            Terminator::Ecall(to) => ir::Terminator::Ecall { pc, uses: syscall_registers(), to: *to },
            Terminator::Exit => ir::Terminator::Exit { pc },
            Terminator::IndirectCall { to, .. } => {
                let target = self.jump_target(b, i, next);
                ir::Terminator::CallIndirect { target, live: RegSet::EMPTY, to: *to }
            }
            // What is found by its address returns through ra, and this function does not.
            Terminator::IndirectJump { candidates, .. }
                if candidates.is_empty() && self.function.link != Reg::RA =>
            {
                ir::Terminator::Leave
            }
            Terminator::IndirectJump { candidates, .. } => {
                let target = self.jump_target(b, i, next);
                let link = if self.function.link == Reg::RA { self.link(b) } else { None };
                let may_call = candidates.is_empty();
                ir::Terminator::JumpIndirect {
                    target,
                    candidates: self.addresses(candidates),
                    may_call,
                    link,
                    table: None,
                }
            }
            Terminator::Return { locals } => {
                ir::Terminator::Return { link: self.link(b), locals: self.addresses(locals) }
            }
            Terminator::Jump(_) | Terminator::Call { .. } | Terminator::TailCall(_) => {
                let link = b.address_constant(next);
                b.set(i.rd, link);
                self.without_instruction(b, terminator)
            }
            Terminator::Leave => ir::Terminator::Leave,
        }
    }

    /// The terminator of a block that only falls through.
    fn without_instruction(&self, b: &mut BlockBuilder, terminator: &Terminator) -> ir::Terminator {
        match terminator {
            Terminator::Jump(to) => ir::Terminator::Jump(*to),
            Terminator::Call { callee, to, .. } => ir::Terminator::Call { callee: *callee, to: *to },
            Terminator::TailCall(callee) => ir::Terminator::TailCall { callee: *callee, link: self.link(b) },
            _ => ir::Terminator::Leave,
        }
    }

    /// The target of `jalr`, with its link register written. VM version 0 writes the link register first, so that a
    /// target in the same register is lost (ckb-vm issue 92).
    fn jump_target(&self, b: &mut BlockBuilder, i: &Instruction, next: GuestAddr) -> Value {
        let link = b.address_constant(next);
        if self.vm_version == 0 {
            b.set(i.rd, link);
        }
        let base = b.get(i.rs1);
        let sum = if i.imm == 0 { base } else { b.binary_const(BinaryOp::Add, base, i.imm) };
        let target = b.binary_const(BinaryOp::And, sum, !1);
        b.set(i.rd, link);
        target
    }

    fn link(&self, b: &mut BlockBuilder) -> Option<Value> {
        self.writes_link.then(|| b.get(self.function.link))
    }

    fn addresses(&self, blocks: &[BlockId]) -> Vec<(GuestAddr, BlockId)> {
        blocks.iter().map(|id| (self.function.blocks[id.0 as usize].pc, *id)).collect()
    }
}

/// Registers that most syscalls may read: arguments and number.
fn syscall_registers() -> RegSet {
    (10..=17).map(Reg).fold(RegSet::EMPTY, RegSet::with)
}

fn moved(builder: &BlockBuilder, register: Reg) -> Option<StackMove> {
    let Some((_, value)) = builder.writes().into_iter().find(|(written, _)| *written == register) else {
        return Some((register, 0));
    };
    let address = builder.address(value);
    let from = builder.read_of(address.base).filter(|from| [Reg::SP, Reg::S0].contains(from))?;
    Some((from, address.offset))
}

impl FunctionDraft {
    /// Adds a block at `pc` that leaves native code.
    pub(crate) fn add_leave(&mut self, pc: GuestAddr) -> BlockId {
        let id = BlockId(u32::try_from(self.blocks.len()).unwrap_or(u32::MAX));
        self.blocks.push(BlockDraft {
            pc,
            cycles: 0,
            builder: BlockBuilder::new(),
            terminator: ir::Terminator::Leave,
            is_table: false,
            sp_moved: None,
            frame_moved: None,
        });
        id
    }

    /// Places the checks, across blocks if they are `movable`; `stack` says where `sp` stands at each block's entry, from
    /// its place at the function's.
    pub(crate) fn finish(
        self,
        stack: &StackFacts,
        vm_version: u32,
        movable: Option<Implied>,
    ) -> ir::Function {
        let mut frame_low: Option<i64> = None;
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (mut block, &distance) in self.blocks.into_iter().zip(&stack.distances) {
            if let Some(low) = distance.and_then(|distance| block.take_frame(distance)) {
                frame_low = Some(frame_low.map_or(low, |lowest| lowest.min(low)));
            }
            if self.link == Reg::RA {
                block.allow_tail_call(distance);
            }
            blocks.push(block.with_checks(vm_version));
        }
        if let Some(implied) = movable {
            hoist::place(&mut blocks, frame_low, implied);
        }
        ir::Function {
            id: self.id,
            entry: self.entry,
            link: self.link,
            is_exposed: self.is_exposed,
            is_resumable: false,
            params: RegSet::EMPTY,
            results: RegSet::EMPTY,
            frame_low,
            sp_after: stack.after,
            blocks: blocks.into_iter().map(finish).collect(),
        }
    }
}

/// The block with its checks in place.
fn finish(draft: hoist::Draft) -> ir::Block {
    let finished = Finished::new(&draft.ops, &draft.checks);
    ir::Block {
        pc: draft.pc,
        cycles: draft.cycles,
        charge: ir::Charge::Entered,
        is_metered: false,
        is_bounded: false,
        writes: draft.writes.into_iter().map(|(register, value)| (register, finished.value(value))).collect(),
        terminator: draft.terminator.map(|value| finished.value(value)),
        ops: finished.ops,
    }
}

impl BlockDraft {
    /// Makes it a block that does nothing but leave native code.
    pub(crate) fn empty(&mut self) {
        self.builder = BlockBuilder::new();
        (self.cycles, self.terminator) = (0, ir::Terminator::Leave);
    }

    /// Lets an indirect jump be a tail call where the stack frame is gone, or there is none, unless it is known to be a
    /// table's: a tail call reads whatever some function reads.
    fn allow_tail_call(&mut self, distance: Option<i64>) {
        if self.is_table {
            return;
        }
        let end = match (distance, self.sp_moved) {
            (Some(distance), Some((Reg::SP, by))) => Some(distance.wrapping_add(by)),
            _ => None,
        };
        if let ir::Terminator::JumpIndirect { may_call, link, .. } = &mut self.terminator {
            *may_call |= end == Some(0);
            *link = link.filter(|_| *may_call);
        }
    }

    fn take_frame(&mut self, distance: i64) -> Option<i64> {
        let sp = (0..).map(Value).take(self.builder.ops.len());
        let sp = sp.into_iter().find(|value| self.builder.read_of(*value) == Some(Reg::SP))?;
        self.builder.accesses.take_frame(sp, distance)
    }

    fn with_checks(mut self, vm_version: u32) -> hoist::Draft {
        gather::fold(&mut self.builder.ops);
        hoist::Draft {
            pc: self.pc,
            cycles: self.cycles,
            checks: self.builder.accesses.checks(vm_version),
            writes: self.builder.writes(),
            ops: self.builder.ops,
            terminator: self.terminator,
        }
    }
}
