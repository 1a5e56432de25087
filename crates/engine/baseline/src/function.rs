//! Emits one guest function: its host frame, its blocks, and the cold code after them.

use std::mem::offset_of;

use antares_abi::{BailoutReason, HostTable, METER_MARK};
use antares_ir::{Block, Function, Returns, Terminator, Value, span};
use antares_program::{BlockId, GuestAddr, Reg};

use crate::{
    BaselineError, Context,
    assembler::{Alu, Cond, Gpr, Label, Mem, Rm},
    fitted, number,
    registers::{BASE, CYCLES_LEFT, host, state_slot},
    stubs,
    values::{Code, Frame, Values},
};

/// Maximum bytes of a host frame. A frame is smaller than the guard below the native stack, so that an
/// overflowing call touches the guard.
const FRAME_BYTES_MAX: u32 = 32 << 10;

pub(crate) const RETURN_BYTES: u32 = 8;

/// Marks rows of the frame table until the frame size is known.
const WHOLE_FRAME: u32 = u32::MAX;

/// A 7-byte no-op that replaces a change of the stack pointer by 0.
const NOTHING: [u8; 7] = [0x0f, 0x1f, 0x80, 0, 0, 0, 0];

/// Code after the function's blocks.
#[derive(Debug)]
pub(crate) enum Cold {
    /// Calls the meter when execution enters the block at an address: own label, label to return to, address.
    Meter(Label, Label, GuestAddr),
    /// Handles a link register other than the own return address: it holds one of these or is unknown.
    Locals(Label, Vec<(GuestAddr, BlockId)>),
    /// Counts a branch on its way to a block.
    Count(Label, Mem, BlockId),
}

#[derive(Debug)]
pub(crate) struct FunctionEmitter<'a, 'm> {
    pub(crate) context: &'a Context<'m>,
    pub(crate) code: &'a mut Code,
    pub(crate) ir: &'a Function,
    pub(crate) blocks: Vec<Label>,
    /// The number of the current block.
    pub(crate) index: usize,
    pub(crate) values: Values<'a>,
    /// Values that were emitted ahead of their own operation.
    pub(crate) early: Vec<Value>,
    /// The slot with the return address that the function was called with.
    own_link: Option<u32>,
    /// Ends of instructions that allocate or free the frame.
    frame_changes: Vec<usize>,
    /// The index of the function's first row in the frame table.
    first_row: usize,
    pub(crate) cold: Vec<Cold>,
}

/// Emits `ir`, preceded by an entry thunk if the entry table has one for it.
pub(crate) fn emit(context: &Context, code: &mut Code, ir: &Function) -> Result<(), BaselineError> {
    code.frame = Frame::default();
    let blocks = ir.blocks.iter().map(|_| code.asm.label()).collect();
    let mut function = FunctionEmitter {
        context,
        code,
        ir,
        blocks,
        index: 0,
        values: Values::new(&ir.blocks[0], &context.pinned),
        early: Vec::new(),
        own_link: None,
        frame_changes: Vec::new(),
        first_row: 0,
        cold: Vec::new(),
    };
    function.entry();
    for index in 0..ir.blocks.len() {
        function.emit_block(index);
    }
    function.code.asm.row(WHOLE_FRAME, &[ir.entry]);
    function.cold_code();
    function.finish_frame()
}

impl<'a> FunctionEmitter<'a, '_> {
    fn entry(&mut self) {
        let label = self.context.functions[self.ir.id.0 as usize];
        if let Some(entry) = self.context.tables.entry(self.ir.id) {
            let thunk = self.code.asm.label();
            self.code.asm.bind(thunk);
            stubs::thunk(self.context, &mut self.code.asm, label);
            self.code.asm.entry(entry, thunk, self.context.tables.entries);
        }
        self.code.asm.bind(label);
        self.first_row = self.code.asm.rows.len();
        self.code.asm.row(RETURN_BYTES, &[self.ir.entry]);
        self.change_frame(Alu::Sub);
        if self.ir.compares_link() {
            let slot = self.code.frame.reserve();
            let link = self.guest(self.ir.link, Gpr::RAX);
            self.code.asm.store(8, Frame::memory(slot), link);
            self.own_link = Some(slot);
        }
        if let Some(low) = self.ir.frame_low {
            let sp = self.guest(Reg::SP, Gpr::RAX);
            self.check_between(self.context.module.frame_bounds(), sp, (low, 0), Gpr::RCX);
        }
    }

    /// The host register that holds a guest register: its pinned one, or `other` after a load.
    pub(crate) fn guest(&mut self, register: Reg, other: Gpr) -> Gpr {
        match self.context.pinned.host(register) {
            Some(host) => host,
            None => {
                self.code.asm.mov(other, state_slot(register));
                other
            }
        }
    }

    /// Allocates or frees the frame. `finish_frame` patches in its size.
    fn change_frame(&mut self, op: Alu) {
        // A number that needs the long encoding.
        self.code.asm.alu_number(op, Gpr::RSP, i32::MAX);
        self.frame_changes.push(self.code.asm.code.len());
    }

    /// Returns to the host caller.
    pub(crate) fn give_back(&mut self) {
        self.unmark();
        self.change_frame(Alu::Add);
        self.code.asm.ret();
    }

    /// Tail-calls another function.
    pub(crate) fn replace_by(&mut self, function: Label) {
        self.unmark();
        self.change_frame(Alu::Add);
        self.code.asm.jump_far(function);
    }

    /// Removes the frame's marks before the function ends.
    fn unmark(&mut self) {
        if self.context.module.has_marks(self.ir) {
            stubs::call_host(self.context, &mut self.code.asm, host(offset_of!(HostTable, unmark)));
        }
    }

    /// Marks the frame before a call that may return more than once, to the block `to`.
    pub(crate) fn mark(&mut self, to: BlockId) {
        let block = self.block();
        let Some(back) = block.written(Reg::RA).and_then(|value| block.number(value)) else { return };
        let sp = self.guest(Reg::SP, Gpr::RDX);
        self.code.asm.mov(Gpr::RDX, sp);
        self.code.asm.mov_number(Gpr::RSI, back);
        stubs::call_host(self.context, &mut self.code.asm, host(offset_of!(HostTable, mark)));
        self.code.asm.test(Gpr::RAX, Gpr::RAX);
        self.code.asm.jump_if(Cond::NOT_EQUAL, self.target(to));
    }

    fn finish_frame(&mut self) -> Result<(), BaselineError> {
        let mut bytes = self.code.frame.bytes();
        if self.context.module.is_open {
            // Other libraries, which the function may call, expect a stack pointer that is a multiple of 16
            // at calls.
            bytes = bytes / 16 * 16 + RETURN_BYTES;
        }
        if bytes > FRAME_BYTES_MAX {
            return Err(BaselineError::Frame { bytes_max: FRAME_BYTES_MAX });
        }
        for row in self.code.asm.rows.iter_mut().skip(self.first_row).filter(|row| row.bytes == WHOLE_FRAME) {
            row.bytes = bytes + RETURN_BYTES;
        }
        let bytes: i32 = fitted(bytes);
        for end in std::mem::take(&mut self.frame_changes) {
            if bytes == 0 {
                self.code.asm.code[end - NOTHING.len()..end].copy_from_slice(&NOTHING);
            } else {
                self.code.asm.patch(end, bytes);
            }
        }
        Ok(())
    }

    /// The location of the function's own return address, if a comparison needs it.
    pub(crate) fn own_link(&self) -> Option<Mem> {
        self.own_link.map(Frame::memory)
    }

    pub(crate) fn target(&self, id: BlockId) -> Label {
        self.blocks[id.0 as usize]
    }

    /// Continues at a block, without a jump if it is the next one.
    pub(crate) fn go_on(&mut self, to: BlockId) {
        if to.0 as usize != self.index + 1 {
            self.code.asm.jump(self.target(to));
        }
    }

    pub(crate) fn bail_out(&mut self, reason: BailoutReason) {
        self.code.asm.trap(number(reason));
    }

    /// The label of the code for returns to an address other than the caller's.
    pub(crate) fn cold_locals(&mut self, locals: &[(GuestAddr, BlockId)]) -> Label {
        if locals.is_empty()
            && self.ir.returns == Returns::Far
            && self.ir.link == Reg::RA
            && !self.context.module.is_open
        {
            return self.context.stubs.far_jump;
        }
        if locals.is_empty() {
            return self.context.stubs.unknown_target;
        }
        let at = self.code.asm.label();
        self.cold.push(Cold::Locals(at, locals.to_vec()));
        at
    }

    /// The current block.
    pub(crate) fn block(&self) -> &'a Block {
        &self.ir.blocks[self.index]
    }

    fn emit_block(&mut self, index: usize) {
        self.index = index;
        let block = self.block();
        self.code.asm.bind(self.blocks[index]);
        self.code.asm.row(WHOLE_FRAME, &[self.ir.entry]);
        self.code.frame.clear();
        self.charge(block);
        self.values = Values::new(block, &self.context.pinned);
        for (value, op) in (0..).zip(&block.ops) {
            self.operation(value, op);
        }
        let is_plain = matches!(block.terminator, Terminator::Jump(_) | Terminator::Branch { .. });
        if !is_plain {
            self.code.asm.row(WHOLE_FRAME, &[self.ir.caller(block)]);
        }
        self.terminator();
    }

    /// Charges the block's cycles, and calls the meter if no cycles are left.
    fn charge(&mut self, block: &Block) {
        let asm = &mut self.code.asm;
        let cycles = block.charged().unwrap_or(block.cycles);
        match i32::try_from(cycles) {
            Ok(0) if !block.is_metered => {}
            Ok(cycles) => asm.alu_number(Alu::Sub, CYCLES_LEFT, cycles),
            Err(_) => {
                asm.mov_number(Gpr::RAX, cycles.cast_signed());
                asm.alu(Alu::Sub, CYCLES_LEFT, Gpr::RAX);
            }
        }
        if block.is_metered {
            let (at, back) = (asm.label(), asm.label());
            asm.jump_if(Cond::SIGN, at);
            asm.bind(back);
            self.cold.push(Cold::Meter(at, back, block.pc));
        }
    }

    fn cold_code(&mut self) {
        for cold in std::mem::take(&mut self.cold) {
            match cold {
                Cold::Meter(at, back, pc) => {
                    self.code.asm.bind(at);
                    self.code.asm.call_to(host(offset_of!(HostTable, meter)));
                    // Code addresses fit into 32 bits; 0 means no address.
                    self.code.asm.mark(METER_MARK, (BASE, CYCLES_LEFT), u32::try_from(pc.0).unwrap_or(0));
                    self.code.asm.jump(back);
                }
                Cold::Count(at, counter, to) => {
                    self.code.asm.bind(at);
                    self.code.asm.count_at(counter);
                    self.code.asm.jump(self.target(to));
                }
                Cold::Locals(at, locals) => {
                    self.code.asm.bind(at);
                    let link = self.guest(self.ir.link, Gpr::RAX);
                    self.code.asm.mov(Gpr::RAX, link);
                    self.code.asm.alu_number(Alu::And, Gpr::RAX, !1);
                    self.switch(&locals);
                    self.code.asm.jump(self.context.stubs.unknown_target);
                }
            }
        }
    }

    /// Bails out unless `[base + low, base + high)` lies inside the bounds, modulo 2^64 and without a wrap.
    /// The difference is left in `scratch`.
    pub(crate) fn check_between(
        &mut self,
        bounds: (u64, u64),
        base: Gpr,
        (low, high): (i64, i64),
        scratch: Gpr,
    ) {
        let bad = self.context.stubs.bad_address;
        let asm = &mut self.code.asm;
        let Some((offset, room)) = span(bounds, low, high) else { return asm.jump_far(bad) };
        let distance = match i32::try_from(offset) {
            Ok(0) => base,
            Ok(offset) => {
                asm.lea(scratch, Mem::at(base, offset));
                scratch
            }
            Err(_) => {
                asm.mov_number(scratch, offset);
                asm.alu(Alu::Add, scratch, base);
                scratch
            }
        };
        match i32::try_from(room) {
            Ok(room) => asm.alu_number(Alu::Cmp, Rm::Reg(distance), room),
            // Memory is smaller than that: the check always fails.
            Err(_) => return asm.jump_far(bad),
        }
        asm.jump_if(Cond::ABOVE, bad);
    }
}
