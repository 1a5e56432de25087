//! Terminators of blocks, and their checks.

use antares_abi::{BailoutReason, Sha256Digest};
use antares_ir::{Access, Block, Function, Op, Terminator};
use antares_pool::{Sealed, verify_library};
use antares_program::{BlockId, FunctionId, GuestAddr, Reg, RegSet};
use antares_vm::{Machine, Outcome};

use crate::harness::{self, Build, CODE, DATA, END, Ran};

fn run(functions: Vec<Function>) -> Ran {
    harness::run(&mut Machine::new().unwrap(), &harness::module(functions), 1 << 20)
}

/// A block with only a terminator.
fn ending(terminator: Terminator) -> Block {
    Build::default().end(terminator)
}

/// Blocks of a function that calls `callee` with a return address, and exits with `code` after the return.
fn caller(call: Terminator, code: u64) -> Vec<Block> {
    let link = CODE + 4;
    vec![Build::set(&[(1, link), (2, END - 64), (5, CODE + 16)]).end(call), harness::exit(code)]
}

fn call(callee: u32) -> Terminator {
    Terminator::Call { callee: FunctionId(callee), to: BlockId(1) }
}

/// A function that returns with `numbers` in registers; it compares its return address.
fn returning(index: u32, numbers: &[(u8, u64)]) -> Function {
    let mut build = Build::set(numbers);
    let link = build.link();
    let block = build.end(Terminator::Return { link: Some(link), locals: Vec::new() });
    harness::function(index, vec![block])
}

#[test]
fn a_return_goes_to_the_caller_alone() {
    let callers = || harness::function(0, caller(call(1), 7));
    assert_eq!(run(vec![callers(), returning(1, &[(8, 1)])]).exited(), Some(7));
    let wrong = run(vec![callers(), returning(1, &[(1, CODE + 8)])]);
    assert_eq!(wrong.restarted, Some(BailoutReason::UnknownTarget));
    assert_eq!(wrong.outcome, Outcome::Exit(99));
}

#[test]
fn a_return_may_go_to_a_place_inside() {
    // The return address is odd and belongs to one of the function's own blocks.
    let first = Build::set(&[(1, CODE + 0x21)]);
    let value = first.writes[0].1;
    let locals = vec![(GuestAddr(CODE + 0x30), BlockId(1)), (GuestAddr(CODE + 0x20), BlockId(2))];
    let blocks =
        vec![first.end(Terminator::Return { link: Some(value), locals }), harness::exit(1), harness::exit(2)];
    let functions = vec![harness::function(0, caller(call(1), 7)), harness::function(1, blocks)];
    assert_eq!(run(functions).exited(), Some(2));
}

#[test]
fn a_tail_call_compares_after_the_callee() {
    let tail = |numbers: &[(u8, u64)]| {
        let mut build = Build::set(numbers);
        let link = Some(build.link());
        harness::function(1, vec![build.end(Terminator::TailCall { callee: FunctionId(2), link })])
    };
    let last = |function: Function| vec![harness::function(0, caller(call(1), 7)), tail(&[]), function];
    assert_eq!(run(last(returning(2, &[(8, 1)]))).exited(), Some(7));
    let wrong = |callee: Function| vec![harness::function(0, caller(call(1), 7)), tail(&[(1, 2)]), callee];
    let left = run(wrong(returning(2, &[(8, 1)])));
    assert_eq!(left.restarted, Some(BailoutReason::UnknownTarget));
    // If the callee ends the script, the return address is not checked.
    assert_eq!(run(wrong(harness::function(2, vec![harness::exit(3)]))).exited(), Some(3));
    let jump = ending(Terminator::TailCall { callee: FunctionId(2), link: None });
    let functions =
        vec![harness::function(0, caller(call(1), 7)), harness::function(1, vec![jump]), returning(2, &[])];
    assert_eq!(run(functions).exited(), Some(7));
}

/// Blocks that call the address in `t0`.
fn indirect(target: u64) -> Vec<Block> {
    let mut build = Build::set(&[(1, CODE + 4), (2, END - 64)]);
    let target = build.number(target);
    let live = RegSet::ALL;
    vec![build.end(Terminator::CallIndirect { target, live, to: BlockId(1) }), harness::exit(5)]
}

#[test]
fn indirect_calls_find_functions() {
    let call = |target, callee| run(vec![harness::function(0, indirect(target)), callee]);
    assert_eq!(call(CODE + 16, returning(1, &[(8, 1)])).exited(), Some(5));
    // The lowest bit of an address is ignored.
    assert_eq!(call(CODE + 17, returning(1, &[(8, 1)])).exited(), Some(5));
    for target in [CODE + 18, CODE - 2, DATA, 0, u64::MAX - 1, CODE + (1 << 32) + 16] {
        let restarted = call(target, returning(1, &[])).restarted;
        assert_eq!(restarted, Some(BailoutReason::UnknownTarget), "{target:#x}");
    }
    let moved = call(CODE + 16, returning(1, &[(2, END - 32)]));
    assert_eq!(moved.restarted, Some(BailoutReason::UnknownTarget), "sp was not given back");
    let back = Terminator::Return { link: None, locals: Vec::new() };
    let mut millicode = harness::function(1, vec![ending(back)]);
    (millicode.link, millicode.is_resumable) = (Reg::T0, true);
    let found = call(CODE + 16, millicode);
    assert_eq!(found.restarted, Some(BailoutReason::UnknownTarget), "it returns through another register");
}

/// A jump to `target` among `targets`; the exit code is its index, 100 for none.
#[track_caller]
fn check_jump(targets: &[u64], target: u64) {
    let mut build = Build::default();
    let read = build.op(Op::Read(Reg(9)));
    let list = (2..).zip(targets).map(|(block, pc)| (GuestAddr(*pc), BlockId(block))).collect();
    let jump =
        Terminator::JumpIndirect { target: read, candidates: list, may_call: false, link: None, table: None };
    let mut blocks = vec![Build::set(&[(9, target)]).end(Terminator::Jump(BlockId(1))), build.end(jump)];
    blocks.extend((0..targets.len() as u64).map(harness::exit));
    let ran = run(vec![harness::function(0, blocks)]);
    match targets.iter().position(|pc| *pc == target) {
        Some(place) => assert_eq!(ran.exited(), Some(i8::try_from(place).unwrap()), "{target:#x}"),
        None => assert_eq!(ran.restarted, Some(BailoutReason::UnknownTarget), "{target:#x}"),
    }
}

#[test]
fn jumps_choose_among_candidates() {
    let few = [CODE + 6, CODE + 2, CODE + 4];
    let many: Vec<u64> = (0..40).map(|index| CODE + 64 + 4 * index).collect();
    let sparse: Vec<u64> = (0..40).map(|index| CODE + 0x40 * index * index).collect();
    for candidates in [few.as_slice(), &many, &sparse, &[]] {
        let near = candidates.iter().flat_map(|pc| [*pc, pc + 1, pc + 2]);
        for target in near.chain([0, CODE - 2, u64::MAX, 1 << 63, CODE + (1 << 32)]) {
            check_jump(candidates, target);
        }
    }
}

#[test]
fn a_jump_may_be_a_tail_call() {
    let jump = |link_is_own: bool| {
        let mut build = if link_is_own { Build::default() } else { Build::set(&[(1, 2)]) };
        let link = Some(build.link());
        let target = build.number(CODE + 32);
        let candidates = vec![(GuestAddr(CODE + 2), BlockId(0))];
        let jump = Terminator::JumpIndirect { target, candidates, may_call: true, link, table: None };
        vec![
            harness::function(0, caller(call(1), 7)),
            harness::function(1, vec![build.end(jump)]),
            returning(2, &[(8, 1)]),
        ]
    };
    assert_eq!(run(jump(true)).exited(), Some(7));
    assert_eq!(run(jump(false)).restarted, Some(BailoutReason::UnknownTarget));
}

/// Whether the check of `[base + low, base + high)` for an access passes.
fn passes(access: Access, base: u64, (low, high): (i64, i64), is_known: bool) -> bool {
    let mut build = Build::default();
    let base_value = if is_known { build.number(base) } else { build.op(Op::Read(Reg(9))) };
    build.op(Op::Check { access, base: base_value, low, high });
    let functions = vec![harness::function(0, harness::sequence(vec![Build::set(&[(9, base)]), build], 0))];
    let ran = run(functions);
    assert!(matches!(ran.restarted, None | Some(BailoutReason::BadAddress)), "{:?}", ran.restarted);
    ran.restarted.is_none()
}

#[test]
fn checks_refuse_what_lies_outside() {
    for (access, base, span, expected) in [
        (Access::Read, 0, (0, 8), true),
        (Access::Read, END - 8, (0, 8), true),
        (Access::Read, END - 7, (0, 8), false),
        (Access::Read, END, (-8, 0), true),
        (Access::Read, u64::MAX - 7, (16, 24), true),
        (Access::Read, u64::MAX - 7, (0, 8), false),
        (Access::Read, (1 << 32) + 16, (0, 8), false),
        (Access::Read, 1 << 63, (0, 1), false),
        (Access::Read, 0, (0, 8 << 20), false),
        (Access::Read, 1_u64.wrapping_sub(1 << 40), (1 << 40, (1 << 40) + 1), true),
        (Access::Write, DATA, (0, 8), true),
        (Access::Write, DATA, (-1, 7), false),
        (Access::Write, END - 8, (0, 8), true),
        (Access::Write, END - 8, (1, 9), false),
    ] {
        for is_known in [false, true] {
            assert_eq!(passes(access, base, span, is_known), expected, "{access:?} {base:#x} {span:?}");
        }
    }
}

#[test]
fn frames_are_checked_at_the_entry() {
    for (sp, is_good) in [(END, true), (DATA + 64, true), (DATA + 63, false), (END + 1, false), (0, false)] {
        let mut callee = returning(1, &[]);
        callee.frame_low = Some(-64);
        let mut blocks = caller(call(1), 7);
        blocks[0] = Build::set(&[(1, CODE + 4), (2, sp)]).end(call(1));
        let ran = run(vec![harness::function(0, blocks), callee]);
        assert_eq!(ran.restarted, (!is_good).then_some(BailoutReason::BadAddress), "{sp:#x}");
    }
}

/// A loop of 1000 iterations of 3 cycles, with 1 cycle before and 1 after.
fn looping() -> Vec<Function> {
    let mut turn = Build::default();
    let (counter, one) = (turn.op(Op::Read(Reg(9))), turn.number(1));
    let next = turn.op(Op::Binary(antares_ir::BinaryOp::Sub, counter, one));
    turn.write(9, next);
    let mut turn = turn.end(Terminator::Branch { condition: next, taken: BlockId(1), otherwise: BlockId(2) });
    (turn.cycles, turn.is_metered) = (3, true);
    let mut exit = harness::exit(4);
    exit.is_metered = true;
    vec![harness::function(0, vec![Build::set(&[(9, 1000)]).end(Terminator::Jump(BlockId(1))), turn, exit])]
}

#[test]
fn cycles_are_counted_and_limited() {
    let mut machine = Machine::new().unwrap();
    let module = harness::module(looping());
    let ran = harness::run(&mut machine, &module, 1 << 20);
    assert_eq!((ran.exited(), ran.cycles), (Some(4), 3002));
    assert_eq!(harness::run(&mut machine, &module, 3002).exited(), Some(4));
    assert_eq!(harness::run(&mut machine, &module, 3001).restarted, Some(BailoutReason::OutOfCycles));
    assert_eq!(harness::run(&mut machine, &module, 2).restarted, Some(BailoutReason::OutOfCycles));
}

/// Without the meter, this test would not end.
#[test]
fn endless_loops_end() {
    let mut turn = ending(Terminator::Jump(BlockId(0)));
    turn.is_metered = true;
    let module = harness::module(vec![harness::function(0, vec![turn])]);
    // Several slices of cycles.
    let ran = harness::run(&mut Machine::new().unwrap(), &module, 5 << 20);
    assert_eq!(ran.restarted, Some(BailoutReason::OutOfCycles));
}

#[test]
fn recursion_ends_at_the_guard() {
    let ran = run(vec![harness::function(0, caller(call(1), 7)), harness::function(1, caller(call(1), 7))]);
    assert_eq!(ran.restarted, Some(BailoutReason::StackOverflow));
}

#[test]
fn what_cannot_run_is_left() {
    let ran = run(vec![harness::function(0, vec![ending(Terminator::Leave)])]);
    assert_eq!(ran.restarted, Some(BailoutReason::Unsupported));
}

#[test]
fn libraries_are_the_same_every_time_and_pass_the_check() {
    let module = harness::module(looping());
    let bytes = antares_baseline::compile(&module, None).unwrap();
    assert_eq!(bytes, antares_baseline::compile(&module, None).unwrap());
    let sealed = Sealed::new("library", &bytes).unwrap();
    verify_library(&sealed, Sha256Digest::of(&bytes)).unwrap();
    // Also without any function.
    let empty = antares_baseline::compile(&harness::module(Vec::new()), None).unwrap();
    verify_library(&Sealed::new("library", &empty).unwrap(), Sha256Digest::of(&empty)).unwrap();
}
