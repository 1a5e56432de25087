//! Mutants of calls and returns: links, `sp` and addresses.

use super::{Campaign, EMIT_CONTROL, FILETESTS, LIFT_FUNCTION, Mutant, STACK, mutant};

const TARGETS: &str = "crates/engine/opt/src/promote_calls.rs";
const STUBS: &str = "crates/engine/codegen/src/emit/stubs.rs";

/// Effects of functions on `sp`.
pub(super) const STACKS: [Mutant; 8] = [
    mutant("unknown-sp-comes-back", STACK, "_ => SpAfter::Compared,", "_ => SpAfter::Same,"),
    mutant(
        "leaves-keep-sp",
        STACK,
        "Distance::Known(_) if is_leaf => SpAfter::Moved",
        "Distance::Known(_) if is_leaf => SpAfter::Same",
    ),
    mutant("tail-callees-keep-sp", STACK, "(end.after_call(callee), SpAfter::Same)", "(end, SpAfter::Same)"),
    mutant("calls-move-sp-twice", STACK, "=> self.plus(moves),", "=> self.plus(2 * moves),"),
    mutant("callees-keep-s0", STACK, "out.frame = Distance::Unknown;", "let _ = block;"),
    mutant(
        "first-way-says-where-sp-is",
        STACK,
        "            _ if self == other => self,\n            _ => Self::Unknown,\n",
        "            _ => self,\n",
    ),
    mutant(
        "sp-not-compared-after-calls",
        EMIT_CONTROL,
        "Some(sp) => self.expect(self.get(Reg::SP)?, sp),",
        "Some(_) => Ok(()),",
    ),
    mutant(
        "sp-not-compared-after-indirect-calls",
        EMIT_CONTROL,
        "self.expect(sp, self.get(Reg::SP)?)?;",
        "let _ = sp;",
    ),
];

/// Return targets of functions.
pub(super) const RETURNS: [Mutant; 6] = [
    mutant(
        "return-not-compared",
        EMIT_CONTROL,
        "            self.expect_own_link(link)?;\n            return self.give_back();",
        "            return self.give_back();",
    ),
    mutant(
        "tail-call-not-compared",
        EMIT_CONTROL,
        "self.expect_own_link(link.map(value))?;",
        "let _ = link;",
    ),
    Mutant {
        name: "tail-jump-not-compared",
        file: EMIT_CONTROL,
        from: "self.call_indirect(target, self.ir.results)?;\n        self.expect_own_link(link)?;",
        to: "self.call_indirect(target, self.ir.results)?;\n        let _ = link;",
        campaign: FILETESTS,
    },
    // The link is the second result of a fused instruction. No generated program contains it.
    Mutant {
        name: "fused-operands-do-not-write-links",
        file: "crates/engine/program/src/instruction.rs",
        from: "self.is_fused() && [self.rs1",
        to: "self.is_fused() && self.rd == register && [self.rs1",
        campaign: FILETESTS,
    },
    mutant(
        "callees-through-t0-keep-ra",
        LIFT_FUNCTION,
        "    if calls_through_another {\n        return true;",
        "    if calls_through_another && link != Reg::RA {\n        return true;",
    ),
    mutant(
        "callees-through-ra-keep-t0",
        LIFT_FUNCTION,
        "    if calls_through_another {\n        return true;",
        "    if calls_through_another && link == Reg::RA {\n        return true;",
    ),
];

/// Entry of functions by address.
pub(super) const ENTRIES: [Mutant; 6] = [
    mutant(
        "entry-table-off-by-one",
        STUBS,
        "self.divide(distance, 2, \"slot\")?;",
        "self.divide(self.builder.build_int_add(distance, self.number(2), \"\")?, 2, \"slot\")?;",
    ),
    Mutant {
        name: "entry-table-too-long",
        file: STUBS,
        from: "u64::from(tables.pages), false",
        to: "u64::from(tables.pages) + 128, false",
        campaign: FILETESTS,
    },
    Mutant {
        name: "entry-of-the-odd-address",
        file: "crates/runtime/vm/src/native.rs",
        from: ".filter(|offset| offset.is_multiple_of(2))?;",
        to: "?;",
        campaign: Campaign::Test(["machine", "native::an_entry_without_native_code_is_interpreted"]),
    },
    Mutant {
        name: "thunk-forgets-sp",
        file: STUBS,
        from: "for register in [function.link, Reg::SP] {",
        to: "for register in [function.link] {",
        campaign: FILETESTS,
    },
    Mutant {
        name: "thunk-forgets-the-link",
        file: STUBS,
        from: "for register in [function.link, Reg::SP] {",
        to: "for register in [Reg::SP] {",
        campaign: FILETESTS,
    },
    Mutant {
        name: "every-return-is-complete",
        file: STUBS,
        from: "self.number(i64::from(function.is_resumable))",
        to: "self.number(1)",
        campaign: FILETESTS,
    },
];

/// Indirect calls compared with their likely targets.
pub(super) const TARGETS_OF_CALLS: [Mutant; 2] = [
    mutant(
        "call-of-the-last-function",
        TARGETS,
        "Terminator::Call { callee, to",
        "Terminator::Call { callee: targets.last().map_or(callee, |(_, last)| *last), to",
    ),
    // Generated programs rarely have the address of another function in the register of an indirect call.
    Mutant {
        name: "offset-of-the-call-forgotten",
        file: TARGETS,
        from: "if self.offset != 0 {",
        to: "if self.offset == 1 {",
        campaign: FILETESTS,
    },
];
