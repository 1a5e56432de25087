//! Shapes of code of any size, in assembly: the compile time of each must grow linearly with the code. Their
//! runs end after a few steps, so that they can be compared.

use std::fmt::Write;

use antares_abi::{CompileLimits, CompileOptions};
use anyhow::Result;

use crate::{generate::Random, guests};

/// A shape of code.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its repeated element.
    pub name: &'static str,
    /// Number of elements in about 50 KB of code.
    pub count: usize,
    /// Number of elements for a quick test. With few labels, each has separate edges to all of them.
    pub few: usize,
    write: fn(&mut Text, usize),
}

pub const SHAPES: [Shape; 16] = [
    Shape { name: "counted loops in a row", count: 2400, few: 60, write: counted },
    Shape { name: "nested loops", count: 200, few: 5, write: nested },
    Shape { name: "diamonds", count: 3500, few: 87, write: diamonds },
    Shape { name: "a table of cases", count: 3600, few: 90, write: cases },
    Shape { name: "calls by address", count: 1300, few: 32, write: calls_by_address },
    Shape { name: "leaf functions", count: 500, few: 12, write: leaves },
    Shape { name: "a long block", count: 13_000, few: 325, write: long_block },
    Shape { name: "many blocks, one exit", count: 4200, few: 105, write: one_exit },
    Shape { name: "many functions", count: 600, few: 15, write: functions },
    Shape { name: "a deep call chain", count: 1300, few: 32, write: chain },
    Shape { name: "spills", count: 900, few: 22, write: spills },
    Shape { name: "wide multiplications", count: 1700, few: 42, write: products },
    Shape { name: "memory copies", count: 6400, few: 160, write: copies },
    Shape { name: "labels by address", count: 1000, few: 300, write: labels },
    Shape { name: "big frames", count: 900, few: 22, write: frames },
    Shape { name: "small loops with calls", count: 2100, few: 52, write: loops_with_calls },
];

impl Shape {
    /// Builds the ELF with `count` elements.
    ///
    /// # Errors
    /// No RISC-V compiler is installed.
    pub fn elf(&self, count: usize) -> Result<Vec<u8>> {
        let mut text = Text { text: String::from(HEAD), random: Random::new(7) };
        (self.write)(&mut text, count);
        if !text.text.contains("\nexit:") {
            text.add(EXIT);
        }
        if !text.text.contains("\ntable:") {
            text.add(NO_TABLE);
        }
        text.text.push_str(DATA);
        guests::assemble(&text.text)
    }
}

/// Bytes of executable pages of `elf`.
///
/// # Errors
/// It does not load.
pub fn code_bytes(elf: &[u8], options: CompileOptions) -> Result<u64> {
    let image = antares_program::read(elf, options, &CompileLimits::default())?;
    Ok(image.executable.iter().map(|range| range.1 - range.0).sum())
}

const HEAD: &str = ".option norelax\n.globl _start\n_start: la s2, area\nla s3, table\nli a6, 5\n";
const EXIT: &str = "exit: andi a0, a0, 0x3f\nli a7, 93\necall\n";
const DATA: &str = "\n.bss\n.balign 8\narea: .zero 8192\n";
const NO_TABLE: &str = "\n.data\n.balign 8\ntable: .dword 0\n";

const REGISTERS: [&str; 12] = ["a0", "a1", "a2", "a3", "a4", "a5", "s4", "s5", "s6", "s7", "t4", "t5"];

struct Text {
    text: String,
    random: Random,
}

impl Text {
    fn add(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn each(&mut self, count: usize, line: impl Fn(usize) -> String) {
        for index in 0..count {
            // Writing to a string does not fail.
            let _written = writeln!(self.text, "{}", line(index));
        }
    }

    fn register(&mut self) -> &'static str {
        self.random.pick(&REGISTERS)
    }

    fn calculate(&mut self, count: usize) {
        for _ in 0..count {
            let operation = self.random.pick(&["add", "sub", "xor", "or", "mul", "sltu", "and"]);
            let [to, x, y] = [0; 3].map(|_| self.register());
            self.add(&format!("{operation} {to}, {x}, {y}"));
        }
    }

    fn table(&mut self, entries: usize, label: &str) {
        self.add(".data\n.balign 8\ntable:");
        self.each(entries, |index| format!(".dword {label}{index}"));
    }
}

fn counted(text: &mut Text, count: usize) {
    text.each(count, |index| {
        let passes = 2 + index % 40;
        format!(
            "li t1, {passes}\nmv a0, s2\n1: ld t0, 0(a0)\nadd a1, a1, t0\nsd a1, 8(a0)\naddi a0, a0, 8\n\
             addi t1, t1, -1\nbnez t1, 1b"
        )
    });
}

fn nested(text: &mut Text, count: usize) {
    const COUNTERS: [&str; 6] = ["s4", "s5", "s6", "s7", "s8", "s9"];
    for nest in 0..count {
        for (depth, counter) in COUNTERS.iter().enumerate() {
            let offset = 8 * depth;
            text.add(&format!(
                "li {counter}, 0\nn{nest}_{depth}: slli t0, {counter}, 3\nadd t0, t0, s2\n\
                 ld t1, {offset}(t0)\nadd a0, a0, t1\nsd a0, {offset}(t0)"
            ));
        }
        for (depth, counter) in COUNTERS.iter().enumerate().rev() {
            text.add(&format!("addi {counter}, {counter}, 1\nli t2, 2\nblt {counter}, t2, n{nest}_{depth}"));
        }
    }
}

fn diamonds(text: &mut Text, count: usize) {
    for _ in 0..count {
        let tested = text.register();
        text.add(&format!("beqz {tested}, 1f"));
        text.calculate(2);
        text.add("j 2f\n1:");
        text.calculate(1);
        text.add("2:");
    }
}

fn cases(text: &mut Text, count: usize) {
    text.add(
        "next: addi a6, a6, -1\nbeqz a6, exit\nslli t0, a6, 3\nadd t0, t0, s3\nld t0, 0(t0)\njr t0\n.align 1",
    );
    for case in 0..count {
        text.add(&format!("c{case}:"));
        text.calculate(3);
        text.add("j next");
    }
    text.add(EXIT);
    text.table(count, "c");
}

fn calls_by_address(text: &mut Text, count: usize) {
    text.add("call f0");
    text.add(EXIT);
    for function in 0..count {
        text.add(&format!("f{function}: addi sp, sp, -16\nsd ra, 0(sp)\naddi a6, a6, -1\nblez a6, 1f"));
        text.calculate(2);
        let entry = 8 * (function % 200);
        text.add(&format!("ld t0, {entry}(s3)\njalr ra, 0(t0)"));
        text.calculate(2);
        text.add("1: ld ra, 0(sp)\naddi sp, sp, 16\nret");
    }
    text.table(count, "f");
}

fn leaves(text: &mut Text, count: usize) {
    text.each(count, |index| format!("call f{index}"));
    text.add(EXIT);
    for function in 0..count {
        text.add(&format!("f{function}:"));
        text.calculate(25);
        text.add("ret");
    }
}

fn long_block(text: &mut Text, count: usize) {
    text.calculate(count);
}

fn one_exit(text: &mut Text, count: usize) {
    for _ in 0..count {
        text.calculate(2);
        let [x, y] = [0; 2].map(|_| text.register());
        // Out of a branch's range.
        text.add(&format!("beq {x}, {y}, 1f\nj 2f\n1: j exit\n2:"));
    }
}

fn functions(text: &mut Text, count: usize) {
    text.each(count, |index| format!("call f{index}"));
    text.add(EXIT);
    for function in 0..count {
        text.add(&format!("f{function}: li t1, 3\nmv t2, s2\n1: ld t0, 0(t2)\nadd a0, a0, t0\nsd a0, 0(t2)"));
        text.calculate(8);
        text.add("addi t2, t2, 8\naddi t1, t1, -1\nbnez t1, 1b");
        text.calculate(8);
        text.add("ret");
    }
}

fn chain(text: &mut Text, count: usize) {
    text.add("call f0");
    text.add(EXIT);
    for function in 0..count {
        text.add(&format!("f{function}: addi sp, sp, -16\nsd ra, 8(sp)\nblt a6, zero, 1f\naddi a6, a6, -1"));
        text.calculate(4);
        if function + 1 < count {
            text.add(&format!("call f{}", function + 1));
        }
        text.calculate(2);
        text.add("1: ld ra, 8(sp)\naddi sp, sp, 16\nret");
    }
}

fn spills(text: &mut Text, count: usize) {
    text.add("addi sp, sp, -1024");
    for index in 0..count {
        for slot in 0..8 {
            let (from, to) = ((index * 11 + slot * 5) % 128 * 8, (index * 7 + slot * 3) % 128 * 8);
            let [x, y] = [0; 2].map(|_| text.register());
            text.add(&format!("ld {x}, {from}(sp)\nadd {y}, {y}, {x}\nsd {y}, {to}(sp)"));
        }
    }
}

fn products(text: &mut Text, count: usize) {
    for index in 0..count {
        let offset = index % 200 * 8;
        text.add(&format!(
            "ld t0, {offset}(s2)\nmulhu t1, t0, a1\nmul t2, t0, a1\nadd a2, a2, t2\nsltu t3, a2, t2\n\
             add a3, a3, t1\nadd a3, a3, t3\nsd a3, {offset}(s2)"
        ));
    }
}

fn copies(text: &mut Text, count: usize) {
    text.each(count, |index| {
        let (from, to) = (index % 200 * 8, index % 190 * 8 + 80);
        format!("ld t0, {from}(s2)\nsd t0, {to}(s2)")
    });
}

fn labels(text: &mut Text, count: usize) {
    const NEXT: &str =
        "addi a6, a6, -1\nbltz a6, 1f\nslli t0, a6, 3\nadd t0, t0, s3\nld t0, 0(t0)\njr t0\n1: j exit";
    text.add(NEXT);
    for label in 0..count {
        text.add(&format!("l{label}:"));
        text.calculate(6);
        text.add(NEXT);
    }
    text.add(EXIT);
    text.table(count, "l");
}

fn frames(text: &mut Text, count: usize) {
    text.each(count, |index| format!("call f{index}"));
    text.add(EXIT);
    for function in 0..count {
        let frame = 4096 + 16 * (function % 200);
        text.add(&format!(
            "f{function}: li t0, {frame}\nsub sp, sp, t0\nsd a0, 0(sp)\nli t1, {}\nadd t1, t1, sp\nsd a1, 0(t1)",
            frame - 64
        ));
        text.calculate(4);
        text.add("ld a2, 0(sp)\nadd a0, a0, a2\nld a3, 0(t1)\nadd a1, a1, a3");
        text.add(&format!("li t0, {frame}\nadd sp, sp, t0\nret"));
    }
}

fn loops_with_calls(text: &mut Text, count: usize) {
    text.each(count, |index| {
        let (passes, leaf) = (1 + index % 3, index % 16);
        format!("li s4, {passes}\n1: ld a1, 0(s2)\ncall f{leaf}\nsd a0, 8(s2)\naddi s4, s4, -1\nbnez s4, 1b")
    });
    text.add(EXIT);
    text.each(16, |leaf| format!("f{leaf}: addi a0, a0, {leaf}\nxor a0, a0, a1\nret"));
}
