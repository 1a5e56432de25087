//! What comes before what among instructions, and which registers they read and write.

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

/// How far apart the instructions of an addition with carry may be.
const CARRY_DISTANCE_MAX: usize = 64;

/// How far from what its address is counted from an access may be, in bytes, so that sums do not wrap.
const DISTANCE_MAX: u64 = 1 << 40;

/// The registers that hold a value's low and high half, or the parts of an address.
type Halves = [Option<usize>; 2];

/// Instructions in a region, none of them a scheduling barrier.
pub(crate) struct Graph {
    /// Instructions that stay together, in the order in which the last of each was given.
    pub(crate) nodes: Vec<Node>,
    /// The instructions of each node by their places in the region.
    pub(crate) members: Vec<Vec<usize>>,
    /// How many registers there are.
    pub(crate) registers: usize,
    /// Registers that are read behind the region.
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

/// The pointer and the bytes that `instruction` adds to it, if it adds a constant.
fn step<'c>(instruction: InstructionValue<'c>) -> Option<(BasicValueEnum<'c>, i64)> {
    let is_bytes = instruction.get_opcode() == InstructionOpcode::GetElementPtr
        && instruction.get_num_operands() == 2
        && matches!(instruction.get_gep_source_element_type(), Ok(BasicTypeEnum::IntType(int)) if int.get_bit_width() == 8);
    let pointer = instruction.get_operand(0)?.value()?;
    let BasicValueEnum::IntValue(bytes) = instruction.get_operand(1)?.value()? else { return None };
    is_bytes.then_some((pointer, bytes.get_sign_extended_constant()?))
}

/// What a pointer is counted from, and how far it is from there.
fn base_and_offset<'c>(mut pointer: BasicValueEnum<'c>) -> (BasicValueEnum<'c>, i64) {
    let mut distance = 0_i64;
    while let BasicValueEnum::PointerValue(value) = pointer
        && let Some((from, bytes)) = value.as_instruction_value().and_then(step)
    {
        // Far is far: such an access is not followed.
        distance = distance.saturating_add(bytes);
        pointer = from;
    }
    (pointer, distance)
}

fn is_sum(instruction: InstructionValue) -> bool {
    matches!(instruction.get_opcode(), InstructionOpcode::Add | InstructionOpcode::Sub)
}

/// An access to memory: what its address is counted from, if it is near enough, and the bytes from there.
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

/// What makes a graph.
struct Maker<'r, 'c> {
    region: &'r [InstructionValue<'c>],
    places: HashMap<LLVMValueRef, usize>,
    halves: HashMap<LLVMValueRef, Halves>,
    registers: usize,
    reads: Vec<Vec<usize>>,
    writes: Vec<Vec<usize>>,
    /// For each instruction, others that come before it.
    after: Vec<Vec<usize>>,
    is_free: Vec<bool>,
    /// For each instruction, the last one that it stays together with; and for that, all of them.
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
    /// The place of the instruction that gives `value`, if it is in the region.
    fn find(&self, value: BasicValueEnum) -> Option<usize> {
        self.places.get(&value.as_value_ref()).copied()
    }

    fn register(&mut self) -> Option<usize> {
        self.registers += 1;
        Some(self.registers - 1)
    }

    fn halves(&mut self, value: BasicValueEnum<'c>) -> Halves {
        // Addresses are made where they are used.
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

    /// What the instruction at a place reads and writes, and what it comes after because of that.
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

    /// Where the result is of an instruction that does nothing on the host: half of what is there already, or
    /// an address that becomes part of the accesses.
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

    /// Accesses that may be to the same byte keep their order.
    fn memory(&mut self) {
        let mut accesses: Vec<MemoryAccess> = Vec::new();
        for (at, instruction) in self.region.iter().enumerate() {
            let Some(access) = MemoryAccess::of(at, *instruction) else { continue };
            let before = accesses.iter().filter(|before| access.stays_after(before));
            self.after[at].extend(before.map(|before| before.instruction));
            accesses.push(access);
        }
    }

    /// The place of the only instruction that uses the one at a place, if it is in the region.
    fn only_user(&self, at: usize) -> Option<usize> {
        let first = self.region[at].get_first_use()?;
        let is_only = first.get_next_use().is_none();
        self.places.get(&first.get_user().as_value_ref()).copied().filter(|_| is_only)
    }

    /// The places of the comparison that a carry comes from, if the instruction at a place is one.
    fn comparison(&self, at: usize) -> Option<usize> {
        let is_extended = self.region[at].get_opcode() == InstructionOpcode::ZExt;
        let from = self.find(operands(self.region[at]).next().filter(|_| is_extended)?)?;
        (self.region[from].get_opcode() == InstructionOpcode::ICmp).then_some(from)
    }

    /// What becomes one `add` and one `adc` if it stays together: a sum, the comparison that says whether it
    /// wrapped, and the sum that takes this as a carry, which is at a place; with another sum in between, if
    /// that is for this one alone.
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

    /// Makes a group of the groups of `places`, if nothing comes between them.
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

    /// Whether nothing that is not one of `all` comes both after and before something of them.
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
