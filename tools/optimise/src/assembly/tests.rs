//! What lines of assembly say, and what becomes of them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use antares_abi::{CompileOptions, Isa};
use antares_program::{Reg, RegSet};

use crate::{
    RewriteError, SolverAnswer,
    assembly::{
        liveness,
        names::{number, printed, register},
        plan_assembly, said,
        statement::{Said, read},
    },
};

fn options() -> CompileOptions {
    CompileOptions { vm_version: 2, isa: Isa::of_version(2) }
}

/// `text` with everything that was found, without a proof.
fn cheaper(text: &str) -> String {
    let mut plan = plan_assembly(text, options(), |_, _| true).unwrap();
    let proof = String::new();
    plan.prove(
        1,
        |_| SolverAnswer::Proved { took: Duration::ZERO, is_cached: false, proof: proof.clone() },
        |_| {},
    );
    plan.proved_text()
}

const PAIR: &str = "\tmul\ta2,a0,a1\n\tmulhu\ta3,a0,a1\n";

#[test]
fn both_halves_of_a_product_stand_side_by_side() {
    let text = format!("f:\n{PAIR}\tsd\ta2,0(a4)\n\tsd\ta3,8(a4)\n\tret\n");
    let after = cheaper(&text);
    let high = after.find("mulhu").unwrap();
    assert!(high < after.find("mul\t").unwrap(), "{after}");
    assert!(after.ends_with("\tret\n"));
}

#[test]
fn a_label_that_is_jumped_to_is_a_border_and_one_for_the_debugger_is_none() {
    let between = |label: &str, rest: &str| {
        format!("f:\n\tmul\ta2,a0,a1\n{label}:\n\tmulhu\ta3,a0,a1\n\tsd\ta2,0(a4)\n\tsd\ta3,8(a4)\n{rest}")
    };
    let jumped_to = between(".L3", "\tbnez\ta3,.L3\n\tret\n");
    assert_eq!(cheaper(&jumped_to), jumped_to);
    let in_data = between(".L3", "\tret\n\t.section .rodata\n\t.dword\t.L3\n");
    assert_eq!(cheaper(&in_data), in_data);
    let by_number = between("1", "\tbnez\ta3,1b\n\tret\n");
    assert_eq!(cheaper(&by_number), by_number);
    let seen = between(".LVL7", "\tret\n\t.section .debug_loclists\n\t.dword\t.LVL7\n");
    let after = cheaper(&seen);
    assert!(after.find(".LVL7:").unwrap() < after.find("mulhu").unwrap(), "{after}");
}

#[test]
fn lines_of_the_source_stay_and_views_are_borders() {
    let with = |line: &str| {
        format!(
            "f:\n\tmul\ta2,a0,a1\n\t.loc 1 7 3\n{line}\tmulhu\ta3,a0,a1\n\tsd\ta2,0(a4)\n\tsd\ta3,8(a4)\n\tret\n"
        )
    };
    let after = cheaper(&with(""));
    assert!(after.contains("\t.loc 1 7 3\n\tmulhu"), "{after}");
    let viewed = with("\t.loc 1 8 3 view .LVU4\n");
    assert_eq!(cheaper(&viewed), viewed);
}

#[test]
fn nothing_may_move_where_jumps_go_by_distance() {
    for jump in ["beq\ta0,a1,.+8", "j\t. - 4", "j\t.L1+4", "c.j\t.+6", "bnez a0, 1b + 2"] {
        let error = plan_assembly(&format!("f:\n\t{jump}\n{PAIR}"), options(), |_, _| true).unwrap_err();
        assert_eq!(error, RewriteError::NoName { line: 2 }, "{jump}");
    }
    for fine in ["jalr\tra,-8(t1)", "li\ta0,-1", "addi\ta0,a0,-1", "bltz-3:", "call\tmemcpy"] {
        plan_assembly(&format!("f:\n\t{fine}\n"), options(), |_, _| true).unwrap();
    }
}

#[test]
fn what_is_of_the_b_extension_tells_the_assembler() {
    let rotated = "f:\n\tslli\ta4,a0,8\n\tsrli\ta5,a0,56\n\tor\ta0,a4,a5\n\tret\n";
    let after = cheaper(rotated);
    assert!(
        after.contains("\t.option arch, +zba, +zbb, +zbs\n\trori\ta0, a0, 56\n\t.option pop\n"),
        "{after}"
    );
}

#[test]
fn words_are_read_as_assemblers_do() {
    assert_eq!(register("fp"), Some(8));
    assert_eq!(register("x31"), Some(31));
    for none in ["x32", "x01", "a8", "foo", "x", ""] {
        assert_eq!(register(none), None, "{none}");
    }
    for (text, value) in [("-0x10", Some(-16)), ("12", Some(12)), ("012", None), ("0", Some(0)), ("a", None)]
    {
        assert_eq!(number(text), value, "{text}");
    }
    let lines = |text: &str| match read(text, false) {
        Said::Instructions(lines) => lines.iter().map(|line| printed(line).unwrap()).collect(),
        _ => Vec::new(),
    };
    assert_eq!(lines("li a0,0x7fffffff"), ["lui\ta0, 0x80000", "addiw\ta0, a0, -1"]);
    assert_eq!(lines("li a0,-2147483648 # least"), ["lui\ta0, 0x80000"]);
    assert_eq!(lines("li a0,2048"), ["lui\ta0, 0x1", "addiw\ta0, a0, -2048"]);
    assert_eq!(lines("add a0,a0,5"), ["addi\ta0, a0, 5"]);
    assert_eq!(lines("ld a0,(sp)"), ["ld\ta0, 0(sp)"]);
    for none in ["slliw a0,a0,32", "li a0,0x123456789", "addi a0,a0,2048", "zext.h a0,a0", "lw a0,%lo(x)(a1)"]
    {
        assert!(lines(none).is_empty(), "{none}");
    }
    assert_eq!(read("nop; nop", false), Said::Unknown);
    assert_eq!(read("call t0, __riscv_save_3", false), Said::Unknown);
    assert_eq!(read(".attribute arch, \"rv64i2p1\"", false), Said::Aside);
    assert_eq!(read(".word 7", false), Said::Unknown);
}

#[test]
fn calls_and_returns_use_what_the_convention_says() {
    let live = |text: &str| {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        liveness::before(&said(&lines))[0]
    };
    let (t1, a2, s1) = (Reg(6), Reg(12), Reg(9));
    let at_return = live("ret");
    assert!(at_return.has(Reg::A0) && at_return.has(s1) && !at_return.has(a2) && !at_return.has(t1));
    let at_call = live("call f\nret");
    assert!(at_call.has(a2) && at_call.has(s1) && !at_call.has(t1));
    assert!(!live("j .L1\n.L1:\nli a2,1\nret").has(a2));
    assert!(live("beqz a0,.L1\nli a2,1\nret\n.L1:\nmv a0,a2\nret").has(a2));
    for unknown in
        ["jr a0", "j 1f\n1:\nret\n1:\nret", "j .L9", ".word 7\nret", "call t0, __riscv_save_0\nret"]
    {
        assert_eq!(live(unknown), RegSet::ALL, "{unknown}");
    }
}
