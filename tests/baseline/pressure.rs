//! Random blocks that need more host registers than there are, and move guest registers around in every way.

use antares_ir::{Access, BinaryOp, Block, Op, Terminator, Value, Width};
use antares_program::{BlockId, Reg};
use antares_tests::generate::Random;
use antares_vm::Machine;

use crate::{
    harness::{self, Build, DATA},
    model,
};

/// Modules.
const MODULES: u64 = 400;
/// Blocks of each.
const BLOCKS: u32 = 12;
/// Bytes of memory that the blocks use.
const MEMORY_BYTES: u64 = 256;

/// What the script's world is after each block.
struct World {
    registers: [u64; 32],
    memory: Vec<u8>,
}

impl World {
    fn place(address: u64) -> usize {
        usize::try_from(address - DATA).unwrap()
    }

    fn load(&self, address: u64) -> u64 {
        let at = Self::place(address);
        u64::from_le_bytes(self.memory[at..at + 8].try_into().unwrap())
    }

    fn store(&mut self, address: u64, value: u64) {
        let at = Self::place(address);
        self.memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

/// A block under construction, and what its values are.
struct Maker<'a> {
    random: &'a mut Random,
    world: &'a mut World,
    build: Build,
    values: Vec<(Value, u64)>,
    reads: [Option<Value>; 32],
}

impl Maker<'_> {
    fn push(&mut self, op: Op, number: u64) -> Value {
        let value = self.build.op(op);
        self.values.push((value, number));
        value
    }

    fn read(&mut self, register: usize) -> Value {
        if let Some(value) = self.reads[register] {
            return value;
        }
        let register_number = u8::try_from(register).unwrap();
        let value = self.push(Op::Read(Reg(register_number)), self.world.registers[register]);
        self.reads[register] = Some(value);
        value
    }

    fn any(&mut self) -> (Value, u64) {
        // Old ones too: their registers are gone by then.
        let at = self.random.below(u32::try_from(self.values.len()).unwrap());
        self.values[at as usize]
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0 => {
                let number = self.random.number();
                self.push(Op::Const(number.cast_signed()), number);
            }
            1 | 2 => {
                let register = self.random.below(31) as usize + 1;
                self.read(register);
            }
            3 => {
                let (value, number) = self.any();
                let op = self.random.pick(&model::UNARY);
                self.push(Op::Unary(op, value), model::unary(op, number));
            }
            4 => self.access(),
            5 => {
                // Both halves of a product.
                let ((a, x), (b, y)) = (self.any(), self.any());
                for op in [BinaryOp::Mul, BinaryOp::MulHighUnsigned] {
                    self.push(Op::Binary(op, a, b), model::binary(op, x, y));
                }
            }
            _ => {
                let ((a, x), (b, y)) = (self.any(), self.any());
                let op = self.random.pick(&model::BINARY);
                self.push(Op::Binary(op, a, b), model::binary(op, x, y));
            }
        }
    }

    /// A store and a load, at an address that comes from a value.
    fn access(&mut self) {
        let (any, number) = self.any();
        let mask = self.build.number((MEMORY_BYTES - 1) & !7);
        let inside = self.build.op(Op::Binary(BinaryOp::And, any, mask));
        let offset = number & (MEMORY_BYTES - 1) & !7;
        let start = i64::try_from(DATA).unwrap();
        let check = Op::Check { access: Access::Write, base: inside, low: start, high: start + 8 };
        self.build.op(check);
        let (stored, what) = self.any();
        let loaded = Op::Load { width: Width::Double, is_signed: false, base: inside, offset: start };
        let before = self.world.load(DATA + offset);
        self.push(loaded, before);
        self.build.op(Op::Store { width: Width::Double, base: inside, offset: start, value: stored });
        self.world.store(DATA + offset, what);
    }

    /// Final values of some registers: results, constants, and other registers' entry values.
    fn finish(&mut self) {
        let mut after = self.world.registers;
        for register in 1..32_u8 {
            if self.random.one_in(3) {
                continue;
            }
            let (value, number) = match self.random.below(3) {
                0 => {
                    let other = self.random.below(31) as usize + 1;
                    (self.read(other), self.world.registers[other])
                }
                _ => self.any(),
            };
            self.build.write(register, value);
            after[usize::from(register)] = number;
        }
        self.world.registers = after;
    }
}

/// A block, and whether its branch is taken.
fn block(random: &mut Random, world: &mut World, index: u32) -> Vec<Block> {
    let steps = 5 + random.below(80);
    let mut maker = Maker { random, world, build: Build::default(), values: Vec::new(), reads: [None; 32] };
    maker.read(1);
    for _ in 0..steps {
        maker.step();
    }
    let ((a, x), (b, y)) = (maker.any(), maker.any());
    let op = maker.random.pick(&model::BINARY[18..24]);
    let condition = maker.push(Op::Binary(op, a, b), model::binary(op, x, y));
    let is_taken = model::binary(op, x, y) != 0;
    let (condition, is_taken) = match maker.random.below(3) {
        0 => {
            let (value, number) = maker.any();
            (value, number != 0)
        }
        _ => (condition, is_taken),
    };
    maker.finish();
    // Two blocks each: this one, and one that must not be reached; in either order.
    let (next, wrong) = (BlockId(2 * index + 2), BlockId(2 * index + 1));
    let (taken, otherwise) = if is_taken { (next, wrong) } else { (wrong, next) };
    vec![maker.build.end(Terminator::Branch { condition, taken, otherwise }), harness::exit(1)]
}

#[test]
fn blocks_under_pressure_are_those_of_the_model() {
    let mut machine = Machine::new().unwrap();
    for seed in 0..MODULES {
        let mut random = Random::new(seed);
        let mut world = World { registers: [0; 32], memory: vec![0; usize::try_from(MEMORY_BYTES).unwrap()] };
        let numbers: Vec<(u8, u64)> = (1..32).map(|register| (register, random.number())).collect();
        for (register, number) in &numbers {
            world.registers[usize::from(*register)] = *number;
        }
        let mut blocks = vec![Build::set(&numbers).end(Terminator::Jump(BlockId(2))), harness::exit(1)];
        for index in 1..=BLOCKS {
            blocks.extend(block(&mut random, &mut world, index));
        }
        blocks.push(harness::exit(0));
        let module = harness::module(vec![harness::function(0, blocks)]);
        let ran = harness::run(&mut machine, &module, 1 << 20);
        assert_eq!(ran.exited(), Some(0), "seed {seed}: {:?} {:?}", ran.outcome, ran.restarted);
        (world.registers[10], world.registers[17]) = (0, 93);
        assert_eq!(ran.registers, world.registers, "seed {seed}");
        let start = usize::try_from(DATA).unwrap();
        assert_eq!(ran.memory[start..start + world.memory.len()], world.memory, "seed {seed}");
    }
}
