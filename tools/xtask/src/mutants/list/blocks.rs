//! Mutants within and between blocks: words from bytes, the order of operations, charges, copies of
//! functions, jump tables.

use super::{EMIT_CONTROL, Mutant, mutant};

const LOOP_SEARCH: &str = "crates/engine/opt/src/loops/byte_search.rs";
const GATHER: &str = "crates/engine/opt/src/combine_loads.rs";
const ORDER_GRAPH: &str = "crates/engine/codegen/src/order/graph.rs";
const SPECIALIZE: &str = "crates/engine/opt/src/specialize.rs";
const CHARGES_OF_BLOCKS: &str = "crates/engine/opt/src/charges.rs";

/// Words combined from bytes.
pub(super) const WORDS_OF_BYTES: [Mutant; 4] = [
    mutant(
        "bytes-over-a-store",
        GATHER,
        "found.filter(|part| part.first >= after_store)",
        "found.filter(|_| after_store <= index + 1)",
    ),
    mutant(
        "bytes-with-gaps",
        GATHER,
        "self.offset.checked_add(self.bytes) == Some(high.offset)",
        "self.offset < high.offset",
    ),
    mutant(
        "bytes-at-other-places",
        GATHER,
        "self.above + self.bytes == high.above",
        "self.above < high.above",
    ),
    mutant(
        "bytes-with-signs",
        GATHER,
        "Op::Load { width, is_signed: false, base, offset } => {\n                Some",
        "Op::Load { width, base, offset, .. } => {\n                Some",
    ),
];

pub(super) const FRAMES: [Mutant; 1] = [mutant(
    "tail-calls-are-compared-by-nobody",
    "crates/engine/opt/src/frames.rs",
    "SpAfter::Compared => (Distance::Unknown, SpAfter::Compared),",
    "SpAfter::Compared => (end.after_call(callee), SpAfter::Compared),",
)];

/// The scheduler's order.
pub(super) const ORDER: [Mutant; 4] = [
    mutant("order-of-other-bases", ORDER_GRAPH, "            && self.root == other.root\n", ""),
    mutant(
        "order-of-bytes-that-meet",
        ORDER_GRAPH,
        "(self.end <= other.start || other.end <= self.start)",
        "self.start != other.start",
    ),
    mutant(
        "order-of-loads-before-stores",
        ORDER_GRAPH,
        "self.access.keeps_order(&other.access, is_disjoint)",
        "other.access.is_store && self.access.keeps_order(&other.access, is_disjoint)",
    ),
    mutant(
        "order-of-loads-of-words",
        ORDER_GRAPH,
        "let (root, start) = base_and_offset(access.pointer.into());",
        "if !access.is_store && access.bytes == 4 {\n            return None;\n        }\n        let (root, start) = base_and_offset(access.pointer.into());",
    ),
];

/// Moved charges. The IR's verifier detects unbalanced ones.
pub(super) const CHARGES: [Mutant; 3] = [
    mutant(
        "charges-taken-and-not-given",
        CHARGES_OF_BLOCKS,
        "charges[*block] += by",
        "charges[*block] += by - 1",
    ),
    mutant("charges-of-the-entry", CHARGES_OF_BLOCKS, "            && !place.behind.contains(&0)\n", ""),
    mutant(
        "charges-across-calls",
        CHARGES_OF_BLOCKS,
        "Terminator::Jump(_) | Terminator::Branch { .. }",
        "Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Call { .. }",
    ),
];

/// Copies of functions for calls with constant arguments.
pub(super) const COPIES: [Mutant; 3] = [
    mutant("numbers-of-another-call", SPECIALIZE, "*others == numbers", "others.len() == numbers.len()"),
    mutant("numbers-that-are-off", SPECIALIZE, "Op::Const(*number))", "Op::Const(*number + 1))"),
    mutant(
        "numbers-in-other-registers",
        SPECIALIZE,
        "(*register, value));",
        "(Reg(register.0 ^ 1), value));",
    ),
];

/// Jumps through tables in host memory.
pub(super) const TABLES: [Mutant; 1] = [mutant(
    "table-one-place-off",
    EMIT_CONTROL,
    "pc.0.wrapping_sub(low).rotate_right(1)",
    "pc.0.wrapping_sub(low).rotate_right(1) + 1",
)];

/// Loops that search for a byte.
pub(super) const SEARCHES: [Mutant; 4] = [
    mutant(
        "iterations-left-out-are-free",
        LOOP_SEARCH,
        "ahead.push(Op::Charge(charged));",
        "let _ = charged;",
    ),
    mutant(
        "comparison-at-zero-charged",
        LOOP_SEARCH,
        "ahead.binary(BinaryOp::Sub, charged, saved);",
        "ahead.binary(BinaryOp::Add, charged, saved);",
    ),
    mutant("counter-between-bytes", LOOP_SEARCH, "!COUNTER_MAX);", "!63);"),
    mutant(
        "byte-read-after-the-loop",
        LOOP_SEARCH,
        "is_search && is_apart && forgets(behind, byte)",
        "is_search && is_apart",
    ),
];
