//! Findings in hot loops: bytewise work, narrow limbs, software division, repeated loads, spills.

use antares_program::{Op, Reg};

use super::{
    Finding, Rule,
    code::{At, Code, Loop, loaded_bytes, stored_bytes, writes},
};

/// Maximum instructions of a simple bytewise loop.
const BYTE_LOOP_MAX: usize = 12;

/// Cycles of `mulhu`, and of `divu` below.
const HALF_PRODUCT_CYCLES: u64 = 5;
const DIVISION_CYCLES: u64 = 32;

/// All findings in loops.
pub(crate) fn findings(code: &Code<'_>) -> Vec<Finding> {
    let mut all = Vec::new();
    for found in code.loops() {
        all.extend(byte_loop(code, &found));
        all.extend(narrow_limbs(code, &found));
        all.extend(soft_division(code, &found));
        all.extend(aliased_loads(code, &found));
        all.extend(spills(code, &found));
    }
    all
}

fn loads(found: &Loop) -> impl Iterator<Item = &At> {
    found.instructions.iter().filter(|(_, instruction)| loaded_bytes(instruction.op).is_some())
}

fn stores(found: &Loop) -> impl Iterator<Item = &At> {
    found.instructions.iter().filter(|(_, instruction)| stored_bytes(instruction.op).is_some())
}

/// Whether a register changes by one in each pass.
fn steps_by_one(found: &Loop) -> bool {
    found.instructions.iter().any(|(_, instruction)| {
        instruction.op == Op::Addi && instruction.rd == instruction.rs1 && instruction.imm.unsigned_abs() == 1
    })
}

/// memcpy, memset, memcmp, strlen and similar functions, one byte at a time.
fn byte_loop(code: &Code<'_>, found: &Loop) -> Option<Finding> {
    if found.calls || found.instructions.len() > BYTE_LOOP_MAX || !steps_by_one(found) {
        return None;
    }
    let is_byte = |(_, instruction): &At| {
        loaded_bytes(instruction.op).or_else(|| stored_bytes(instruction.op)) == Some(1)
    };
    let (loaded, stored) = (loads(found).count(), stores(found).count());
    let is_plain = |(_, instruction): &At| {
        matches!(instruction.op, Op::Addi | Op::Add | Op::Sub | Op::Jal)
            || loaded_bytes(instruction.op).is_some()
            || stored_bytes(instruction.op).is_some()
            || instruction.is_branch()
    };
    if !loads(found).chain(stores(found)).all(is_byte) || !found.instructions.iter().all(is_plain) {
        return None;
    }
    let (what, advice) = match (loaded, stored) {
        (1, 1) => (
            "copies",
            "copy eight bytes at a time (a memcpy by words: the library's fast variant, or -O2 instead of -Os)",
        ),
        (0, 1) => (
            "fills memory",
            "fill eight bytes at a time, or not at all: memory of the VM is zero when a script starts",
        ),
        (2, 0) => ("compares", "compare eight bytes at a time"),
        (1, 0) => (
            "searches",
            "look at eight bytes at a time, with orc.b of the B extension for the byte that is zero",
        ),
        _ => return None,
    };
    let per_byte = found.cycles / code.passes(found).max(1);
    let why = format!("this loop {what} byte by byte, about {per_byte} cycles for each");
    Some(Finding {
        // One pass for eight bytes instead of one byte.
        saves: Some(found.cycles - found.cycles / 8),
        measured: (stored == 1 && code.is_mbedtls).then_some(super::libraries::WORDS_MEASURED),
        ..code.finding(Rule::ByteLoop, found.start, found.cycles, why, advice)
    })
}

/// A multiplication with carry in limbs of 32 bits: 32-bit loads, 64-bit products, the upper half by a shift.
fn narrow_limbs(code: &Code<'_>, found: &Loop) -> Option<Finding> {
    let has = |op: Op| found.instructions.iter().filter(|(_, instruction)| instruction.op == op).count();
    let narrow = has(Op::Lwu) + has(Op::Lw);
    let halves =
        found.instructions.iter().filter(|(_, i)| matches!(i.op, Op::Srli | Op::Srai) && i.imm == 32).count();
    let is_it = narrow >= 2 && has(Op::Mul) >= 1 && has(Op::Sw) >= 1 && halves >= 1 && has(Op::Ld) == 0;
    let advice = match code.is_mbedtls {
        true => "limbs of 64 bits with products of 128 bits: MBEDTLS_HAVE_INT64 with mbedtls_t_udbl",
        false => "limbs of 64 bits with products of 128 bits (unsigned __int128)",
    };
    // A quarter of the passes, each with an additional multiplication for the upper half.
    let passes = code.passes(found);
    let after = (found.cycles / 4).saturating_add(passes / 4 * HALF_PRODUCT_CYCLES);
    (is_it && !found.calls).then(|| Finding {
        saves: Some(found.cycles.saturating_sub(after)),
        measured: code.is_mbedtls.then_some(super::libraries::LIMBS_MEASURED),
        ..code.finding(Rule::NarrowLimbs,
            found.start,
            found.cycles,
            "this loop multiplies long numbers in limbs of 32 bits: the VM multiplies 64 bits by 64 bits in 5 cycles for \
             each half of the product, a quarter of the passes"
                .to_owned(),
            advice,
        )
    })
}

/// Bitwise long division: shifts by one, compares and subtracts, without memory accesses.
fn soft_division(code: &Code<'_>, found: &Loop) -> Option<Finding> {
    let by_one = |op: Op| found.instructions.iter().any(|(_, i)| i.op == op && i.imm == 1);
    let has_sub = found.instructions.iter().any(|(_, i)| matches!(i.op, Op::Sub | Op::Subw | Op::Sbb));
    let compares = found
        .instructions
        .iter()
        .any(|(_, i)| matches!(i.op, Op::Sltu | Op::Slt | Op::Bltu | Op::Bgeu | Op::Blt | Op::Bge));
    let is_it =
        (by_one(Op::Slli) || by_one(Op::Srli)) && has_sub && compares && found.instructions.len() <= 24;
    let touches = loads(found).next().is_some() || stores(found).next().is_some();
    (is_it && !touches && !found.calls).then(|| {
        let why = "this loop divides bit by bit".to_owned();
        let advice = "div and divu of the M extension (32 cycles), or a multiplication by the reciprocal";
        // 64 passes, one per bit, become one division.
        let after = code.passes(found) / 64 * DIVISION_CYCLES;
        Finding {
            saves: Some(found.cycles.saturating_sub(after)),
            ..code.finding(Rule::SoftDivision, found.start, found.cycles, why, advice)
        }
    })
}

/// Loads of the same address in every pass, if only byte stores could change the value.
fn aliased_loads(code: &Code<'_>, found: &Loop) -> Option<Finding> {
    let has_byte_store = stores(found).any(|(_, store)| store.op == Op::Sb);
    if found.calls || !has_byte_store || stores(found).any(|(_, store)| store.op != Op::Sb) {
        return None;
    }
    let is_kept = |register: Reg| !found.instructions.iter().any(|(_, i)| writes(i, register));
    // Skip the stack: the compiler knows these addresses, so types do not matter.
    let repeated: Vec<&At> = loads(found)
        .filter(|(_, load)| loaded_bytes(load.op) > Some(1) && load.rs1 != Reg::SP && load.rs1 != Reg::ZERO)
        .filter(|(_, load)| is_kept(load.rs1))
        .collect();
    let (first, _) = repeated.first()?;
    let cycles = code.cycles(repeated.iter().copied());
    let why = format!(
        "{} load{} the same address in every pass: a store through a char or uint8_t pointer in between might alias it",
        repeated.len(),
        if repeated.len() == 1 { " reads" } else { "s read" }
    );
    let advice = "read the value into a local variable before the loop, or store through a pointer of another type \
                  (or a restrict one)";
    Some(Finding { saves: Some(cycles), ..code.finding(Rule::AliasedLoad, *first, cycles, why, advice) })
}

/// Stack accesses in a loop without calls.
fn spills(code: &Code<'_>, found: &Loop) -> Option<Finding> {
    let on_stack: Vec<&At> = loads(found).chain(stores(found)).filter(|(_, i)| i.rs1 == Reg::SP).collect();
    // One or two values on the stack do not indicate a lack of registers.
    if found.calls || on_stack.len() < 3 {
        return None;
    }
    let (first, _) = on_stack.iter().min_by_key(|(pc, _)| *pc)?;
    let cycles = code.cycles(on_stack.iter().copied());
    let why = format!("{} loads and stores on the stack in a loop that calls nothing", on_stack.len());
    let advice =
        "split the loop, or keep fewer values alive across it: unroll less, or load constants inside";
    Some(code.finding(Rule::Spill, *first, cycles, why, advice))
}
