//! Follows the code of one function and records block starts, calls, exits and constants.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ops::Range,
};

use crate::{
    Decoder, Image, Instruction, Op, Reg,
    code_table::{self, CodeTable},
    jump_table,
    line::{Line, Sum},
};

/// A function's identity: entry and link register.
pub(crate) type Key = (u64, Reg);

/// Maximum instructions of a block; longer straight-line code is split.
const BLOCK_INSTRUCTIONS_MAX: usize = 4096;

/// Reach of a computed jump without other hints: any instruction within these bytes may be its target.
/// `memset` and `memcpy` of picolibc and newlib jump into their own unrolled bodies.
const COMPUTED_REACH_BYTES: u64 = 160;

/// Maximum instructions of a shared function end: libgcc's `__riscv_restore_12` has 21.
const SHARED_END_INSTRUCTIONS_MAX: usize = 32;

/// Facts about a function before recovery builds its blocks.
#[derive(Debug, Default)]
pub(crate) struct FunctionDraft {
    /// Starts of blocks.
    pub(crate) leaders: BTreeSet<u64>,
    /// Every instruction visited, by pc.
    pub(crate) walked: BTreeMap<u64, Instruction>,
    /// Reached addresses that hold no instruction.
    pub(crate) invalid: BTreeSet<u64>,
    /// `ebreak`s at the end of a function: how compilers abort. The interpreter takes over there.
    pub(crate) traps: BTreeSet<u64>,
    pub(crate) calls: BTreeSet<Key>,
    /// Targets of jumps that leave the function.
    pub(crate) tails: BTreeSet<u64>,
    /// Return addresses of calls.
    pub(crate) returns: BTreeSet<u64>,
    /// Return points of calls into the function's own body, and other local targets of its returns.
    pub(crate) local_returns: BTreeSet<u64>,
    /// Jumps that are calls, because the link register holds an address in this function, by pc.
    pub(crate) linked_jumps: BTreeMap<u64, u64>,
    /// Possible targets of indirect jumps.
    pub(crate) candidates: BTreeSet<u64>,
    /// The candidates that each jump table lists, by the table's address.
    pub(crate) tables: BTreeMap<u64, Vec<u64>>,
    /// Addresses that the code computes.
    pub(crate) constants: BTreeSet<u64>,
}

impl FunctionDraft {
    /// All instructions except those where another function may begin. These follow a call or a system call
    /// that may never return, or a jump to the next address, such as a tail call. They are also candidates of
    /// computed jumps that no table lists, since such a jump may be a tail call.
    pub(crate) fn insides(&self) -> impl Iterator<Item = u64> {
        let ends = |(pc, instruction): (&u64, &Instruction)| {
            let is_end = match instruction.op {
                Op::Jal if instruction.rd == Reg::ZERO => instruction.imm == i64::from(instruction.length),
                Op::Jal | Op::Jalr => instruction.rd != Reg::ZERO,
                Op::FarJumpRel | Op::FarJumpAbs | Op::Ecall | Op::Ebreak => true,
                _ => false,
            };
            is_end.then(|| pc.wrapping_add(u64::from(instruction.length)))
        };
        let behind: HashSet<u64> = self.walked.iter().filter_map(ends).collect();
        let listed: HashSet<u64> = self.tables.values().flatten().copied().collect();
        let is_guess = move |pc: &u64| self.candidates.contains(pc) && !listed.contains(pc);
        self.walked.keys().copied().filter(move |pc| !behind.contains(pc) && !is_guess(pc))
    }

    /// Whether everything reached is code.
    pub(crate) fn is_clean(&self) -> bool {
        // Compilers place non-instructions after a call that never returns.
        self.invalid.is_subset(&self.returns) && !self.walked.is_empty()
    }
}

/// Facts about the whole program before recovery explores functions.
pub(crate) struct Surroundings {
    /// Data words that look like code addresses ([`code_words_in_data`](crate::taken::code_words_in_data)).
    pub(crate) words: Vec<u64>,
    /// Addresses that code computes ([`references`](jump_table::references)).
    pub(crate) references: Vec<u64>,
    /// Observed targets of jumps at run time, ascending.
    pub(crate) jumped: Vec<u64>,
    /// Whether hints list a called address.
    pub(crate) has_called: bool,
}

/// Follows the function `key`. Jumps out of the range between its neighbours in `starts` leave the function.
pub(crate) fn explore(
    image: &Image,
    decoder: &mut Decoder,
    starts: &BTreeSet<u64>,
    surroundings: &Surroundings,
    key: Key,
) -> FunctionDraft {
    let (entry, link) = key;
    let page_range = image.executable.iter().find(|range| (range.0..range.1).contains(&entry));
    let &(code_start, code_end) = page_range.unwrap_or(&(entry, entry));
    let start = starts.range(code_start..=entry).next_back().copied().unwrap_or(code_start);
    let end = starts.range(entry + 1..code_end).next().copied().unwrap_or(code_end);
    let end = image.next_constant(entry).map_or(end, |constant| constant.min(end));
    let draft = FunctionDraft { leaders: BTreeSet::from([entry]), ..FunctionDraft::default() };
    let mut explorer = Explorer {
        vm_version: image.options.vm_version,
        entry,
        link,
        range: start..end,
        code: code_start..code_end,
        draft,
        work: vec![entry],
        has_called: surroundings.has_called,
        ..Explorer::default()
    };
    loop {
        explorer.follow(decoder);
        if !explorer.find_candidates(image, decoder, surroundings) {
            return explorer.draft;
        }
    }
}

/// The part of the ascending `addresses` that lies in `range`.
fn inside<'a>(addresses: &'a [u64], range: &Range<u64>) -> &'a [u64] {
    let place = |address: u64| addresses.partition_point(|other| *other < address);
    addresses.get(place(range.start)..place(range.end)).unwrap_or_default()
}

#[derive(Default)]
struct Explorer {
    vm_version: u32,
    entry: u64,
    link: Reg,
    range: Range<u64>,
    /// The executable pages around the function.
    code: Range<u64>,
    draft: FunctionDraft,
    work: Vec<u64>,
    /// Instructions of function ends that this function shares with others.
    shared: BTreeSet<u64>,
    /// Targets outside that are not shared ends.
    others: BTreeSet<u64>,
    /// Indirect jumps whose address is the sum of a code address and another value.
    computed: BTreeMap<u64, Sum>,
    /// The origins of these addresses. They are code, not tables of words.
    code_bases: BTreeSet<u64>,
    /// Memory that returns read the link register from, if it is not the stack.
    returned_by: Vec<u64>,
    has_returns: bool,
    /// Number of indirect jumps of any kind.
    jumps: usize,
    /// As in [`Surroundings`]. If set, no computed call counts as one into the function's own body.
    has_called: bool,
}

impl Explorer {
    fn follow(&mut self, decoder: &mut Decoder) {
        while !self.work.is_empty() {
            while let Some(leader) = self.work.pop() {
                self.walk(decoder, leader);
            }
            self.take_shared_ends(decoder);
        }
    }

    /// Turns jumps to the shared end of functions (`-msave-restore`, LLVM's outliner) into jumps inside this
    /// function. As a separate function, such an end would not return to its caller: it loads the address
    /// with which its caller was called.
    fn take_shared_ends(&mut self, decoder: &mut Decoder) {
        let new: Vec<u64> = self.draft.tails.difference(&self.others).copied().collect();
        for tail in new {
            let Some(end) = self.shared_end(decoder, tail) else {
                self.others.insert(tail);
                continue;
            };
            self.shared.extend(end);
            self.draft.tails.remove(&tail);
            self.target(tail);
        }
    }

    /// The instructions from `start` on, if they form a shared end. It loads the link register from the
    /// existing stack frame or frees that frame, then returns or jumps to a known address. A separate
    /// function would first allocate a frame.
    fn shared_end(&self, decoder: &mut Decoder, start: u64) -> Option<Vec<u64>> {
        let (mut pc, mut pcs) = (start, Vec::new());
        let (mut has_frame, mut loads_link) = (false, false);
        let mut line = Line::new();
        while pcs.len() < SHARED_END_INSTRUCTIONS_MAX {
            let instruction = decoder.decode(pc)?;
            let Instruction { op, rd, rs1, imm, length, .. } = instruction;
            pcs.push(pc);
            match op {
                Op::Jalr if rd == Reg::ZERO && (rs1 == self.link && imm == 0) => {
                    return has_frame.then_some(pcs);
                }
                Op::Jal if rd == Reg::ZERO => return has_frame.then_some(pcs),
                Op::Jalr if rd == Reg::ZERO => {
                    let target = line.jump_target(&instruction, self.vm_version);
                    return target.filter(|_| has_frame).map(|_| pcs);
                }
                // Calls return.
                Op::Jal | Op::Jalr | Op::FarJumpRel | Op::FarJumpAbs if !loads_link => {}
                Op::Jal | Op::Jalr | Op::FarJumpRel | Op::FarJumpAbs | Op::Ecall | Op::Ebreak => return None,
                // Code accesses large frames through another register.
                Op::Ld if rd == self.link => (loads_link, has_frame) = (true, has_frame || rs1 == Reg::SP),
                Op::Addi if rd == Reg::SP && rs1 == Reg::SP && imm > 0 => has_frame = true,
                _ if rd == Reg::SP => return None,
                _ if instruction.is_branch() => return None,
                _ => {}
            }
            line.step(pc, &instruction);
            pc = pc.wrapping_add(u64::from(length));
        }
        None
    }

    /// Whether `pc` belongs to this function or to an end that it shares.
    fn is_inside(&self, pc: u64) -> bool {
        self.range.contains(&pc) || self.shared.contains(&pc)
    }

    fn walk(&mut self, decoder: &mut Decoder, leader: u64) {
        let mut line = Line::new();
        let mut pc = leader;
        for count in 1.. {
            if self.draft.walked.contains_key(&pc) {
                return;
            }
            if !self.is_inside(pc) {
                self.draft.tails.insert(pc);
                return;
            }
            let Some(instruction) = decoder.decode(pc) else {
                self.draft.invalid.insert(pc);
                return;
            };
            self.draft.walked.insert(pc, instruction);
            let next = pc.wrapping_add(u64::from(instruction.length));
            if self.ends_line(pc, next, &instruction, &line) {
                return;
            }
            if let Some(constant) = line.step(pc, &instruction) {
                self.draft.constants.insert(constant);
            }
            if count % BLOCK_INSTRUCTIONS_MAX == 0 && self.range.contains(&next) {
                self.draft.leaders.insert(next);
            }
            pc = next;
        }
    }

    /// Records where control goes after `instruction`. Returns false if it continues at the next one.
    fn ends_line(&mut self, pc: u64, next: u64, instruction: &Instruction, line: &Line) -> bool {
        let Instruction { op, rd, imm, .. } = *instruction;
        let is_link = rd == Reg::RA || rd == Reg::T0;
        match op {
            Op::Jal if is_link => self.call((pc.wrapping_add_signed(imm), rd), next),
            Op::Jal => {
                let target = pc.wrapping_add_signed(imm);
                match self.linked(target, next, line) {
                    Some(return_pc) => self.linked_call(pc, Some(target), return_pc),
                    None => self.target(target),
                }
            }
            Op::FarJumpRel => self.call((pc.wrapping_add_signed(imm) & !1, Reg::RA), next),
            Op::FarJumpAbs => self.call((imm.cast_unsigned() & !1, Reg::RA), next),
            Op::Jalr => self.indirect(pc, next, instruction, line),
            Op::Ecall if line.constant(Reg::A7) != Some(93) => self.target(next),
            Op::Ecall => {}
            Op::Ebreak if next == self.range.end => {
                self.draft.traps.insert(pc);
            }
            _ if instruction.is_branch() => {
                self.target(pc.wrapping_add_signed(imm));
                self.target(next);
            }
            _ => return false,
        }
        true
    }

    fn target(&mut self, pc: u64) {
        if !self.is_inside(pc) {
            self.draft.tails.insert(pc);
        } else if self.draft.leaders.insert(pc) {
            self.work.push(pc);
        }
    }

    fn call(&mut self, callee: Key, next: u64) {
        self.draft.calls.insert(callee);
        self.draft.returns.insert(next);
        self.target(next);
    }

    /// The return address of a jump to `target`, if code set the link register by hand. It is the next
    /// instruction, or for a jump that leaves the function, any address in it.
    fn linked(&self, target: u64, next: u64, line: &Line) -> Option<u64> {
        let return_pc = line.constant(Reg::RA)?;
        let is_place = self.range.contains(&return_pc) && return_pc.is_multiple_of(2);
        (is_place && (return_pc == next || !self.is_inside(target))).then_some(return_pc)
    }

    fn linked_call(&mut self, pc: u64, target: Option<u64>, return_pc: u64) {
        self.draft.linked_jumps.insert(pc, return_pc);
        self.draft.calls.extend(target.map(|target| (target, Reg::RA)));
        self.draft.returns.insert(return_pc);
        self.target(return_pc);
    }

    fn indirect(&mut self, pc: u64, next: u64, instruction: &Instruction, line: &Line) {
        let Instruction { rd, rs1, imm, .. } = *instruction;
        if rd == Reg::ZERO && rs1 == self.link && imm == 0 {
            return self.returns(line);
        }
        if let Some(target) = line.jump_target(instruction, self.vm_version) {
            match rd {
                Reg::ZERO => {
                    return match self.linked(target, next, line) {
                        Some(return_pc) => self.linked_call(pc, Some(target), return_pc),
                        None => self.target(target),
                    };
                }
                Reg::RA | Reg::T0 => return self.call((target, rd), next),
                _ => {}
            }
        }
        // In VM version 0, `jalr` writes its destination before it reads its operand.
        let is_overwritten = self.vm_version == 0 && rd == rs1 && rd != Reg::ZERO;
        let sum = if is_overwritten { Some(Sum::alone(next)) } else { line.sum_in(rs1) };
        let sum = sum.map(|sum| sum.moved(imm)).filter(|sum| self.code.contains(&sum.base));
        let is_local = sum.is_some_and(|sum| self.range.contains(&sum.base));
        if let Some(sum) = sum {
            self.computed.insert(pc, sum);
            self.code_bases.extend(line.origin(rs1));
        }
        if rd == Reg::RA && (!is_local || self.has_called) {
            self.draft.returns.insert(next);
            self.target(next);
            return;
        }
        // `u64::MAX` stands for an address outside this function.
        let linked = if rd == Reg::ZERO { self.linked(u64::MAX, next, line) } else { None };
        if let Some(return_pc) = linked.filter(|_| sum.is_none()) {
            return self.linked_call(pc, None, return_pc);
        }
        self.jumps += 1;
        if rd == Reg::RA {
            self.draft.local_returns.insert(next);
            self.target(next);
        }
    }

    /// Records local targets of a return: code may have put another address into the link register.
    fn returns(&mut self, line: &Line) {
        self.has_returns = true;
        match line.constant(self.link).filter(|target| self.range.contains(target)) {
            Some(target) => {
                self.draft.local_returns.insert(target);
                self.target(target);
            }
            None => self.returned_by.extend(line.origin(self.link)),
        }
    }

    /// Adds targets of indirect jumps. Returns false if it found nothing new.
    fn find_candidates(&mut self, image: &Image, decoder: &mut Decoder, around: &Surroundings) -> bool {
        let before = self.draft.leaders.len();
        self.find_local_returns(image, decoder, around);
        self.take_code_tables(image, decoder);
        if self.jumps == 0 {
            return self.draft.leaders.len() > before;
        }
        let mut found = Vec::new();
        for &table in self.draft.constants.difference(&self.code_bases) {
            let targets = jump_table::targets(image, &around.references, table, &self.range);
            // A table of only the function itself holds functions: a handler jumps to the next through it.
            if !targets.is_empty() && targets != [self.entry] {
                found.extend(&targets);
                self.draft.tables.insert(table, targets);
            }
        }
        let words = inside(&around.words, &self.range);
        // A single word that looks like an address of this function is not a table.
        if !found.is_empty() || words.len() > 1 {
            found.extend(words);
        }
        let jumped = inside(&around.jumped, &self.range);
        let is_listed = |target| self.draft.tables.values().any(|targets| targets.contains(target));
        if !jumped.iter().all(is_listed) {
            // Some jump goes past its table.
            self.draft.tables.clear();
        }
        found.extend(jumped);
        if found.is_empty() {
            found = self.instructions_near_computed_jumps(image, decoder);
        }
        for target in found {
            self.draft.candidates.insert(target);
            self.target(target);
        }
        self.draft.leaders.len() > before
    }

    /// Adds local targets of returns that data lists or that hints observed.
    fn find_local_returns(&mut self, image: &Image, decoder: &mut Decoder, around: &Surroundings) {
        let is_data = |address: &u64| image.segments.iter().any(|range| (range.0..range.1).contains(address));
        let mut found = Vec::new();
        if self.returned_by.iter().any(is_data) {
            let words = inside(&around.words, &self.range).iter();
            let computed = self.draft.constants.range(self.range.clone());
            let is_place =
                |pc: &&u64| pc.is_multiple_of(2) && self.is_instruction_start(image, decoder, **pc);
            found.extend(words.chain(computed).filter(is_place));
        }
        // In a function without indirect jumps, only returns lead to observed targets.
        if self.has_returns && self.jumps == 0 {
            found.extend(inside(&around.jumped, &self.range));
        }
        for target in found {
            self.draft.local_returns.insert(target);
            self.target(target);
        }
    }

    /// Adds targets of computed jumps into code. Code elsewhere becomes part of this function, or functions
    /// that it calls.
    fn take_code_tables(&mut self, image: &Image, decoder: &mut Decoder) {
        for (jump, sum) in self.computed.clone() {
            let Some(&instruction) = self.draft.walked.get(&jump) else { continue };
            let behind = jump.wrapping_add(u64::from(instruction.length));
            let is_local = self.range.contains(&sum.base);
            let floor = match (is_local, behind <= sum.base) {
                (true, true) => behind,
                (true, false) => self.draft.walked.keys().next().copied().unwrap_or(sum.base),
                (false, _) => sum.base,
            };
            let mut table = CodeTable::of(image, decoder, sum, floor);
            if instruction.rd == Reg::RA && !self.draft.local_returns.contains(&behind) {
                self.draft.constants.extend(table.pieces);
                continue;
            }
            if is_local {
                table.pieces.retain(|piece| self.range.contains(piece));
            } else {
                self.shared.extend(table.instructions);
            }
            for piece in table.pieces {
                self.draft.candidates.insert(piece);
                self.target(piece);
            }
        }
    }

    /// Targets around computed jumps whose step between pieces is unknown. No jump targets itself.
    fn instructions_near_computed_jumps(&self, image: &Image, decoder: &mut Decoder) -> Vec<u64> {
        let mut found = Vec::new();
        for (&jump, _) in self.computed.iter().filter(|(_, sum)| sum.factor < 2) {
            let start = self.range.start.max(jump.saturating_sub(COMPUTED_REACH_BYTES));
            let end = self.range.end.min(jump.saturating_add(COMPUTED_REACH_BYTES));
            let is_start = |pc: &u64| *pc != jump && self.is_instruction_start(image, decoder, *pc);
            found.extend((start..end).step_by(2).filter(is_start));
        }
        found
    }

    /// Whether linear decoding from a known instruction finds an instruction at `pc`.
    fn is_instruction_start(&self, image: &Image, decoder: &mut Decoder, pc: u64) -> bool {
        let Some((&known, _)) = self.draft.walked.range(..=pc).next_back() else { return false };
        code_table::starts(image, decoder, known..pc + 1).last() == Some(&pc)
    }
}
