//! Lifts functions: their blocks and terminators.

use antares_ir as ir;
use antares_ir::{BinaryOp, Value};
use antares_program::{Block, BlockId, Function, GuestAddr, Instruction, Program, Reg, RegSet, Terminator};

use crate::{
    LiftError,
    block::BlockBuilder,
    instruction::{self, Lifted},
    shared_jumps::SharedJumps,
};

pub(crate) fn lift_functions(program: &Program, operations_max: u64) -> Result<Vec<ir::Function>, LiftError> {
    let mut operations = 0;
    let mut functions = Vec::with_capacity(program.functions.len());
    for function in &program.functions {
        let lifter = Lifter {
            vm_version: program.options.vm_version,
            function,
            writes_link: writes_link(function),
            shared: SharedJumps::of(function),
        };
        let mut blocks = Vec::with_capacity(function.blocks.len() + lifter.shared.jumps.len());
        for block in lifter.blocks() {
            operations += block.ops.iter().filter(|op| !matches!(op, ir::Op::Check { .. })).count() as u64;
            if operations > operations_max {
                return Err(LiftError::Operations { max: operations_max });
            }
            blocks.push(block);
        }
        let Function { id, entry, link, is_exposed, .. } = *function;
        functions.push(ir::Function {
            id,
            entry,
            link,
            is_exposed,
            is_resumable: false,
            params: RegSet::EMPTY,
            results: RegSet::EMPTY,
            frame_low: None,
            sp_after: ir::SpAfter::Compared,
            returns: ir::Returns::Once,
            blocks,
            loops: Vec::new(),
        });
    }
    Ok(functions)
}

/// Whether `function` may change its link register. An instruction may write it; operands of fused operations
/// count as written. A call of a function that returns through another register may change it too.
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
    instructions.any(|(_, i)| i.may_write(link))
}

struct Lifter<'a> {
    vm_version: u32,
    function: &'a Function,
    writes_link: bool,
    shared: SharedJumps<'a>,
}

impl Lifter<'_> {
    /// The function's own blocks, then those that its jumps share.
    fn blocks(&self) -> impl Iterator<Item = ir::Block> {
        let own = self.function.blocks.iter().enumerate().map(|(index, block)| self.block(index, block));
        own.chain(self.shared.jumps.iter().map(|(pc, i, terminator)| {
            let mut builder = BlockBuilder::default();
            let terminator = self.ending(&mut builder, *pc, i, terminator);
            // The jump's own block has charged its cycles.
            builder.finish(*pc, 0, terminator)
        }))
    }

    fn block(&self, index: usize, block: &Block) -> ir::Block {
        let mut builder = BlockBuilder::default();
        let mut cycles = 0;
        let mut terminator = None;
        for (at, (pc, i)) in block.instructions.iter().enumerate() {
            cycles += u64::from(i.cycles);
            match instruction::lift(&mut builder, *pc, i) {
                Lifted::Done => {}
                Lifted::Ends => {
                    debug_assert_eq!(at + 1, block.instructions.len());
                    let shared = self.shared.ends.get(&index).cloned();
                    terminator =
                        shared.or_else(|| Some(self.ending(&mut builder, *pc, i, &block.terminator)));
                }
                Lifted::Unsupported => {
                    terminator = Some(ir::Terminator::Leave);
                    break;
                }
            }
        }
        let terminator =
            terminator.unwrap_or_else(|| self.without_instruction(&mut builder, &block.terminator));
        builder.finish(block.pc, cycles, terminator)
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
            // Code that sets the link register by hand does so in this block.
            Terminator::Call { link, return_pc, .. } if i.rd == Reg::ZERO && !b.holds(*link, *return_pc) => {
                ir::Terminator::Leave
            }
            Terminator::IndirectCall { return_pc, .. }
                if i.rd == Reg::ZERO && !b.holds(Reg::RA, *return_pc) =>
            {
                ir::Terminator::Leave
            }
            Terminator::Ecall(to) => ir::Terminator::Ecall { pc, uses: syscall_registers(), to: *to },
            Terminator::Exit => ir::Terminator::Exit { pc },
            Terminator::IndirectCall { to, .. } => {
                let target = self.jump_target(b, i, next);
                ir::Terminator::CallIndirect { target, live: RegSet::EMPTY, to: *to }
            }
            // Functions found by address return through `ra`, unlike this function.
            Terminator::IndirectJump { candidates, .. }
                if candidates.is_empty() && self.function.link != Reg::RA =>
            {
                ir::Terminator::Leave
            }
            Terminator::IndirectJump { candidates, is_table } => {
                let target = self.jump_target(b, i, next);
                let link = if self.function.link == Reg::RA { self.link(b) } else { None };
                let (may_call, candidates) = (!is_table, self.addresses(candidates));
                ir::Terminator::JumpIndirect { target, candidates, may_call, link, table: None }
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

    /// The target of `jalr`; also writes its link register. VM version 0 writes the link register first,
    /// which destroys a target in the same register (ckb-vm issue 92).
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

/// The registers that most syscalls may read: arguments and number.
fn syscall_registers() -> RegSet {
    (10..=17).map(Reg).fold(RegSet::EMPTY, RegSet::with)
}
