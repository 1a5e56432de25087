//! Emits one guest function: registers in stack slots (which LLVM turns into SSA values) or in the state,
//! blocks, operations.

use std::{cell::RefCell, ops::Range};

use antares_ir::{self as ir, BinaryOp, Charge, Op, Terminator, UnaryOp};
use antares_program::{BlockId, GuestAddr, Reg, RegSet};
use inkwell::{
    IntPredicate,
    basic_block::BasicBlock,
    debug_info::DISubprogram,
    values::{FunctionValue, IntValue, PointerValue},
};

use crate::{
    Result,
    emit::{
        Emitter, OWN_SWITCHES_MAX, current::Current, memory::Address, memory_resident::memory_resident,
        ordered::ordered_stores, signature::arguments, state::Field,
    },
};

/// Maximum loads and stores, and operations, of a block that is not cut.
const ACCESSES_MAX: usize = 1024;
const OPERATIONS_MAX: usize = 8192;

/// Loads and stores, and operations, between cuts of longer blocks. LLVM's scheduler compares each access
/// with all others. If many instructions use one value, LLVM's instruction selection and scheduler compare
/// each use with all others.
const ACCESSES_BETWEEN_CUTS: usize = 128;
const OPERATIONS_BETWEEN_CUTS: usize = 512;

pub(crate) struct FunctionEmitter<'e, 'c, 'm> {
    pub(crate) emitter: &'e Emitter<'c, 'm>,
    pub(crate) ir: &'e ir::Function,
    pub(crate) value: FunctionValue<'c>,
    pub(crate) base: PointerValue<'c>,
    /// The function's scope in frame tables.
    scope: DISubprogram<'c>,
    pub(crate) left: PointerValue<'c>,
    /// Cycles to charge after a loop.
    deferred: PointerValue<'c>,
    slots: [Option<PointerValue<'c>>; 32],
    /// Registers whose slot is their location in the state.
    memory_resident: RegSet,
    pub(crate) current: Current,
    pub(crate) blocks: Vec<BasicBlock<'c>>,
    /// The return address that the function was called with.
    pub(crate) own_link: Option<IntValue<'c>>,
    /// Whether jumps with the same candidates share one switch. They store their target to `target`, and the
    /// return address of a callee there to `link`.
    pub(crate) shares_switches: bool,
    pub(crate) target: PointerValue<'c>,
    pub(crate) link: PointerValue<'c>,
    pub(crate) switches: RefCell<Vec<SharedSwitch<'c>>>,
}

/// A switch for several jumps.
pub(crate) struct SharedSwitch<'c> {
    pub(crate) candidates: Vec<(GuestAddr, BlockId)>,
    /// Whether another target may be called, and whether the callee's return address is checked.
    pub(crate) kind: (bool, bool),
    pub(crate) block: BasicBlock<'c>,
}

pub(crate) fn emit(emitter: &Emitter, ir: &ir::Function) -> Result {
    let scope = emitter.enter_scope(emitter.function(ir.id), &format!("{:x}", ir.entry.0), ir.entry);
    let mut function = FunctionEmitter::new(emitter, ir, scope)?;
    function.entry()?;
    for (index, block) in ir.blocks.iter().enumerate() {
        emitter.builder.position_at_end(function.blocks[index]);
        emitter.locate(scope, ir.entry);
        function.current.start(index);
        let values = function.block(index, block)?;
        emitter.locate(scope, ir.caller(block));
        function.terminator(block, &values)?;
    }
    Ok(())
}

/// The ranges around a base that a loop's guard has proved for a block inside. Other blocks gain nothing from
/// such facts.
fn proved(block: &ir::Block) -> Vec<(ir::Value, Range<i64>)> {
    let range = |op: &Op| match *op {
        Op::Proved { base, low, high, .. } => Some((base, low..high)),
        _ => None,
    };
    block.ops.iter().filter(|_| block.is_bounded).filter_map(range).collect()
}

/// An address of an access, and whether it was proved.
fn address<'c>(
    (base, offset): (ir::Value, i64),
    values: &[IntValue<'c>],
    proved: &[(ir::Value, Range<i64>)],
) -> Address<'c> {
    let is_proved = proved.iter().any(|(value, range)| *value == base && range.contains(&offset));
    Address { base: values[base.0 as usize], offset, is_proved }
}

/// Registers that the function needs locations for. A register that it neither reads nor writes may stay in
/// the state.
fn registers(emitter: &Emitter, ir: &ir::Function) -> RegSet {
    let mut set = ir.params.or(ir.results);
    let mut touched = RegSet::EMPTY;
    for block in &ir.blocks {
        touched = block.mentions().fold(touched, RegSet::with);
        match &block.terminator {
            Terminator::Call { callee, .. } | Terminator::TailCall { callee, .. } => {
                let callee = &emitter.ir.functions[callee.0 as usize];
                set = set.or(callee.results).or(callee.params);
            }
            Terminator::Ecall { uses, .. } => set = set.or(*uses),
            Terminator::Exit { .. } => set = set.with(Reg::A0).with(Reg::A7),
            Terminator::CallIndirect { live, .. } => set = set.or(*live).with(Reg::SP),
            _ => {}
        }
    }
    touched.or(set.and(arguments(ir, emitter.convention)))
}

/// Counts the operations of a long block.
struct Cuts {
    is_long: bool,
    accesses: usize,
    operations: usize,
}

impl Cuts {
    fn of(block: &ir::Block) -> Self {
        let accesses = block.ops.iter().filter(|op| Self::is_access(op)).count();
        let is_long = accesses > ACCESSES_MAX || block.ops.len() > OPERATIONS_MAX;
        Self { is_long, accesses: 0, operations: 0 }
    }

    fn is_access(op: &Op) -> bool {
        matches!(op, Op::Load { .. } | Op::Store { .. })
    }

    /// Whether the block is cut before `op`.
    fn is_before(&mut self, op: &Op) -> bool {
        self.accesses += usize::from(Self::is_access(op));
        self.operations += 1;
        let is_full = self.accesses == ACCESSES_BETWEEN_CUTS || self.operations == OPERATIONS_BETWEEN_CUTS;
        let is_before = self.is_long && is_full;
        if is_before {
            (self.accesses, self.operations) = (0, 0);
        }
        is_before
    }
}

impl<'e, 'c, 'm> FunctionEmitter<'e, 'c, 'm> {
    fn new(emitter: &'e Emitter<'c, 'm>, ir: &'e ir::Function, scope: DISubprogram<'c>) -> Result<Self> {
        let value = emitter.function(ir.id);
        emitter.builder.position_at_end(emitter.context.append_basic_block(value, "entry"));
        let left = emitter.builder.build_alloca(emitter.i64, "left")?;
        let deferred = emitter.builder.build_alloca(emitter.i64, "deferred")?;
        emitter.builder.build_store(deferred, emitter.i64.const_zero())?;
        let (base, memory_resident) = (emitter.base_of(value), memory_resident(emitter, ir));
        let mut slots = [None; 32];
        for register in registers(emitter, ir).iter() {
            let slot = match memory_resident.has(register) {
                true => emitter.field(base, Field::register(register))?,
                false => emitter.builder.build_alloca(emitter.i64, &register.to_string())?,
            };
            slots[register.index()] = Some(slot);
        }
        let has_place = |register: &Reg| slots[register.index()].is_some() && !memory_resident.has(*register);
        let moved = RegSet::ALL.iter().filter(has_place).fold(RegSet::EMPTY, RegSet::with);
        let blocks = ir
            .blocks
            .iter()
            .map(|block| emitter.context.append_basic_block(value, &format!("pc_{:x}", block.pc.0)))
            .collect();
        let jumps =
            ir.blocks.iter().filter(|block| matches!(block.terminator, Terminator::JumpIndirect { .. }));
        let shares_switches = jumps.count() > OWN_SWITCHES_MAX;
        let target = emitter.builder.build_alloca(emitter.i64, "target")?;
        let link = emitter.builder.build_alloca(emitter.i64, "link")?;
        let switches = RefCell::default();
        Ok(Self {
            emitter,
            ir,
            value,
            base,
            scope,
            left,
            deferred,
            slots,
            memory_resident,
            current: Current::of(emitter, ir, moved),
            blocks,
            own_link: None,
            shares_switches,
            target,
            link,
            switches,
        })
    }

    fn entry(&mut self) -> Result {
        let mut params = self.value.get_param_iter().skip(1);
        if let Some(left) = params.next() {
            self.emitter.builder.build_store(self.left, left)?;
        }
        let signature = self.emitter.signature(self.ir.id);
        for (register, param) in signature.params.iter().zip(params) {
            self.set(*register, param.into_int_value())?;
            if *register == self.ir.link {
                self.own_link = Some(param.into_int_value());
            }
        }
        signature.in_state.iter().try_for_each(|register| self.reload(register))?;
        if let Some(low) = self.ir.frame_low {
            let sp = self.get(Reg::SP)?;
            let bounds = self.emitter.ir.frame_bounds();
            self.emitter.check_between(self.value, bounds, sp, (low, 0))?;
        }
        self.emitter.builder.build_unconditional_branch(self.blocks[0])?;
        Ok(())
    }

    /// Whether `register` moves between its location and the state. A register without a slot is not live in
    /// the function.
    pub(crate) fn moves(&self, register: Reg) -> bool {
        self.slots[register.index()].is_some() && !self.memory_resident.has(register)
    }

    /// Spills `register` to the state, unless the state holds it.
    pub(crate) fn spill(&self, register: Reg) -> Result {
        if self.moves(register) && !self.current.has(register) {
            self.emitter.write_state(self.base, Field::register(register), self.get(register)?)?;
        }
        Ok(())
    }

    pub(crate) fn reload(&self, register: Reg) -> Result {
        if self.moves(register) {
            self.set(register, self.emitter.read_state(self.base, Field::register(register))?)?;
        }
        Ok(())
    }

    pub(crate) fn get(&self, register: Reg) -> Result<IntValue<'c>> {
        match self.slots[register.index()] {
            Some(slot) => {
                let value = self.emitter.builder.build_load(self.emitter.i64, slot, &register.to_string())?;
                Ok(value.into_int_value())
            }
            None => Ok(self.emitter.i64.const_zero()),
        }
    }

    pub(crate) fn set(&self, register: Reg, value: IntValue<'c>) -> Result {
        if let Some(slot) = self.slots[register.index()] {
            self.emitter.builder.build_store(slot, value)?;
        }
        Ok(())
    }

    pub(crate) fn cycles_left(&self) -> Result<IntValue<'c>> {
        Ok(self.emitter.builder.build_load(self.emitter.i64, self.left, "left")?.into_int_value())
    }

    pub(crate) fn set_cycles_left(&self, left: IntValue<'c>) -> Result {
        self.emitter.builder.build_store(self.left, left)?;
        Ok(())
    }

    /// Subtracts `cycles` from the cycles left, and returns the rest.
    fn use_up(&self, cycles: IntValue<'c>) -> Result<IntValue<'c>> {
        let left = self.emitter.builder.build_int_sub(self.cycles_left()?, cycles, "left")?;
        self.set_cycles_left(left)?;
        Ok(left)
    }

    /// Emits everything but the terminator. Returns the values of the operations.
    fn block(&self, index: usize, block: &ir::Block) -> Result<Vec<IntValue<'c>>> {
        self.charge(block)?;
        let mut values: Vec<IntValue<'c>> = Vec::with_capacity(block.ops.len());
        let has_wide = block.ops.iter().any(|op| matches!(op, Op::Binary(BinaryOp::MulHighUnsigned, ..)));
        let (proved, ordered) = (proved(block), ordered_stores(self.ir, index));
        let mut cuts = Cuts::of(block);
        for (place, op) in block.ops.iter().enumerate() {
            if cuts.is_before(op) {
                // Ends LLVM's basic block for good: LLVM cannot know that no cycles were used since the last
                // poll.
                self.poll(self.cycles_left()?, block.pc)?;
            }
            let value = match *op {
                Op::Store { width, base, offset, value } => {
                    let address = address((base, offset), &values, &proved);
                    let is_kept = ordered.contains(&place);
                    self.emitter.store(self.base, (width, is_kept), address, values[value.0 as usize])?;
                    self.emitter.i64.const_zero()
                }
                // LLVM computes both halves of a product by one multiplication if it sees equal operands.
                Op::Binary(BinaryOp::Mul, a, b) if has_wide => {
                    self.emitter.low_product(values[a.0 as usize], values[b.0 as usize])?
                }
                Op::Unary(UnaryOp::SextW, x) => match self.emitter.word(block, x, &values)? {
                    Some(word) => word,
                    None => self.operation(op, &values, &proved)?,
                },
                _ => self.operation(op, &values, &proved)?,
            };
            values.push(value);
        }
        for (register, value) in &block.writes {
            self.set(*register, values[value.0 as usize])?;
        }
        self.current.write(block);
        Ok(values)
    }

    /// Charges the block's cycles, or defers the charge.
    fn charge(&self, block: &ir::Block) -> Result {
        let (builder, i64) = (&self.emitter.builder, self.emitter.i64);
        let Some(cycles) = block.charged() else {
            let cycles = i64.const_int(block.cycles, false);
            let so_far = builder.build_load(i64, self.deferred, "deferred")?.into_int_value();
            builder.build_store(self.deferred, builder.build_int_add(so_far, cycles, "deferred")?)?;
            return Ok(());
        };
        let left = self.use_up(i64.const_int(cycles, false))?;
        if block.is_metered {
            self.poll(left, block.pc)?;
        }
        if let Charge::OfDeferred { callee, call } = block.charge {
            let callee = self.emitter.ir.functions[callee.0 as usize].entry;
            self.emitter.locate_copy(self.scope, call, callee);
            let deferred = builder.build_load(i64, self.deferred, "deferred")?.into_int_value();
            builder.build_store(self.deferred, i64.const_zero())?;
            let left = self.use_up(deferred)?;
            self.poll(left, callee)?;
            self.emitter.locate(self.scope, self.ir.entry);
        }
        Ok(())
    }

    /// Polls the cycle limit: calls the meter if no cycles are left.
    fn poll(&self, left: IntValue<'c>, pc: GuestAddr) -> Result {
        let builder = &self.emitter.builder;
        let is_over =
            builder.build_int_compare(IntPredicate::SLT, left, self.emitter.number(0), "is_over")?;
        let over = self.emitter.context.append_basic_block(self.value, "over");
        let on = self.emitter.context.append_basic_block(self.value, "on");
        self.emitter.branch_rarely(is_over, over, on)?;
        builder.position_at_end(over);
        self.set_cycles_left(self.emitter.meter(self.base, left, pc)?)?;
        builder.build_unconditional_branch(on)?;
        builder.position_at_end(on);
        Ok(())
    }

    /// Emits one operation. Operations without a value return an unused zero.
    fn operation(
        &self,
        op: &Op,
        values: &[IntValue<'c>],
        proved: &[(ir::Value, Range<i64>)],
    ) -> Result<IntValue<'c>> {
        let emitter = self.emitter;
        let value = |value: ir::Value| values[value.0 as usize];
        match *op {
            Op::Const(number) => Ok(emitter.number(number)),
            Op::Read(register) => self.get(register),
            Op::Binary(op, a, b) => emitter.binary(op, value(a), value(b)),
            Op::Unary(op, a) => emitter.unary(op, value(a)),
            Op::Load { width, is_signed, base, offset } => {
                emitter.load(self.base, (width, is_signed), address((base, offset), values, proved))
            }
            Op::Check { access, base, low, high } => {
                let bounds = emitter.ir.bounds(access);
                emitter.check_between(self.value, bounds, value(base), (low, high))?;
                Ok(emitter.i64.const_zero())
            }
            // `block` has emitted stores; proved checks emit nothing.
            Op::Store { .. } | Op::Proved { .. } => Ok(emitter.i64.const_zero()),
            Op::CyclesLeft => self.cycles_left(),
            Op::Charge(cycles) => {
                self.use_up(value(cycles))?;
                Ok(emitter.i64.const_zero())
            }
        }
    }
}
