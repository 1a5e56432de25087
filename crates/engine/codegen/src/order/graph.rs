//! Dependencies between instructions, and the registers that they read and write.

use std::collections::HashMap;

use inkwell::{
    types::BasicTypeEnum,
    values::{AsValueRef, BasicValue, BasicValueEnum, InstructionOpcode, InstructionValue},
};
use llvm_sys::prelude::LLVMValueRef;

use super::{
    effect::{Access, Effect, width, width_of},
    schedule::Node,
};

/// Maximum distance between the instructions of an addition with carry.
const CARRY_DISTANCE_MAX: usize = 64;

/// Maximum distance of an access from its root in bytes, so that sums do not wrap.
const DISTANCE_MAX: u64 = 1 << 40;

/// The registers that hold a value's low and high half, or the parts of an address.
type Halves = [Option<usize>; 2];

/// The instructions of a region without scheduling barriers.
pub(crate) struct Graph {
    /// Instructions that stay together, in the order of their last instructions.
    pub(crate) nodes: Vec<Node>,
    /// By node: the positions of its instructions in the region.
    pub(crate) members: Vec<Vec<usize>>,
    pub(crate) registers: usize,
    /// Registers that code after the region reads.
    pub(crate) live_out: Vec<usize>,
}

fn operands<'c>(instruction: InstructionValue<'c>) -> impl Iterator<Item = BasicValueEnum<'c>> {
    (0..instruction.get_num_operands()).filter_map(move |at| instruction.get_operand(at)?.value())
}

fn is_constant(value: BasicValueEnum) -> bool {
    match value {
        BasicValueEnum::IntValue(value) => value.is_const(),
        BasicValueEnum::PointerValue(value) => value.is_const(),
        _ => true,
    }
}

/// Whether `value` is the constant 64 of 128 bits.
fn is_half(value: BasicValueEnum) -> bool {
    matches!(value, BasicValueEnum::IntValue(value) if value == value.get_type().const_int(64, false))
}

/// The pointer and the number of bytes that `instruction` adds to it, if constant.
fn step<'c>(instruction: InstructionValue<'c>) -> Option<(BasicValueEnum<'c>, i64)> {
    let is_bytes = instruction.get_opcode() == InstructionOpcode::GetElementPtr
        && instruction.get_num_operands() == 2
        && matches!(instruction.get_gep_source_element_type(), Ok(BasicTypeEnum::IntType(int)) if int.get_bit_width() == 8);
    let pointer = instruction.get_operand(0)?.value()?;
    let BasicValueEnum::IntValue(bytes) = instruction.get_operand(1)?.value()? else { return None };
    is_bytes.then_some((pointer, bytes.get_sign_extended_constant()?))
}

/// The root of a pointer, and its distance from there.
fn base_and_offset<'c>(mut pointer: BasicValueEnum<'c>) -> (BasicValueEnum<'c>, i64) {
    let mut distance = 0_i64;
    while let BasicValueEnum::PointerValue(value) = pointer
        && let Some((from, bytes)) = value.as_instruction_value().and_then(step)
    {
        // Saturated distances are too large for the analysis anyway.
        distance = distance.saturating_add(bytes);
        pointer = from;
    }
    (pointer, distance)
}

fn is_sum(instruction: InstructionValue) -> bool {
    matches!(instruction.get_opcode(), InstructionOpcode::Add | InstructionOpcode::Sub)
}

/// An access to memory: the root of its address, if near enough, and its bytes relative to the root.
struct MemoryAccess<'c> {
    instruction: usize,
    access: Access<'c>,
    root: Option<LLVMValueRef>,
    start: i64,
    end: i64,
}

impl<'c> MemoryAccess<'c> {
    fn of(instruction: usize, value: InstructionValue<'c>) -> Option<Self> {
        let Effect::Memory(access) = Effect::of(value) else { return None };
        let (root, start) = base_and_offset(access.pointer.into());
        let is_near = start.unsigned_abs() < DISTANCE_MAX;
        let root = is_near.then_some(root.as_value_ref());
        Some(Self { instruction, access, root, start, end: start.saturating_add(access.bytes.into()) })
    }

    /// Whether both keep their order.
    fn stays_after(&self, other: &Self) -> bool {
        let is_disjoint = self.root.is_some()
            && self.root == other.root
            && (self.end <= other.start || other.end <= self.start);
        self.access.keeps_order(&other.access, is_disjoint)
    }
}

struct Maker<'r, 'c> {
    region: &'r [InstructionValue<'c>],
    places: HashMap<LLVMValueRef, usize>,
    halves: HashMap<LLVMValueRef, Halves>,
    registers: usize,
    reads: Vec<Vec<usize>>,
    writes: Vec<Vec<usize>>,
    /// By instruction: others that must precede it.
    after: Vec<Vec<usize>>,
    is_free: Vec<bool>,
    /// By instruction: the last one of its group; and by that one: the whole group.
    group: Vec<usize>,
    members: Vec<Vec<usize>>,
}

impl Graph {
    pub(crate) fn of(region: &[InstructionValue]) -> Self {
        let mut maker = Maker {
            region,
            places: region.iter().enumerate().map(|(at, value)| (value.as_value_ref(), at)).collect(),
            halves: HashMap::new(),
            registers: 0,
            reads: vec![Vec::new(); region.len()],
            writes: vec![Vec::new(); region.len()],
            after: vec![Vec::new(); region.len()],
            is_free: vec![false; region.len()],
            group: (0..region.len()).collect(),
            members: (0..region.len()).map(|at| vec![at]).collect(),
        };
        for at in 0..region.len() {
            maker.values(at);
        }
        maker.memory();
        for at in 0..region.len() {
            if let Some(group) = maker.carry(at) {
                maker.join(&group);
            }
        }
        maker.finish()
    }
}

impl<'c> Maker<'_, 'c> {
    /// The position of the instruction that produces `value`, if it is in the region.
    fn find(&self, value: BasicValueEnum) -> Option<usize> {
        self.places.get(&value.as_value_ref()).copied()
    }

    fn register(&mut self) -> Option<usize> {
        self.registers += 1;
        Some(self.registers - 1)
    }

    fn halves(&mut self, value: BasicValueEnum<'c>) -> Halves {
        // Addresses are computed where they are used.
        let value = if self.find(value).is_none() { base_and_offset(value).0 } else { value };
        let width = width_of(Some(value));
        if is_constant(value) || width == 0 {
            return [None; 2];
        }
        if let Some(halves) = self.halves.get(&value.as_value_ref()) {
            return *halves;
        }
        let halves = [self.register(), if width > 64 { self.register() } else { None }];
        self.halves.insert(value.as_value_ref(), halves);
        halves
    }

    /// Adds the reads and writes of the instruction at `at`, and its dependencies on operands.
    fn values(&mut self, at: usize) {
        let instruction = self.region[at];
        self.after[at] = operands(instruction).filter_map(|operand| self.find(operand)).collect();
        let key = instruction.as_value_ref();
        if let Some(halves) = self.other_name(instruction) {
            self.halves.insert(key, halves);
            self.is_free[at] = true;
            return;
        }
        self.reads[at] = operands(instruction).flat_map(|operand| self.halves(operand)).flatten().collect();
        if width(instruction) > 0 {
            let halves = [self.register(), if width(instruction) > 64 { self.register() } else { None }];
            self.writes[at] = halves.into_iter().flatten().collect();
            self.halves.insert(key, halves);
        }
    }

    /// The location of the result of an instruction that takes no host instruction: half of an existing
    /// value, or an address that becomes part of its accesses.
    fn other_name(&mut self, instruction: InstructionValue<'c>) -> Option<Halves> {
        let mut operands = operands(instruction);
        let (first, second) = (operands.next()?, operands.next());
        let width = width_of(Some(first));
        match instruction.get_opcode() {
            InstructionOpcode::GetElementPtr if second.is_none_or(is_constant) => Some(self.halves(first)),
            InstructionOpcode::GetElementPtr => {
                Some([self.halves(first)[0], second.and_then(|index| self.halves(index)[0])])
            }
            InstructionOpcode::ZExt if width >= 32 => Some([self.halves(first)[0], None]),
            InstructionOpcode::Trunc => Some([self.halves(first)[0], None]),
            InstructionOpcode::LShr if width == 128 && second.is_some_and(is_half) => {
                Some([self.halves(first)[1], None])
            }
            InstructionOpcode::And if width == 128 && second.is_some_and(is_constant) => {
                Some([self.halves(first)[0], None])
            }
            _ => None,
        }
    }

    /// Preserves the order of accesses that may touch the same byte.
    fn memory(&mut self) {
        let mut accesses: Vec<MemoryAccess> = Vec::new();
        for (at, instruction) in self.region.iter().enumerate() {
            let Some(access) = MemoryAccess::of(at, *instruction) else { continue };
            let before = accesses.iter().filter(|before| access.stays_after(before));
            self.after[at].extend(before.map(|before| before.instruction));
            accesses.push(access);
        }
    }

    /// The position of the only user of the instruction at `at`, if it is in the region.
    fn only_user(&self, at: usize) -> Option<usize> {
        let first = self.region[at].get_first_use()?;
        let is_only = first.get_next_use().is_none();
        self.places.get(&first.get_user().as_value_ref()).copied().filter(|_| is_only)
    }

    /// The position of the comparison that produces the carry at `at`, if that is a carry.
    fn comparison(&self, at: usize) -> Option<usize> {
        let is_extended = self.region[at].get_opcode() == InstructionOpcode::ZExt;
        let from = self.find(operands(self.region[at]).next().filter(|_| is_extended)?)?;
        (self.region[from].get_opcode() == InstructionOpcode::ICmp).then_some(from)
    }

    /// Instructions that become one `add` and one `adc` if they stay together: a sum, the comparison that
    /// detects its wrap, the carry at `at` and the sum that adds it. May include another sum in between with
    /// this single use.
    fn carry(&self, at: usize) -> Option<Vec<usize>> {
        let comparison = self.comparison(at)?;
        let high = self.only_user(at).filter(|high| is_sum(self.region[*high]))?;
        let compared: Vec<BasicValueEnum> = operands(self.region[comparison]).collect();
        let low = compared.iter().filter_map(|value| self.find(*value)).find(|low| {
            is_sum(self.region[*low])
                && operands(self.region[*low]).any(|operand| compared.contains(&operand))
        })?;
        let between = operands(self.region[high]).filter_map(|operand| self.find(operand)).find(|between| {
            let mut added = operands(self.region[*between]).filter_map(|operand| self.find(operand));
            is_sum(self.region[*between])
                && self.only_user(*between) == Some(high)
                && !added.any(|added| self.comparison(added).is_some())
        });
        Some([low, comparison, at, high].into_iter().chain(between).collect())
    }

    /// Merges the groups of `places`, if no other instruction must come between them.
    fn join(&mut self, places: &[usize]) {
        let mut all: Vec<usize> =
            places.iter().flat_map(|at| self.members[self.group[*at]].iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let (Some(first), Some(last)) = (all.first().copied(), all.last().copied()) else { return };
        if last - first > CARRY_DISTANCE_MAX || !self.is_whole(&all, first, last) {
            return;
        }
        for at in &all {
            self.group[*at] = last;
        }
        self.members[last] = all;
    }

    /// Whether no other instruction both depends on one of `all` and precedes another one.
    fn is_whole(&self, all: &[usize], first: usize, last: usize) -> bool {
        let mut behind: Vec<usize> = Vec::new();
        for at in first..=last {
            let is_inside = all.contains(&at);
            let depends = self.after[at]
                .iter()
                .any(|before| behind.contains(&self.group[*before]) || (!is_inside && all.contains(before)));
            if depends && is_inside {
                return false;
            }
            if depends {
                behind.push(self.group[at]);
            }
        }
        true
    }

    fn finish(self) -> Graph {
        let lasts: Vec<usize> = (0..self.region.len()).filter(|at| self.group[*at] == *at).collect();
        let mut node_of = vec![0; self.region.len()];
        for (node, last) in lasts.iter().enumerate() {
            for at in &self.members[*last] {
                node_of[*at] = node;
            }
        }
        let members: Vec<Vec<usize>> = lasts.iter().map(|last| self.members[*last].clone()).collect();
        let of = |members: &[usize], lists: &[Vec<usize>]| -> Vec<usize> {
            members.iter().flat_map(|at| lists[*at].iter().copied()).collect()
        };
        let node = |(number, members): (usize, &Vec<usize>)| {
            let writes = of(members, &self.writes);
            let reads = of(members, &self.reads).into_iter().filter(|register| !writes.contains(register));
            let after = of(members, &self.after).into_iter().map(|at| node_of[at]);
            Node {
                reads: each_once(reads),
                after: each_once(after.filter(|other| *other != number)),
                is_free: members.iter().all(|at| self.is_free[*at]),
                writes,
            }
        };
        let nodes = members.iter().enumerate().map(node).collect();
        Graph { nodes, registers: self.registers, live_out: self.live_out(), members }
    }

    fn live_out(&self) -> Vec<usize> {
        let is_used_behind = |instruction: &&InstructionValue| {
            let mut next = instruction.get_first_use();
            while let Some(user) = next {
                if !self.places.contains_key(&user.get_user().as_value_ref()) {
                    return true;
                }
                next = user.get_next_use();
            }
            false
        };
        let used = self.region.iter().filter(is_used_behind);
        each_once(used.filter_map(|it| self.halves.get(&it.as_value_ref())).flatten().flatten().copied())
    }
}

fn each_once(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
