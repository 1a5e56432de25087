//! The mutants, by what they break.

mod blocks;
mod calls;
mod transactions;

use super::Campaign;

/// A mutant: replaces the unique occurrence of `from` in `file` by `to`.
pub(super) struct Mutant {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    /// The campaign that must detect it.
    pub(super) campaign: Campaign,
}

const LIFT_MEMORY: &str = "crates/engine/lift/src/memory.rs";
const LIFT_METER: &str = "crates/engine/opt/src/polls.rs";
const LIVENESS: &str = "crates/engine/opt/src/signatures.rs";
const LOOP_COUNT: &str = "crates/engine/opt/src/loops/trip_count.rs";
const LOOP_GUARD: &str = "crates/engine/opt/src/loops/guard.rs";
const COVERED: &str = "crates/engine/opt/src/covered_checks.rs";
const STACK: &str = "crates/engine/opt/src/frames.rs";
const LIFT_FUNCTION: &str = "crates/engine/lift/src/function.rs";
const EMIT_MEMORY: &str = "crates/engine/codegen/src/emit/memory.rs";
const EMIT_CONTROL: &str = "crates/engine/codegen/src/emit/control.rs";
const EMIT_FUNCTION: &str = "crates/engine/codegen/src/emit/function.rs";
const MEMORY_RESIDENT: &str = "crates/engine/codegen/src/emit/memory_resident.rs";
const CURRENT: &str = "crates/engine/codegen/src/emit/current.rs";

/// Compiler output and results of small cases.
const FILETESTS: Campaign = Campaign::Test(["filetests", "every_case_shows_what_is_expected"]);

const fn mutant(name: &'static str, file: &'static str, from: &'static str, to: &'static str) -> Mutant {
    Mutant { name, file, from, to, campaign: Campaign::Programs }
}

pub(super) fn all() -> impl Iterator<Item = &'static Mutant> {
    [
        &CHECKS[..],
        &METERING,
        &SIGNATURES,
        &JUMPS,
        &LOOP_BOUNDS,
        &blocks::SEARCHES,
        &calls::TARGETS_OF_CALLS,
        &calls::STACKS,
        &calls::RETURNS,
        &calls::ENTRIES,
        &blocks::FRAMES,
        &blocks::ORDER,
        &blocks::WORDS_OF_BYTES,
        &blocks::CHARGES,
        &blocks::COPIES,
        &blocks::TABLES,
        &REST,
        &transactions::VERDICTS,
    ]
    .into_iter()
    .flatten()
}

/// Address checks. The IR's verifier detects checks missing in the IR; the mutants after those break the
/// emitter.
const CHECKS: [Mutant; 13] = [
    mutant(
        "reads-not-checked",
        LIFT_MEMORY,
        "self.groups.iter().map(check)",
        "self.groups.iter().filter(|group| group.access == Access::Write).map(check)",
    ),
    mutant(
        "check-one-byte-short",
        LIFT_MEMORY,
        "Op::Check { access, base, low, high }\n        };",
        "Op::Check { access, base, low, high: high - 1 }\n        };",
    ),
    mutant("last-byte-of-version-0", COVERED, "vm_version == 0 {", "vm_version > 9 {"),
    mutant(
        "read-covered-by-a-write-elsewhere",
        COVERED,
        "at == base && from <= low",
        "(at == base || at != base) && from <= low",
    ),
    mutant(
        "frame-reaches-above-sp",
        STACK,
        "high.checked_add(distance)? <= 0 =>",
        "high.checked_add(distance)? <= 4096 =>",
    ),
    mutant(
        "emitted-check-one-byte-long",
        EMIT_MEMORY,
        "let room = self.i64.const_int(room, false);",
        "let room = self.i64.const_int(room + 1, false);",
    ),
    mutant("emitted-check-signed", EMIT_MEMORY, "IntPredicate::UGT", "IntPredicate::SGT"),
    mutant(
        "emitted-check-of-the-low-word",
        EMIT_MEMORY,
        "build_int_compare(IntPredicate::UGT, distance,",
        "build_int_compare(IntPredicate::UGT, self.builder.build_and(distance, self.number(0xffff_ffff), \"\")?,",
    ),
    // Where the check matters, pages are protected: a fault there restarts the script.
    Mutant {
        name: "emitted-check-without-offset",
        file: EMIT_MEMORY,
        from: "self.number(low.wrapping_sub_unsigned(start))",
        to: "self.number(0_i64.wrapping_sub_unsigned(start))",
        campaign: FILETESTS,
    },
    mutant(
        "writes-checked-as-reads",
        EMIT_FUNCTION,
        "emitter.ir.bounds(access)",
        "emitter.ir.bounds({ let _ = access; ir::Access::Read })",
    ),
    mutant(
        "frame-not-checked",
        EMIT_MEMORY,
        "self.check_between(function, (start, end), sp, (low, 0))",
        "{ let _ = (function, start, end, sp, low); Ok(()) }",
    ),
    mutant("frame-check-eight-bytes-short", EMIT_MEMORY, "sp, (low, 0))", "sp, (low + 8, 0))"),
    mutant(
        "frame-check-forgets-reads",
        EMIT_MEMORY,
        "let end = end.min(self.ir.bounds(Access::Read).1);",
        "",
    ),
];

const METERING: [Mutant; 7] = [
    mutant(
        "cycles-of-division",
        "crates/engine/program/src/decode.rs",
        "u32::try_from(estimate_cycles(packed)).ok()?;",
        "u32::try_from(estimate_cycles(packed)).ok()?;\n        let cycles = if cycles == 32 { 31 } else { cycles };",
    ),
    mutant(
        "limit-not-looked-at-before-ecalls",
        LIFT_METER,
        "Terminator::Branch { .. } | Terminator::Leave",
        "Terminator::Branch { .. } | Terminator::Ecall { .. } | Terminator::Exit { .. } | Terminator::Leave",
    ),
    mutant("limit-not-looked-at-in-loops", LIFT_METER, "= !function.blocks[target].is_bounded;", "= false;"),
    mutant(
        "metered-blocks-cost-one-less",
        EMIT_FUNCTION,
        "use_up(i64.const_int(cycles, false))",
        "use_up(i64.const_int(cycles.saturating_sub(u64::from(block.is_metered)), false))",
    ),
    mutant(
        "bounded-loops-cost-nothing",
        EMIT_FUNCTION,
        "const_int(block.cycles, false)",
        "const_int(if block.is_bounded { 0 } else { block.cycles }, false)",
    ),
    mutant(
        "cycles-of-ecalls-forgotten",
        EMIT_CONTROL,
        "self.set_cycles_left(emitter.read_state(self.base, Field::CYCLES_LEFT)?)?;\n        self.set(Reg::A0",
        "self.set(Reg::A0",
    ),
    mutant(
        "cycles-of-indirect-calls-forgotten",
        EMIT_CONTROL,
        "self.set_cycles_left(emitter.read_state(self.base, Field::CYCLES_LEFT)?)?;\n        reloads",
        "reloads",
    ),
];

const SIGNATURES: [Mutant; 18] = [
    mutant(
        "spilled-by-nobody",
        EMIT_CONTROL,
        "signature.in_state.iter().try_for_each(|register| self.spill(*register))?;",
        "",
    ),
    mutant(
        "spilled-and-not-reloaded",
        EMIT_FUNCTION,
        "signature.in_state.iter().try_for_each(|register| self.reload(*register))?;",
        "",
    ),
    mutant(
        "ecall-result-not-returned",
        LIVENESS,
        "Terminator::Ecall { .. } => RegSet::of(&[Reg::A0]),",
        "Terminator::Ecall { .. } => RegSet::EMPTY,",
    ),
    mutant(
        "callee-changes-forgotten",
        LIVENESS,
        "self.changed_by(*callee)\n                }\n                Terminator::Ecall",
        "self.changed_by(*callee).without(Reg::A0)\n                }\n                Terminator::Ecall",
    ),
    mutant(
        "indirect-changes-forgotten",
        LIVENESS,
        "self.indirect_changes = self.indirect_changes.or(changes);",
        "self.indirect_changes = self.indirect_changes.or(changes.without(Reg::A0));",
    ),
    mutant(
        "indirect-params-forgotten",
        LIVENESS,
        "self.indirect_params = self.indirect_params.or(params);",
        "self.indirect_params = self.indirect_params.or(RegSet::EMPTY);",
    ),
    mutant(
        "results-of-tail-callees-not-wanted",
        LIVENESS,
        "self.want(callee.0 as usize, self.wanted[index], queue)",
        "self.want(callee.0 as usize, RegSet::EMPTY, queue)",
    ),
    mutant(
        "results-of-indirect-calls-not-wanted",
        LIVENESS,
        "indirect = indirect.or(self.live_in[index][to.0 as usize])",
        "indirect = indirect.or(self.live_in[index][to.0 as usize].without(Reg::A0))",
    ),
    mutant(
        "ecall-arguments-not-live",
        LIVENESS,
        "after.without(Reg::A0).or(*uses)",
        "after.without(Reg::A0).or(uses.without(Reg::A0))",
    ),
    mutant(
        "callee-params-not-live",
        LIVENESS,
        "after.minus(self.changes[callee]).or(self.params[callee])",
        "after.minus(self.changes[callee]).or(self.params[callee].without(Reg::A0))",
    ),
    mutant(
        "signature-registers-swapped",
        EMIT_FUNCTION,
        "signature.params.iter().zip(params)",
        "signature.params.iter().rev().zip(params)",
    ),
    mutant(
        "results-beyond-registers-lost",
        EMIT_CONTROL,
        "signature.overflow.iter().try_for_each(|register| self.spill(*register))?;",
        "signature.overflow.iter().skip(1).try_for_each(|register| self.spill(*register))?;",
    ),
    mutant(
        "indirect-results-not-reloaded",
        EMIT_CONTROL,
        "reloads.iter().try_for_each",
        "reloads.without(Reg::A0).iter().try_for_each",
    ),
    mutant(
        "links-left-in-the-state",
        MEMORY_RESIDENT,
        "arguments(function, convention).or(links)",
        "arguments(function, convention).or(RegSet::of(&[Reg(1)]).and(links))",
    ),
    mutant(
        "memory-resident-elsewhere",
        EMIT_FUNCTION,
        "true => emitter.field(base, Field::register(register))?,",
        "true => emitter.builder.build_alloca(emitter.i64, \"home\")?,",
    ),
    // An indirect call through another register, with a callee that reads a link left by an earlier call. No
    // generated program contains it.
    Mutant {
        name: "links-known",
        file: CURRENT,
        from: "moved.minus(emitter.links).without(Reg::SP)",
        to: "moved",
        campaign: FILETESTS,
    },
    mutant("written-and-known", CURRENT, "now.without(*register)", "now.with(*register)"),
    mutant("results-known", CURRENT, "fold(in_state, RegSet::without)", "fold(in_state, RegSet::with)"),
];

const JUMPS: [Mutant; 5] = [
    Mutant {
        name: "switch-on-the-low-word",
        file: EMIT_CONTROL,
        from: "let low = candidates",
        to: "let target = builder.build_and(target, self.emitter.number(0xffff_ffff), \"\")?;\n        let low = candidates",
        campaign: FILETESTS,
    },
    mutant(
        "jump-table-without-default",
        EMIT_CONTROL,
        "false => self.emitter.bail_out_for(self.base, value(*target), PAST_TABLE),",
        "false => match candidates.first() { Some((_, block)) => self.jump(*block), None => self.emitter.bail_out(BailoutReason::UnknownTarget) },",
    ),
    mutant(
        "jump-table-off-by-one",
        EMIT_CONTROL,
        "candidates.iter().map(case)",
        "candidates.iter().zip(candidates.iter().cycle().skip(1)).map(|((pc, _), (_, block))| case(&(*pc, *block)))",
    ),
    mutant("jump-of-version-0", LIFT_FUNCTION, "if self.vm_version == 0 {", "if self.vm_version == 9 {"),
    mutant("table-one-off", EMIT_CONTROL, "(0..).zip(&table.entries)", "(1..).zip(&table.entries)"),
];

const LOOP_BOUNDS: [Mutant; 12] = [
    mutant("loop-start-not-asked", LOOP_COUNT, "guard.require_below(low, START_MAX);", "let _ = START_MAX;"),
    mutant(
        "loop-distance-not-asked",
        LOOP_COUNT,
        "guard.require_below(distance, DISTANCE_MAX.min(distance_max + 1));",
        "let _ = (DISTANCE_MAX, distance_max);",
    ),
    mutant(
        "loop-longer-than-its-ranges",
        "crates/engine/opt/src/loops.rs",
        "spans.last_max().min(fitting)",
        "spans.last_max().max(fitting)",
    ),
    mutant(
        "loop-start-shown-by-anything",
        LOOP_GUARD,
        "span.step >= 0 && span.terms == sum.terms && is_near(span)",
        "true",
    ),
    // The verifier rejects it where it matters: unsigned counter comparisons, with an access above. Generated
    // programs rarely contain them.
    Mutant {
        name: "loop-start-shown-from-below",
        file: LOOP_GUARD,
        from: "(0..=STEP_MAX).contains(&above)",
        to: "(-STEP_MAX..=STEP_MAX).contains(&above)",
        campaign: Campaign::Test(["filetests", "every_pass_does_to_its_cases"]),
    },
    Mutant {
        name: "stores-of-a-loop-in-another-order",
        file: "crates/engine/codegen/src/emit/ordered.rs",
        from: "!is_alone || own[..place].iter().any(meets)",
        to: "!is_alone",
        campaign: Campaign::Test(["differential", "programs_that_differed_once_are_equal"]),
    },
    mutant(
        "loop-wraps-below-zero",
        LOOP_COUNT,
        "guard.require(is_far_from_zero);",
        "let _ = is_far_from_zero;",
    ),
    mutant("loop-misses-its-end", LOOP_COUNT, "guard.require(meets);", "let _ = meets;"),
    mutant(
        "loop-rounded-down",
        LOOP_COUNT,
        "While::Before if is_power => (size - 1, 0),",
        "While::Before if is_power => (0, 0),",
    ),
    mutant("loop-one-iteration-less", LOOP_COUNT, "_ => (0, 1),", "_ => (0, 0),"),
    mutant(
        "loop-range-not-asked",
        LOOP_GUARD,
        "        self.require(is_inside);\n",
        "        let _ = is_inside;\n",
    ),
    mutant(
        "loop-down-does-not-reach-back",
        LOOP_GUARD,
        "            if span.step < 0 {\n                from = guard.binary(BinaryOp::Sub",
        "            if false {\n                from = guard.binary(BinaryOp::Sub",
    ),
];

/// Arithmetic, and code loaded at run time.
const REST: [Mutant; 4] = [
    mutant(
        "srliw-extends-with-sign",
        "crates/engine/lift/src/instruction.rs",
        "Op::Srliw => (B::Lshr, Some(U::ZextW)),",
        "Op::Srliw => (B::Lshr, Some(U::SextW)),",
    ),
    mutant(
        "loads-extend-with-zeros",
        EMIT_MEMORY,
        "self.widen(value, self.i64, is_signed)",
        "self.widen(value, self.i64, is_signed && false)",
    ),
    mutant("stores-not-kept", EMIT_MEMORY, "is_kept || self.ir.keeps_stores", "is_kept"),
    mutant(
        "loaded-code-stays-writable",
        "crates/runtime/vm/src/program.rs",
        "            core.protect(self.others);\n",
        "            let _ = &core;\n",
    ),
];
