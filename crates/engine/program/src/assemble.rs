//! Turns drafts into functions: splits walked code into blocks and numbers functions and blocks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use antares_abi::{CompileOptions, Isa};

use crate::{
    Block, BlockId, Decoder, Function, FunctionId, GuestAddr, Image, Instruction, Op, Reg, Terminator,
    explore::{FunctionDraft, Key},
    line::Line,
    trace::is_overlong,
};

/// Bytes of a call of millicode: `jal t0` has no short form.
const CALL_BYTES: u64 = 4;

/// Maximum instructions of millicode to follow: it stores or loads some registers and moves the stack.
const MILLICODE_INSTRUCTIONS_MAX: usize = 32;

/// The functions that `drafts` describe. Callers anywhere may enter the functions in `exposed`.
pub(crate) fn assemble(
    image: &Image,
    decoder: &mut Decoder,
    drafts: &BTreeMap<Key, FunctionDraft>,
    exposed: &BTreeSet<u64>,
) -> Vec<Function> {
    let ids: BTreeMap<Key, FunctionId> = drafts.keys().copied().zip((0..).map(FunctionId)).collect();
    let names: BTreeMap<u64, &str> =
        image.symbols.iter().map(|symbol| (symbol.address.0, symbol.name.as_str())).collect();
    drafts
        .iter()
        .map(|(&key, draft)| {
            let blocks = Builder::new(decoder, &ids, (image.options, key), draft).build();
            Function {
                id: ids[&key],
                entry: GuestAddr(key.0),
                link: key.1,
                name: names.get(&key.0).map(|name| (*name).to_owned()),
                is_exposed: key.1 == Reg::RA && exposed.contains(&key.0),
                blocks,
            }
        })
        .collect()
}

struct Builder<'a, 'd> {
    decoder: &'a mut Decoder<'d>,
    functions: &'a BTreeMap<Key, FunctionId>,
    options: CompileOptions,
    key: Key,
    draft: &'a FunctionDraft,
    numbers: BTreeMap<u64, BlockId>,
    /// The pcs of blocks without instructions, which stand for code outside.
    outside: Vec<u64>,
    /// Target lists of computed jumps so far, for sharing.
    lists: BTreeMap<Targets, Arc<[BlockId]>>,
}

/// The possible targets of a computed jump.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Targets {
    /// The targets that the table at an address lists.
    Table(u64),
    /// The candidates of all jumps of the function.
    Candidates,
    /// The return points of calls into the function's own body.
    LocalReturns,
}

impl<'a, 'd> Builder<'a, 'd> {
    fn new(
        decoder: &'a mut Decoder<'d>,
        functions: &'a BTreeMap<Key, FunctionId>,
        (options, key): (CompileOptions, Key),
        draft: &'a FunctionDraft,
    ) -> Self {
        let others = draft.leaders.iter().copied().filter(|pc| *pc != key.0);
        let numbers = std::iter::once(key.0).chain(others).zip((0..).map(BlockId)).collect();
        Self { decoder, functions, options, key, draft, numbers, outside: Vec::new(), lists: BTreeMap::new() }
    }

    fn build(mut self) -> Vec<Block> {
        let mut leaders: Vec<(BlockId, u64)> = self.numbers.iter().map(|(&pc, &id)| (id, pc)).collect();
        leaders.sort_unstable();
        let mut blocks: Vec<Block> = leaders.into_iter().map(|(_, pc)| self.block(pc)).collect();
        for pc in self.outside {
            let terminator = match self.functions.get(&(pc, self.key.1)) {
                Some(&function) => Terminator::TailCall(function),
                None => Terminator::Leave,
            };
            blocks.push(Block { pc: GuestAddr(pc), instructions: Vec::new(), terminator });
        }
        blocks
    }

    /// The block at `pc`, or a new one without instructions that leaves the function.
    fn number(&mut self, pc: u64) -> BlockId {
        let next = self.draft.leaders.len() + self.outside.len();
        let next = BlockId::at(next);
        let outside = &mut self.outside;
        *self.numbers.entry(pc).or_insert_with(|| {
            outside.push(pc);
            next
        })
    }

    fn block(&mut self, start: u64) -> Block {
        let mut instructions = Vec::new();
        let mut pc = start;
        let terminator = loop {
            if pc != start && self.draft.leaders.contains(&pc) {
                break Terminator::Jump(self.number(pc));
            }
            // Code that was not walked is a tail call or no instruction.
            if !self.draft.walked.contains_key(&pc) {
                break match instructions.is_empty() {
                    true => Terminator::Leave,
                    false => Terminator::Jump(self.number(pc)),
                };
            }
            let Some(instruction) = self.decoder.decode(pc) else { break Terminator::Leave };
            instructions.push((GuestAddr(pc), instruction));
            let next = pc.wrapping_add(u64::from(instruction.length));
            if let Some(terminator) = self.terminator(pc, next, &instructions) {
                break terminator;
            }
            pc = next;
        };
        if self.options.isa.has(Isa::MOP) && is_overlong(self.decoder, &instructions) {
            return Block { pc: GuestAddr(start), instructions: Vec::new(), terminator: Terminator::Leave };
        }
        Block { pc: GuestAddr(start), instructions, terminator }
    }

    fn terminator(&mut self, pc: u64, next: u64, line: &[(GuestAddr, Instruction)]) -> Option<Terminator> {
        let instruction = line.last()?.1;
        let Instruction { op, rd, imm, .. } = instruction;
        let is_link = rd == Reg::RA || rd == Reg::T0;
        Some(match op {
            Op::Jal if is_link => self.call((pc.wrapping_add_signed(imm), rd), next),
            Op::Jal => {
                let target = pc.wrapping_add_signed(imm);
                match self.linked(line) {
                    Some(return_pc) => self.call((target, Reg::RA), return_pc),
                    None => Terminator::Jump(self.number(target)),
                }
            }
            Op::FarJumpRel => self.call((pc.wrapping_add_signed(imm) & !1, Reg::RA), next),
            Op::FarJumpAbs => self.call((imm.cast_unsigned() & !1, Reg::RA), next),
            Op::Jalr => self.indirect(next, line),
            Op::Ecall if is_exit(line) => Terminator::Exit,
            Op::Ecall => Terminator::Ecall(self.number(next)),
            Op::Ebreak if self.draft.traps.contains(&pc) => Terminator::Leave,
            _ if instruction.is_branch() => Terminator::Branch {
                taken: self.number(pc.wrapping_add_signed(imm)),
                otherwise: self.number(next),
            },
            _ => return None,
        })
    }

    fn call(&mut self, callee: Key, next: u64) -> Terminator {
        match self.functions.get(&callee) {
            Some(&id) => Terminator::Call {
                callee: id,
                link: callee.1,
                return_pc: GuestAddr(next),
                to: self.number(next),
            },
            None => Terminator::Leave,
        }
    }

    /// Whether `start` is the return point of millicode that frees the stack frame.
    fn follows_restore(&mut self, start: u64) -> bool {
        let call = start.wrapping_sub(CALL_BYTES);
        let is_call = |i: &&Instruction| i.op == Op::Jal && i.rd == Reg::T0;
        let Some(&Instruction { imm, .. }) = self.draft.walked.get(&call).filter(is_call) else {
            return false;
        };
        let mut pc = call.wrapping_add_signed(imm);
        for _ in 0..MILLICODE_INSTRUCTIONS_MAX {
            match self.decoder.decode(pc) {
                Some(instruction) if gives_back(&instruction) => return true,
                Some(instruction) if !matches!(instruction.op, Op::Jal | Op::Jalr) => {
                    pc += u64::from(instruction.length);
                }
                _ => return false,
            }
        }
        false
    }

    /// The return address of the jump that ends `line`, if code set the link register by hand.
    fn linked(&self, line: &[(GuestAddr, Instruction)]) -> Option<u64> {
        let ((pc, _), before) = line.split_last()?;
        let return_pc = *self.draft.linked_jumps.get(&pc.0)?;
        (followed(before).constant(Reg::RA) == Some(return_pc)).then_some(return_pc)
    }

    fn indirect(&mut self, next: u64, line: &[(GuestAddr, Instruction)]) -> Terminator {
        let Some(((_, instruction), before)) = line.split_last() else { return Terminator::Leave };
        let Instruction { rd, rs1, imm, .. } = *instruction;
        if rd == Reg::ZERO && rs1 == self.key.1 && imm == 0 {
            return Terminator::Return { locals: self.list(Targets::LocalReturns) };
        }
        let (known, linked) = (followed(before), self.linked(line));
        if let Some(target) = known.jump_target(instruction, self.options.vm_version) {
            // The script may load code there at run time.
            let is_tail = || self.functions.contains_key(&(target, self.key.1));
            match (rd, linked) {
                (Reg::ZERO, Some(return_pc)) => return self.call((target, Reg::RA), return_pc),
                (Reg::ZERO, None) if self.draft.leaders.contains(&target) || is_tail() => {
                    return Terminator::Jump(self.number(target));
                }
                (Reg::RA | Reg::T0, _) if self.functions.contains_key(&(target, rd)) => {
                    return self.call((target, rd), next);
                }
                _ => {}
            }
        }
        if let Some(return_pc) = linked {
            return Terminator::IndirectCall { return_pc: GuestAddr(return_pc), to: self.number(return_pc) };
        }
        if rd == Reg::RA && !self.draft.local_returns.contains(&next) {
            return Terminator::IndirectCall { return_pc: GuestAddr(next), to: self.number(next) };
        }
        // A jump after the release of the stack frame leaves the function.
        let is_done = before.iter().any(|(_, instruction)| gives_back(instruction));
        if rd == Reg::ZERO && (is_done || self.follows_restore(line[0].0.0)) {
            return Terminator::IndirectJump { candidates: Arc::default(), is_table: false };
        }
        let table = known.origin(rs1).filter(|table| self.draft.tables.contains_key(table));
        let candidates = self.list(table.map_or(Targets::Candidates, Targets::Table));
        Terminator::IndirectJump { candidates, is_table: table.is_some() }
    }

    fn list(&mut self, targets: Targets) -> Arc<[BlockId]> {
        if let Some(list) = self.lists.get(&targets) {
            return list.clone();
        }
        let draft = self.draft;
        let list: Arc<[BlockId]> = match targets {
            Targets::Table(table) => draft.tables[&table].iter().map(|pc| self.number(*pc)).collect(),
            Targets::Candidates => draft.candidates.iter().map(|pc| self.number(*pc)).collect(),
            Targets::LocalReturns => draft.local_returns.iter().map(|pc| self.number(*pc)).collect(),
        };
        self.lists.insert(targets, list.clone());
        list
    }
}

/// The known values after `instructions`, from the start of the block: a jump target is certain only if the
/// block itself computes the address.
fn followed(instructions: &[(GuestAddr, Instruction)]) -> Line {
    let mut known = Line::new();
    for (pc, instruction) in instructions {
        known.step(pc.0, instruction);
    }
    known
}

/// Whether an instruction frees stack space.
fn gives_back(instruction: &Instruction) -> bool {
    let Instruction { op, rd, rs1, imm, .. } = *instruction;
    op == Op::Addi && (rd, rs1) == (Reg::SP, Reg::SP) && imm > 0
}

/// Whether the `ecall` that ends `line` is the exit syscall: the last write of `a7` is 93.
fn is_exit(line: &[(GuestAddr, Instruction)]) -> bool {
    let before = &line[..line.len() - 1];
    let last_write = before.iter().rev().find(|(_, instruction)| instruction.may_write(Reg::A7));
    last_write.is_some_and(|(_, instruction)| match instruction.op {
        Op::Addi => instruction.rs1 == Reg::ZERO && instruction.imm == 93,
        Op::LoadImm | Op::LoadUimm => instruction.imm == 93,
        _ => false,
    })
}
