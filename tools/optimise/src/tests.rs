//! Rules that are wrong on purpose never reach a file, and what is right does.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use antares_abi::{CompileOptions, Isa};
use antares_program::{Op, Reg, RegSet};

use crate::{
    Plan, Rewrite, Settings, Solver, SolverAnswer,
    encode::{Form, Line, form, short, wide},
    plan,
    plan::Place,
    question::Statement,
};

const BASE: u64 = 0x10000;

fn options() -> CompileOptions {
    CompileOptions { vm_version: 2, isa: Isa::of_version(2) }
}

fn two(op: Op, rd: u8, rs1: u8, rs2: u8) -> Line {
    Line { op, rd, rs1, rs2, imm: 0 }
}

fn one(op: Op, rd: u8, rs1: u8, imm: i64) -> Line {
    Line { op, rd, rs1, rs2: 0, imm }
}

fn store(op: Op, base: u8, data: u8, imm: i64) -> Line {
    Line { op, rd: 0, rs1: base, rs2: data, imm }
}

/// An ELF of `words`, entered at its start.
fn elf(words: &[u32]) -> Vec<u8> {
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut bytes =
        vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 243, 0, 1, 0, 0, 0];
    bytes.extend((BASE + 120).to_le_bytes());
    bytes.extend(64_u64.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend([1, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let length = 120 + code.len() as u64;
    for number in [0, BASE, BASE, length, length, 0x1000] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(code);
    bytes
}

fn words(lines: &[Line]) -> Vec<u32> {
    lines.iter().map(|line| wide(*line).unwrap()).collect()
}

/// A plan that puts `new` into the place of `old`.
fn tampered(old: &[Line], new: &[Line], live_out: RegSet) -> (Plan, Vec<u8>) {
    let end = [0x05d0_0893, 0x73];
    let before = elf(&[words(old), end.to_vec()].concat());
    let after = elf(&[words(new), end.to_vec()].concat());
    let bytes = 4 * old.len();
    let rewrite = Rewrite {
        pc: BASE + 120,
        bytes,
        runs: 1,
        cycles_before: 2,
        cycles_after: 1,
        live_out,
        old_bytes: bytes,
        place: Place::Same { offset: 120, old: before[120..120 + bytes].to_vec() },
        ..Rewrite::default()
    };
    let mut plan = Plan { elf: after, rewrites: vec![rewrite], grown: None, left: Vec::new(), windows: 1 };
    let plain = CompileOptions { isa: Isa(options().isa.0 & !Isa::MOP.0), ..options() };
    plan.ask_about(&before, plain).unwrap();
    (plan, before)
}

/// What each rule claims: before, and after.
fn wrong_rules() -> Vec<(&'static str, Vec<Line>, Vec<Line>)> {
    let (mul, high) = (two(Op::Mul, 12, 10, 11), two(Op::Mulhu, 13, 10, 11));
    let nop = Line::NOP;
    vec![
        ("a clobbered operand", vec![mul, two(Op::Mulhu, 10, 10, 11)], vec![two(Op::Mulhu, 10, 10, 11), mul]),
        ("signed for unsigned", vec![mul, high], vec![two(Op::Mulh, 13, 10, 11), mul]),
        ("swapped operands of mulhsu", vec![two(Op::Mulhsu, 13, 10, 11)], vec![two(Op::Mulhsu, 13, 11, 10)]),
        (
            "a fault that moves",
            vec![store(Op::Sd, 10, 12, 0), store(Op::Sd, 11, 13, 0)],
            vec![store(Op::Sd, 11, 13, 0), store(Op::Sd, 10, 12, 0)],
        ),
        ("a load that is lost", vec![one(Op::Ld, 5, 10, 0), mul], vec![nop, mul]),
        (
            "a load over a store",
            vec![store(Op::Sd, 10, 12, 0), one(Op::Ld, 13, 11, 0)],
            vec![one(Op::Ld, 13, 11, 0), store(Op::Sd, 10, 12, 0)],
        ),
        ("a wrong sign", vec![one(Op::Lw, 12, 10, 0)], vec![one(Op::Lwu, 12, 10, 0)]),
        ("a narrower store", vec![store(Op::Sd, 10, 12, 0)], vec![store(Op::Sw, 10, 12, 0)]),
        (
            "a rotation the wrong way",
            vec![one(Op::Slli, 12, 10, 8), one(Op::Srli, 13, 10, 56), two(Op::Or, 14, 12, 13)],
            vec![nop, nop, one(Op::Rori, 14, 10, 8)],
        ),
        ("a shift beyond the width", vec![two(Op::Sllw, 12, 10, 11)], vec![two(Op::Sll, 12, 10, 11)]),
        (
            "a carry by the sum",
            vec![two(Op::Add, 12, 10, 11), two(Op::Sltu, 13, 12, 10)],
            vec![two(Op::Add, 12, 10, 11), two(Op::Sltu, 13, 10, 12)],
        ),
        ("a value that lives on", vec![one(Op::Addi, 14, 10, 1), mul], vec![nop, mul]),
    ]
}

#[test]
fn wrong_rules_never_reach_a_file() {
    let solvers = Solver::all();
    if solvers.is_empty() {
        println!("skipped: no solver is installed");
        return;
    }
    let mut live = RegSet::EMPTY;
    for register in [10, 12, 13, 14] {
        live = live.with(Reg(register));
    }
    for (what, old, new) in wrong_rules() {
        for solver in &solvers {
            let (mut plan, before) = tampered(&old, &new, live);
            assert!(plan.rewrites[0].statement.is_some(), "{what}");
            plan.prove(1, |statement| solver.prove(statement), |_| ());
            assert_eq!(plan.rewrites[0].refused.as_deref(), Some("sat"), "{what}, {}", solver.name());
            assert_eq!(plan.proved_elf(), before, "{what}");
            // The same window as it was is proved.
            let (mut plan, before) = tampered(&old, &old, live);
            plan.prove(1, |statement| solver.prove(statement), |_| ());
            assert_eq!(plan.rewrites[0].is_proved, Some(true), "{what}, {}", solver.name());
            assert_eq!(plan.proved_elf(), before, "{what}");
        }
    }
}

#[test]
fn windows_end_where_code_is_entered() {
    let body = [two(Op::Mul, 12, 10, 11), two(Op::Mulhu, 13, 10, 11), two(Op::Add, 10, 12, 13)];
    let exit = [0x05d0_0893, 0x73];
    let settings = Settings::default();
    let whole =
        plan(&elf(&[words(&body), exit.to_vec()].concat()), options(), &settings, |_, _| true).unwrap();
    assert_eq!(whole.rewrites.len(), 1);
    // `beq a4, zero` to the second half: the first one may not have been computed.
    let jumps = [vec![0x0007_0463], words(&body), exit.to_vec()].concat();
    let split = plan(&elf(&jumps), options(), &settings, |_, _| true).unwrap();
    assert!(split.rewrites.is_empty(), "{:?}", split.rewrites);
}

#[test]
fn code_that_is_read_is_left_alone() {
    // `auipc a0, 0; ld a1, 0(a0)`.
    let body = [two(Op::Mul, 12, 10, 11), two(Op::Mulhu, 13, 10, 11), two(Op::Add, 10, 12, 13)];
    let bytes = elf(&[vec![0x0000_0517, 0x0005_3583], words(&body), vec![0x05d0_0893, 0x73]].concat());
    let refused = plan(&bytes, options(), &Settings::default(), |_, _| true);
    assert!(
        matches!(refused, Err(crate::RewriteError::ReadsItself { pc }) if pc == BASE + 124),
        "{refused:?}"
    );
    let settings = Settings { may_read_itself: true, ..Settings::default() };
    assert_eq!(plan(&bytes, options(), &settings, |_, _| true).unwrap().rewrites.len(), 1);
}

#[test]
fn short_and_wide_forms_are_read_back_the_same() {
    let mut seen = 0;
    for &op in Op::ALL.iter().filter(|op| form(**op).is_some()) {
        for rd in [1, 2, 8, 9, 15, 31] {
            for (rs1, rs2) in [(rd, 10), (2, 9), (8, 15), (0, 5), (31, 0)] {
                for imm in [-32, -1, 1, 8, 16, 31, 32, 48, 124, 248, 496] {
                    let has_number = !matches!(form(op).unwrap(), Form::Two(..) | Form::One(..));
                    let imm = if !has_number {
                        0
                    } else if op == Op::Lui {
                        imm << 12
                    } else {
                        imm
                    };
                    let line = Line { op, rd, rs1, rs2, imm };
                    let (Some(word), short) = (wide(line), short(line)) else { continue };
                    let bytes = elf(&[word, short.map_or(0x13, |short| u32::from(short) | 1 << 16)]);
                    let image =
                        antares_program::read(&bytes, options(), &antares_abi::CompileLimits::DEFAULT)
                            .unwrap();
                    let mut decoder = antares_program::Decoder::new(&image);
                    let found = decoder.decode(BASE + 120).map(|found| Line::of(&found));
                    let same =
                        |found: Line| (found.op, found.rs1, found.imm) == (line.op, line.rs1, line.imm);
                    let is_plain = !matches!(op, Op::Lui) && found.is_some();
                    assert!(!is_plain || same(clean(found.unwrap(), line)), "{line:?} {found:?}");
                    if short.is_some() {
                        let found = decoder.decode(BASE + 124).map(|found| Line::of(&found)).unwrap();
                        assert!(same(clean(found, line)), "{line:?} {found:?}");
                        seen += 1;
                    }
                }
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

/// What an operation does not use is as in `line`.
fn clean(found: Line, line: Line) -> Line {
    if line.op == Op::Lui { Line { rs1: line.rs1, ..found } } else { found }
}

#[test]
fn questions_tell_accesses_that_are_missing() {
    let load = one(Op::Ld, 5, 10, 0);
    let asked = Statement::new(vec![load], vec![Line::NOP], RegSet::EMPTY).unwrap();
    assert!(asked.whole().contains("(assert (or false\n  true))"), "{}", asked.whole());
    assert!(Solver::find(Some("none")).is_none());
    let Some(solver) = Solver::find(None) else { return };
    assert!(matches!(solver.prove(&asked), SolverAnswer::Refused { .. }));
}

/// Products are unknown to the solver, and their operands come in another order behind a move that is gone.
#[test]
fn products_whose_operands_change_places_are_proved_by_small_claims() {
    let sum = one(Op::Addi, 14, 10, 3);
    let old = [sum, one(Op::Addi, 15, 14, 0), two(Op::Mul, 12, 15, 11), two(Op::Mul, 13, 12, 15)];
    let new = [sum, two(Op::Mul, 12, 11, 14), two(Op::Mul, 13, 14, 12)];
    let live = RegSet::EMPTY.with(Reg(13));
    let asked = Statement::new(old.to_vec(), new.to_vec(), live).unwrap();
    for solver in Solver::all() {
        let said = solver.prove(&asked);
        assert!(matches!(said, SolverAnswer::Proved { .. }), "{} {said:?}", solver.name());
    }
}

#[test]
fn proofs_are_kept_and_refusals_are_not() {
    let Some(solver) = Solver::find(None) else { return };
    let folder = std::env::temp_dir().join(format!("antares-proofs-{}", std::process::id()));
    let solver = solver.with_cache(&folder);
    let (line, other) = (one(Op::Addi, 12, 10, 1), one(Op::Addi, 12, 10, 2));
    let ask = |new: Line| {
        solver.prove(&Statement::new(vec![line], vec![new], RegSet::EMPTY.with(Reg(12))).unwrap())
    };
    for expected in [false, true] {
        let said = ask(line);
        let SolverAnswer::Proved { is_cached, .. } = said else { panic!("{said:?}") };
        assert_eq!(is_cached, expected);
        assert_eq!(ask(other), SolverAnswer::Refused { said: "sat".to_owned() });
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_place_that_is_loaded_through_a_copied_pointer_is_the_same() {
    let first = one(Op::Ld, 5, 10, 0);
    let old = [first, two(Op::Add, 11, 0, 10), one(Op::Ld, 6, 11, 0)];
    let new = [first, two(Op::Add, 6, 5, 0), Line::NOP];
    let asked = Statement::new(old.to_vec(), new.to_vec(), RegSet::EMPTY.with(Reg(6))).unwrap();
    assert!(!asked.whole().contains("\n  true"), "an access is told to be missing: {}", asked.whole());
    for solver in Solver::all() {
        let said = solver.prove(&asked);
        assert!(matches!(said, SolverAnswer::Proved { .. }), "{} {said:?}", solver.name());
    }
}

/// Native code is left where a function returns with another stack pointer, though its caller may not use
/// it.
#[test]
fn functions_return_with_the_stack_pointer_that_they_were_called_with() {
    let down = wide(one(Op::Addi, 2, 2, -16)).unwrap();
    let (call, exit, ret) = (0x00c0_00ef, [0x05d0_0893, 0x73], 0x8067);
    let bytes = elf(&[call, exit[0], exit[1], down, wide(one(Op::Addi, 2, 2, 16)).unwrap(), ret]);
    let limits = antares_abi::CompileLimits::DEFAULT;
    let image = antares_program::read(&bytes, options(), &limits).unwrap();
    let program = antares_program::recover(&image, &limits, &antares_abi::Hints::default()).unwrap();
    let before_return = BASE + 120 + 4 * 5;
    assert!(crate::liveness::Liveness::of(&program).before(before_return).has(Reg::SP));
}
