//! Batches: many programs in one ELF; the argument selects a program by its number.

use bytes::Bytes;

use super::{
    ENTRY, FIRST_OWN, Form, LABELS_MAX, Program, REGISTERS, Random, SCRATCH, SCRATCH_BYTES, TEXT, builder,
};
use crate::{
    asm::{
        Item, Label, encode,
        layout::{self, LayoutError, Placed},
        operations,
    },
    elf::{Elf, Segment, Symbol},
};

const PAGE_BYTES: u64 = 4096;

/// Labels of the start: its exit, its row of jumps, its table, the return address of called programs.
const NOTHING: Label = TEXT + 1;
const ROW: Label = TEXT + 2;
const TABLE: Label = TEXT + 3;
const BACK: Label = TEXT + 4;
const _: () = assert!(BACK < FIRST_OWN);

/// Layout of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Start of the code segment.
    pub text: u64,
    pub symbols: Symbols,
    /// How the start selects a program.
    pub selection: Selection,
    /// Form of the programs.
    pub form: Form,
    /// Whether constants are in executable pages.
    pub has_constants_in_code: bool,
}

/// How a batch's start selects the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// A chain of comparisons, each with a call.
    Comparisons,
    /// A call through a table.
    Table,
    /// A computed jump into a row of jumps.
    Row,
}

/// Symbols of a batch. The compiler must treat them only as hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbols {
    /// No section headers.
    Stripped,
    /// A symbol for the start of each program.
    Right,
    /// Wrong addresses and sizes, and malicious names.
    Wrong,
}

impl Shape {
    /// Draws a layout for programs of this form.
    pub fn draw(random: &mut Random, form: Form) -> Self {
        // A table needs only one call for all programs, so the start stays small.
        let table = form == Form::Called && !random.one_in(4);
        Self {
            form,
            text: random.pick(&[0x1_0000, 0x1_0000, 0x1000, 0x8_0000, 0x12_3000]),
            // Wrong symbols usually send the whole batch to the interpreter.
            symbols: if random.one_in(12) {
                Symbols::Wrong
            } else {
                // Without symbols, recovery may take code reached by jumps around other functions for
                // constants.
                random.pick(&[Symbols::Stripped, Symbols::Right, Symbols::Right])
            },
            selection: if table {
                Selection::Table
            } else if random.one_in(16) {
                Selection::Row
            } else {
                random.pick(&[Selection::Comparisons, Selection::Comparisons, Selection::Table])
            },
            has_constants_in_code: random.one_in(2),
        }
    }
}

/// The argument that selects program `index`.
#[must_use]
pub fn argument(index: usize) -> Bytes {
    // Neither byte is 0, so that the argument is a valid C string.
    Bytes::copy_from_slice(&[(index & 127) as u8 | 128, (index >> 7 & 127) as u8 | 128])
}

/// Builds the ELF of `programs`.
///
/// # Errors
/// A branch is out of range: the programs are too large for one batch.
pub fn elf(programs: &[Program], shape: Shape) -> Result<Vec<u8>, LayoutError> {
    let mut text = vec![Item::Label(TEXT)];
    text.extend(start(programs.len(), shape));
    let mut constants = vec![Item::Label(TABLE)];
    constants.extend((0..programs.len()).map(|index| Item::Entry64(label(ENTRY, index))));
    constants.push(Item::Label(REGISTERS));
    constants.extend(programs.iter().flat_map(|program| program.registers.iter().copied().map(Item::Data)));
    for (index, program) in programs.iter().enumerate() {
        text.extend(program.text.iter().map(|item| renumbered(item, index)));
        constants.extend(program.constants.iter().map(|item| renumbered(item, index)));
    }
    let text_at = Placed { address: shape.text, items: &text };
    let constants_address = (shape.text + layout::size(text_at)).next_multiple_of(PAGE_BYTES);
    let constants_at = Placed { address: constants_address, items: &constants };
    let scratch = (constants_address + layout::size(constants_at)).next_multiple_of(PAGE_BYTES);
    let labels =
        layout::labels(&[text_at, constants_at, Placed { address: scratch, items: &[Item::Label(SCRATCH)] }]);
    let text_bytes = layout::assemble(text_at, &labels)?;
    let constant_bytes = layout::assemble(constants_at, &labels)?;
    let text_size = text_bytes.len() as u64;
    let mut random = Random::new(shape.text);
    let filled: Vec<u8> = (0..SCRATCH_BYTES / 16).flat_map(|_| random.bits().to_le_bytes()).collect();
    let flags = if shape.has_constants_in_code { 5 } else { 4 };
    let segments = vec![
        Segment::whole(shape.text, 5, text_bytes),
        Segment::whole(constants_address, flags, constant_bytes),
        Segment { address: scratch, flags: 6, bytes: filled, memory_bytes: SCRATCH_BYTES },
    ];
    let entries: Vec<u64> = (0..programs.len()).map(|index| labels[&label(ENTRY, index)]).collect();
    let symbols = symbols(shape, &entries, text_size);
    Ok(Elf { entry: shape.text, segments, symbols }.to_bytes())
}

/// Reads the argument and jumps to the selected program; exits with -1 if there is none.
fn start(count: usize, shape: Shape) -> Vec<Item> {
    let (t0, t1, t2) = (5, 6, 7);
    let mut items = vec![
        Item::Word(operations::load(6, t0, 2, 8)),
        Item::Word(operations::load(4, t1, t0, 0)),
        Item::Word(operations::load(4, t2, t0, 1)),
        Item::Word(encode::i(0x13, 7, t1, t1, 127)),
        Item::Word(encode::i(0x13, 7, t2, t2, 127)),
        Item::Word(encode::i(0x13, 1, t2, t2, 7)),
        Item::Word(encode::r(0x33, 6, 0, t1, t1, t2)),
    ];
    if shape.form == Form::Called {
        items.extend(builder::shared_prologue(t1));
    }
    items.extend(select(count, shape));
    if shape.form == Form::Called {
        items.push(Item::Label(BACK));
        items.extend(builder::shared_epilogue());
    }
    items.push(Item::Label(NOTHING));
    items.extend([encode::i(0x13, 0, 10, 0, -1), encode::i(0x13, 0, 17, 0, 93), 0x73].map(Item::Word));
    items
}

/// Jumps to the program with the number in t1.
fn select(count: usize, shape: Shape) -> Vec<Item> {
    let (t1, t2) = (6, 7);
    let number = |index: usize| i32::try_from(index).unwrap_or(i32::MAX);
    let mut items = Vec::new();
    if shape.selection == Selection::Comparisons {
        for index in 0..count {
            items.push(Item::Word(encode::i(0x13, 0, t2, 0, number(index))));
            items.push(Item::Word(encode::b(1, t1, t2, 12).unwrap_or(0)));
            items.push(Item::Jump { rd: 1, to: label(ENTRY, index) });
            items.push(Item::Jump { rd: 0, to: if shape.form == Form::Called { BACK } else { NOTHING } });
        }
        items.push(Item::Jump { rd: 0, to: NOTHING });
        return items;
    }
    let (of, scale) = if shape.selection == Selection::Row { (ROW, 2) } else { (TABLE, 3) };
    items.extend([
        Item::Word(encode::i(0x13, 0, t2, 0, number(count))),
        Item::Branch { funct3: 7, rs1: t1, rs2: t2, to: NOTHING, plus: 0 },
        Item::Word(encode::i(0x13, 1, t1, t1, scale)),
        Item::Address { is_absolute: true, rd: t2, of, plus: 0 },
        Item::Word(encode::r(0x33, 0, 0, t1, t1, t2)),
    ]);
    if shape.selection == Selection::Table {
        items.push(Item::Word(operations::load(3, t1, t1, 0)));
        items.push(Item::Word(encode::i(0x67, 0, 1, t1, 0)));
        if shape.form == Form::Called {
            items.push(Item::Jump { rd: 0, to: BACK });
        }
    } else {
        // Programs of the row return to after the row.
        items.push(Item::Address { is_absolute: true, rd: 1, of: BACK, plus: 0 });
        items.push(Item::Word(encode::i(0x67, 0, 0, t1, 0)));
    }
    items.push(Item::Label(ROW));
    let jumps = (0..count).map(|index| Item::Jump { rd: 0, to: label(ENTRY, index) });
    items.extend(jumps.filter(|_| shape.selection == Selection::Row));
    if shape.form == Form::Alone {
        items.push(Item::Label(BACK));
    }
    items
}

fn symbols(shape: Shape, entries: &[u64], text_size: u64) -> Option<Vec<Symbol>> {
    let mut random = Random::new(text_size);
    let right = entries.iter().enumerate().map(|(index, &address)| Symbol {
        name: format!("program_{index}"),
        address,
        size: entries.get(index + 1).map_or(0, |next| next - address),
    });
    match shape.symbols {
        Symbols::Stripped => None,
        Symbols::Right => Some(right.collect()),
        Symbols::Wrong => Some(
            right
                .map(|_| Symbol {
                    name: random.pick(&["antares_library", "State", "main", "", "a b\"\n%s"]).to_owned(),
                    address: shape.text.wrapping_add(u64::from(random.below(0x2000))),
                    size: random.number(),
                })
                .collect(),
        ),
    }
}

/// A program's label within the batch.
fn label(label: Label, index: usize) -> Label {
    if (1..FIRST_OWN).contains(&label) && label != super::CONSTANTS {
        return label;
    }
    label + FIRST_OWN + LABELS_MAX * u32::try_from(index).unwrap_or(u32::MAX / LABELS_MAX)
}

fn renumbered(item: &Item, index: usize) -> Item {
    let mut item = item.clone();
    match &mut item {
        Item::Label(to)
        | Item::Branch { to, .. }
        | Item::Jump { to, .. }
        | Item::FarJump { to, .. }
        | Item::Address { of: to, .. }
        | Item::Entry32(to)
        | Item::Entry64(to) => *to = label(*to, index),
        Item::EntryRelative { to, base } => {
            *to = label(*to, index);
            *base = label(*base, index);
        }
        Item::Word(_) | Item::Half(_) | Item::Data(_) | Item::Align(_) => {}
    }
    item
}
