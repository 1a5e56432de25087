//! Every operation, with operands in every kind of location.

use antares_ir::{BinaryOp, Op, UnaryOp, Width};
use antares_program::Reg;
use antares_vm::Machine;

use crate::{
    harness::{self, Build, CODE, DATA},
    model,
};

/// Locations of an operation's operands.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Both in registers.
    Registers,
    /// The first is a constant.
    FirstNumber,
    /// The second is a constant.
    SecondNumber,
    /// Both are constants.
    Numbers,
    /// Both are the same value.
    Same,
    /// In registers, and used again.
    Kept,
}

const SHAPES: [Shape; 6] =
    [Shape::Registers, Shape::FirstNumber, Shape::SecondNumber, Shape::Numbers, Shape::Same, Shape::Kept];

/// Registers whose guest registers the baseline keeps in the state and in host registers, mixed.
fn registers(case: usize) -> [u8; 3] {
    let pick = |at: usize| u8::try_from(1 + at % 31).unwrap();
    [pick(case), pick(case * 7 + 3), pick(case * 5 + 1)]
}

/// Blocks that compute `emit` of two numbers and store the result at `address`, through a register.
fn case(
    number: usize,
    shape: Shape,
    (a, b): (u64, u64),
    address: u64,
    emit: impl Fn(&mut Build, harness::Operands) -> antares_ir::Value,
) -> Vec<Build> {
    let [x, mut y, z] = registers(number);
    if x == y {
        y = y % 31 + 1;
    }
    let mut build = Build::default();
    let first = |build: &mut Build| build.op(Op::Read(Reg(x)));
    let operands = match shape {
        Shape::FirstNumber => (build.number(a), build.op(Op::Read(Reg(y)))),
        Shape::SecondNumber => (first(&mut build), build.number(b)),
        Shape::Numbers => (build.number(a), build.number(b)),
        Shape::Same => {
            let value = first(&mut build);
            (value, value)
        }
        Shape::Registers | Shape::Kept => (first(&mut build), build.op(Op::Read(Reg(y)))),
    };
    let value = emit(&mut build, operands);
    build.write(z, value);
    if matches!(shape, Shape::Kept) {
        let mut others = (1..32).filter(|register| *register != z);
        build.write(others.next().unwrap(), operands.0);
        build.write(others.next().unwrap(), operands.1);
    }
    let mut store = Build::default();
    let base = store.number(address);
    let value = store.op(Op::Read(Reg(z)));
    store.op(Op::Store { width: Width::Double, base, offset: 0, value });
    vec![Build::set(&[(x, a), (y, b)]), build, store]
}

#[test]
fn binary_operations_are_those_of_the_model() {
    for op in BinaryOp::ALL {
        for shape in SHAPES {
            let emit = |build: &mut Build, (a, b)| build.op(Op::Binary(*op, a, b));
            check_pairs(&format!("{op:?}"), shape, emit, |a, b| model::binary(*op, a, b));
        }
    }
}

#[test]
fn unary_operations_are_those_of_the_model() {
    for op in UnaryOp::ALL {
        for shape in SHAPES {
            let emit = |build: &mut Build, (a, _)| build.op(Op::Unary(*op, a));
            check_pairs(&format!("{op:?}"), shape, emit, |a, _| model::unary(*op, a));
        }
    }
}

/// Both halves of a product together, in both orders, and one half alone.
#[test]
fn halves_of_a_product_may_be_one_instruction() {
    for (first, second) in
        [(BinaryOp::Mul, BinaryOp::MulHighUnsigned), (BinaryOp::MulHighUnsigned, BinaryOp::Mul)]
    {
        for is_swapped in [false, true] {
            let emit = |build: &mut Build, (a, b)| {
                let one = build.op(Op::Binary(first, a, b));
                let (x, y) = if is_swapped { (b, a) } else { (a, b) };
                let other = build.op(Op::Binary(second, x, y));
                let five = build.number(5);
                let scaled = build.op(Op::Binary(BinaryOp::Mul, other, five));
                build.op(Op::Binary(BinaryOp::Xor, one, scaled))
            };
            let expected = |a, b| model::binary(first, a, b) ^ model::binary(second, a, b).wrapping_mul(5);
            check_pairs(&format!("{first:?} {second:?}"), Shape::Kept, emit, expected);
        }
    }
}

/// Compares what `emit` computes of each pair of numbers with `expected`.
#[track_caller]
fn check_pairs(
    name: &str,
    shape: Shape,
    emit: impl Fn(&mut Build, harness::Operands) -> antares_ir::Value,
    expected: impl Fn(u64, u64) -> u64,
) {
    let (mut builds, mut all) = (Vec::new(), Vec::new());
    for (index, a) in model::NUMBERS.into_iter().enumerate() {
        for b in model::NUMBERS {
            let b = if matches!(shape, Shape::Same) { a } else { b };
            let address = DATA + 8 * all.len() as u64;
            builds.extend(case(index + all.len(), shape, (a, b), address, &emit));
            all.push((address, format!("{name} {shape:?} of {a:#x} and {b:#x}"), expected(a, b)));
        }
    }
    check(builds, &all);
}

/// Runs `builds`, and compares the numbers at addresses.
#[track_caller]
fn check(builds: Vec<Build>, expected: &[(u64, String, u64)]) {
    let module = harness::module(vec![harness::function(0, harness::sequence(builds, 0))]);
    let ran = harness::run(&mut Machine::new().unwrap(), &module, 1 << 20);
    assert_eq!(ran.exited(), Some(0), "{}: {:?} {:?}", expected[0].1, ran.outcome, ran.restarted);
    for (address, context, expected) in expected {
        let found = ran.double(*address);
        assert_eq!(found, *expected, "{context}: {found:#x}, expected {expected:#x}");
    }
}

/// Loads and stores of every width, at a constant, a near and a far address.
#[test]
fn memory_is_read_and_written() {
    let widths = [(Width::Byte, 8), (Width::Half, 16), (Width::Word, 32), (Width::Double, 64)];
    let bases = [(DATA, 0_i64), (DATA - 8, 8), (CODE.wrapping_sub(1 << 40), (1 << 40) + 0x1000)];
    let mut builds = Vec::new();
    let mut expected = Vec::new();
    for (width, bits) in widths {
        for is_signed in [false, true] {
            for (start, offset) in bases {
                for is_known in [false, true] {
                    for number in model::NUMBERS {
                        let at = DATA + 0x4000 + 8 * expected.len() as u64;
                        let mut build = Build::default();
                        let to = build.number(at);
                        let base = if is_known { build.number(start) } else { build.op(Op::Read(Reg(6))) };
                        let value =
                            if number & 1 == 0 { build.number(number) } else { build.op(Op::Read(Reg(7))) };
                        build.op(Op::Store { width, base, offset, value });
                        let loaded = build.op(Op::Load { width, is_signed, base, offset });
                        build.op(Op::Store { width: Width::Double, base: to, offset: 0, value: loaded });
                        builds.extend([Build::set(&[(6, start), (7, number)]), build]);
                        let (high, shift) = (number << (64 - bits), 64 - bits);
                        let extended = (high.cast_signed() >> shift).cast_unsigned();
                        let kept = if is_signed { extended } else { high >> shift };
                        expected.push((at, format!("{width:?} of {number:#x}"), kept));
                    }
                }
            }
        }
    }
    check(builds, &expected);
}
