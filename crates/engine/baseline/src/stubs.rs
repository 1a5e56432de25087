//! Shared routines of every library: entry, calls of the host, indirect calls, division and the carry-less
//! product.

use std::mem::offset_of;

use antares_abi::{
    BailoutReason, ENTRIES_PER_GROUP, ENTRY_PAGE_BYTES, HostTable, NAMES_TARGET, PAST_TABLE, THUNK_BYTES,
};
use antares_program::Reg;

use crate::{
    Context,
    assembler::{Alu, Assembler, Cond, Extend, Gpr, Label, Mem, Shift, Unary},
    fitted::fitted,
    function::RETURN_BYTES,
    library::HEADER_BYTES,
    number,
    registers::{self, BASE, CYCLES_LEFT, STATE, host, state_slot},
    values::Code,
};

pub(crate) fn emit(context: &Context, code: &mut Code) {
    let asm = &mut code.asm;
    enter(context, asm);
    ecall(context, asm);
    dispatch(context, asm);
    far_jump(context, asm);
    divide(context, asm);
    divide_unsigned(context, asm);
    carryless(context, asm);
    let traps = [
        (context.stubs.bad_address, BailoutReason::BadAddress),
        (context.stubs.unknown_target, BailoutReason::UnknownTarget),
        (context.stubs.unsupported, BailoutReason::Unsupported),
    ];
    for (label, reason) in traps {
        asm.bind(label);
        asm.trap(number(reason));
    }
    // The target of a jump is in rax.
    for (label, flag) in
        [(context.stubs.unknown_callee, NAMES_TARGET), (context.stubs.past_table, PAST_TABLE)]
    {
        asm.bind(label);
        asm.store(8, registers::pc(), Gpr::RAX);
        asm.trap(number(BailoutReason::UnknownTarget) | flag);
    }
}

/// Emits the entry thunk of the next function: a jump to [`enter`] with the function in rcx.
pub(crate) fn thunk(context: &Context, asm: &mut Assembler, function: Label) {
    let start = asm.code.len();
    asm.lea_label(Gpr::RCX, function);
    asm.jump_far(context.stubs.enter);
    debug_assert_eq!(asm.code.len() - start, THUNK_BYTES as usize);
}

fn load_pinned(context: &Context, asm: &mut Assembler) {
    for (register, host) in context.pinned.pairs() {
        asm.mov(*host, state_slot(*register));
    }
}

fn store_pinned(context: &Context, asm: &mut Assembler) {
    for (register, host) in context.pinned.pairs() {
        asm.store(8, state_slot(*register), *host);
    }
}

/// Callee-saved registers of the full tier's code, which calls thunks of other libraries. That code saves its
/// vector registers itself.
const SAVED: [Gpr; 6] = [Gpr::RBX, Gpr::RBP, Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15];
/// Stack bytes of [`SAVED`].
const SAVED_BYTES: u32 = 6 * RETURN_BYTES;

/// Entry from the host or another library, with base in rax and the function in rcx. Loads host registers
/// from the state and stores them after the call. Then pc is the address in the link register at entry.
fn enter(context: &Context, asm: &mut Assembler) {
    asm.bind(context.stubs.enter);
    for register in SAVED {
        asm.push(register);
    }
    asm.mov(BASE, Gpr::RAX);
    asm.lea(STATE, registers::state_from(Gpr::RAX));
    asm.mov(CYCLES_LEFT, registers::cycles_left());
    asm.mov(Gpr::RDX, state_slot(Reg::RA));
    asm.alu_number(Alu::And, Gpr::RDX, !1);
    asm.push(Gpr::RDX);
    asm.row(2 * RETURN_BYTES + SAVED_BYTES, &[]);
    load_pinned(context, asm);
    asm.call_to(Gpr::RCX);
    store_pinned(context, asm);
    asm.pop(Gpr::RDX);
    asm.store(8, registers::pc(), Gpr::RDX);
    asm.store(8, registers::cycles_left(), CYCLES_LEFT);
    asm.store_number(8, registers::is_complete(), context.is_complete());
    for register in SAVED.into_iter().rev() {
        asm.pop(register);
    }
    asm.ret();
}

/// A syscall, with its address in rax. The host itself bails out if necessary.
fn ecall(context: &Context, asm: &mut Assembler) {
    asm.bind(context.stubs.ecall);
    asm.row(RETURN_BYTES, &[]);
    asm.store(8, registers::pc(), Gpr::RAX);
    asm.store_number(8, registers::is_complete(), context.is_complete());
    call_out(context, asm, host(offset_of!(HostTable, ecall)));
    for (register, host) in context.pinned.lost_in_syscalls() {
        asm.mov(host, state_slot(register));
    }
    asm.ret();
}

/// Calls a host function that takes base and the next two argument registers. It may return with other
/// registers in the state.
pub(crate) fn call_host(context: &Context, asm: &mut Assembler, function: Mem) {
    call_out(context, asm, function);
    load_pinned(context, asm);
}

/// Calls a host function with the guest registers in the state, but loads none of them after it.
fn call_out(context: &Context, asm: &mut Assembler, function: Mem) {
    asm.store(8, registers::cycles_left(), CYCLES_LEFT);
    store_pinned(context, asm);
    asm.mov(Gpr::RDI, BASE);
    asm.call_to(function);
    asm.lea(BASE, registers::base_from_state());
    asm.mov(CYCLES_LEFT, registers::cycles_left());
}

/// Jumps to where the link register points if a marked frame waits there. Does not return.
fn far_jump(context: &Context, asm: &mut Assembler) {
    asm.bind(context.stubs.far_jump);
    asm.store(8, registers::cycles_left(), CYCLES_LEFT);
    store_pinned(context, asm);
    asm.mov(Gpr::RDI, BASE);
    asm.mov(Gpr::RSI, state_slot(Reg::RA));
    asm.call_to(host(offset_of!(HostTable, far_jump)));
    asm.trap(number(BailoutReason::UnknownTarget));
}

/// Jumps to the function at the guest address in rax, which returns to this stub's caller. If there is none,
/// it bails out, or requests another library's function from the host.
fn dispatch(context: &Context, asm: &mut Assembler) {
    let unknown = if context.module.is_open { asm.label() } else { context.stubs.unknown_callee };
    let (index, table, group) = (Gpr::RCX, Gpr::RDX, Gpr::RSI);
    let bits = |count: u64| fitted(count.trailing_zeros());
    let per_group = ENTRIES_PER_GROUP as u64;
    asm.bind(context.stubs.dispatch);
    asm.mov_number(index, context.module.code_start.wrapping_neg().cast_signed());
    asm.alu(Alu::Add, index, Gpr::RAX);
    asm.mov(group, index);
    asm.shift_number(Shift::Shr, group, bits(ENTRY_PAGE_BYTES));
    asm.alu_number(Alu::Cmp, group, fitted(context.tables.pages));
    asm.jump_if(Cond::ABOVE_EQUAL, unknown);
    asm.lea_data(table, HEADER_BYTES);
    asm.extend(Extend::ZeroHalf, group, Mem { base: table, index: Some((group, 1)), displacement: 0 });
    asm.shift_number(Shift::Shl, group, bits(per_group));
    asm.shift_number(Shift::Shr, index, 1);
    asm.alu_number(Alu::And, index, fitted(per_group - 1));
    asm.alu(Alu::Or, index, group);
    asm.lea_data(table, context.tables.entries);
    asm.sign_extend_word(index, Mem::entry(table, index));
    asm.test(index, index);
    asm.jump_if(Cond::EQUAL, unknown);
    asm.lea(index, Mem { base: table, index: Some((index, 0)), displacement: THUNK_BYTES.cast_signed() });
    asm.jump_to(index);
    if !context.module.is_open {
        return;
    }
    asm.bind(unknown);
    store_pinned(context, asm);
    asm.store(8, registers::cycles_left(), CYCLES_LEFT);
    asm.push(BASE);
    asm.row(2 * RETURN_BYTES, &[]);
    asm.mov(Gpr::RDI, BASE);
    asm.mov(Gpr::RSI, Gpr::RAX);
    asm.call_to(host(offset_of!(HostTable, resolve)));
    // Another library's thunk preserves no registers.
    asm.mov(Gpr::RCX, Gpr::RAX);
    asm.mov(Gpr::RAX, Mem::at(Gpr::RSP, 0));
    asm.call_to(Gpr::RCX);
    asm.pop(BASE);
    asm.lea(STATE, registers::state_from(BASE));
    asm.mov(CYCLES_LEFT, registers::cycles_left());
    load_pinned(context, asm);
    asm.ret();
    asm.row(RETURN_BYTES, &[]);
}

/// Signed quotient of rax and rcx in rax, remainder in rdx. Uses no other register.
fn divide(context: &Context, asm: &mut Assembler) {
    let (zero, minus_one) = (asm.label(), asm.label());
    asm.bind(context.stubs.divide);
    asm.test(Gpr::RCX, Gpr::RCX);
    asm.jump_if(Cond::EQUAL, zero);
    // idiv faults if the quotient does not fit: -2^63 / -1.
    asm.alu_number(Alu::Cmp, Gpr::RCX, -1);
    asm.jump_if(Cond::EQUAL, minus_one);
    asm.sign_of_rax();
    asm.unary(Unary::Idiv, Gpr::RCX);
    asm.ret();
    asm.bind(minus_one);
    asm.unary(Unary::Neg, Gpr::RAX);
    asm.zero(Gpr::RDX);
    asm.ret();
    divide_by_zero(asm, zero);
}

/// Unsigned quotient of rax and rcx in rax, remainder in rdx. Uses no other register. Division of words is
/// faster.
fn divide_unsigned(context: &Context, asm: &mut Assembler) {
    let (zero, word) = (asm.label(), asm.label());
    asm.bind(context.stubs.divide_unsigned);
    asm.test(Gpr::RCX, Gpr::RCX);
    asm.jump_if(Cond::EQUAL, zero);
    asm.mov(Gpr::RDX, Gpr::RAX);
    asm.alu(Alu::Or, Gpr::RDX, Gpr::RCX);
    asm.shift_number(Shift::Shr, Gpr::RDX, 32);
    asm.jump_if(Cond::EQUAL, word);
    asm.zero(Gpr::RDX);
    asm.unary(Unary::Div, Gpr::RCX);
    asm.ret();
    asm.bind(word);
    // rdx is 0: both operands fit into words.
    asm.div_word(Gpr::RCX);
    asm.ret();
    divide_by_zero(asm, zero);
}

/// All bits in rax, and rax in rdx.
fn divide_by_zero(asm: &mut Assembler, zero: Label) {
    asm.bind(zero);
    asm.mov(Gpr::RDX, Gpr::RAX);
    asm.mov_number(Gpr::RAX, -1);
    asm.ret();
}

/// The carry-less product of rax and rdx: low half in rax, high half in rdx. Needs no special instruction.
/// Goes bit by bit from the top: doubles the product, and adds rax where rdx has a bit.
fn carryless(context: &Context, asm: &mut Assembler) {
    let (turn, no_bit) = (asm.label(), asm.label());
    let (low, high, bits, count) = (Gpr::RCX, Gpr::RSI, Gpr::RDX, Gpr::RDI);
    asm.bind(context.stubs.carryless);
    for register in [low, high, count] {
        asm.push(register);
    }
    asm.zero(low);
    asm.zero(high);
    asm.mov_number(count, 64);
    asm.bind(turn);
    asm.shift_number(Shift::Rol, bits, 1);
    asm.alu(Alu::Add, low, low);
    asm.alu(Alu::Adc, high, high);
    asm.test_bit(bits, 0);
    asm.jump_if(Cond::ABOVE_EQUAL, no_bit);
    asm.alu(Alu::Xor, low, Gpr::RAX);
    asm.bind(no_bit);
    asm.alu_number(Alu::Sub, count, 1);
    asm.jump_if(Cond::NOT_EQUAL, turn);
    asm.mov(Gpr::RAX, low);
    asm.mov(Gpr::RDX, high);
    for register in [count, high, low] {
        asm.pop(register);
    }
    asm.ret();
}
