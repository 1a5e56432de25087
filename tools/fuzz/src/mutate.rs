//! Mutates an input: libafl's havoc on a field or inside of a molecule table, words of the script, operands of
//! branches, and fields of other inputs.

use std::collections::HashMap;

use libafl::{
    Error,
    corpus::{Corpus, CorpusId},
    inputs::BytesInput,
    mutators::{HavocMutationsNoCrossoverType, HavocScheduledMutator, Mutator, havoc_mutations_no_crossover},
    state::{HasCorpus, HasRand},
};
use libafl_bolts::rands::Rand;

use crate::{
    FuzzInput, Table,
    molecule::{read_bytes, to_vector},
    operands::Position,
    state::State,
};

/// Power of two of the maximum growth in bytes of a field with a length.
const STRETCH_BITS: usize = 8;
/// Power of two of the maximum mutations of an input before it runs.
const CHANGES_BITS_MAX: usize = 3;
/// Power of two of the maximum havoc mutations in one of these: fields are short.
const HAVOC_BITS_MAX: usize = 3;
/// Maximum depth of nested tables.
const DEPTH_MAX: usize = 3;

/// The script's words and the mutations.
pub(crate) struct Changes {
    havoc: HavocScheduledMutator<HavocMutationsNoCrossoverType>,
    words: Vec<Vec<u8>>,
    places: HashMap<CorpusId, Vec<Position>>,
    bytes_max: usize,
}

impl Changes {
    pub(crate) fn new(words: Vec<Vec<u8>>, bytes_max: usize) -> Self {
        let havoc = HavocScheduledMutator::with_max_stack_pow(havoc_mutations_no_crossover(), HAVOC_BITS_MAX);
        Self { havoc, words, places: HashMap::new(), bytes_max }
    }

    /// Records the positions of branch operands in the input `id`.
    pub(crate) fn learn(&mut self, id: CorpusId, places: Vec<Position>) {
        self.places.insert(id, places);
    }

    /// Mutates `fields`, which are those of the input `id`.
    pub(crate) fn change(
        &mut self,
        state: &mut State,
        id: CorpusId,
        fields: &mut FuzzInput,
    ) -> Result<(), Error> {
        for _ in 0..1 << state.rand_mut().below_or_zero(CHANGES_BITS_MAX + 1) {
            let field = state.rand_mut().below_or_zero(fields.0.len());
            match state.rand_mut().below_or_zero(20) {
                // Positions refer to the original input; after other mutations they are arbitrary.
                0..=3 if self.put_operand(state, id, fields) => {}
                4..=6 => {
                    self.put_word(state, &mut fields.0[field]);
                }
                7 => {
                    Self::take_from_another(state, field, fields)?;
                }
                8 => stretch(state, &mut fields.0[field]),
                9 => put_number(state, field, fields),
                10..=12 => {
                    let bytes = std::mem::take(&mut fields.0[field]);
                    fields.0[field] = self.change_inside(state, bytes, 0)?;
                }
                _ => {
                    let bytes = std::mem::take(&mut fields.0[field]);
                    fields.0[field] = self.havoc(state, bytes)?;
                }
            }
            fields.0[field].truncate(self.bytes_max);
        }
        Ok(())
    }

    fn havoc(&mut self, state: &mut State, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut input = BytesInput::new(bytes);
        self.havoc.mutate(state, &mut input)?;
        Ok(input.into_inner())
    }

    /// Replaces one operand of a branch by the other.
    fn put_operand(&self, state: &mut State, id: CorpusId, fields: &mut FuzzInput) -> bool {
        let places = self.places.get(&id).map_or(&[][..], Vec::as_slice);
        if places.is_empty() {
            return false;
        }
        let place = &places[state.rand_mut().below_or_zero(places.len())];
        let end = place.at + place.bytes.len();
        let Some(bytes) = fields.0[place.field].get_mut(place.at..end) else { return false };
        bytes.copy_from_slice(&place.bytes);
        // One more or one less is the other side of a comparison.
        match state.rand_mut().below_or_zero(4) {
            0 => bytes[0] = bytes[0].wrapping_add(1),
            1 => bytes[0] = bytes[0].wrapping_sub(1),
            _ => {}
        }
        true
    }

    /// Overwrites bytes with a word of the script, or inserts it.
    fn put_word(&self, state: &mut State, bytes: &mut Vec<u8>) {
        let word = &self.words[state.rand_mut().below_or_zero(self.words.len())];
        let at = state.rand_mut().below_or_zero(bytes.len() + 1);
        let end = match state.rand_mut().below_or_zero(4) {
            0 => at,
            _ => (at + word.len()).min(bytes.len()),
        };
        bytes.splice(at..end, word.iter().copied());
    }

    /// Copies the same field from another input.
    fn take_from_another(state: &mut State, field: usize, fields: &mut FuzzInput) -> Result<(), Error> {
        let count = state.corpus().count();
        let nth = state.rand_mut().below_or_zero(count);
        let id = state.corpus().nth(nth);
        let other = state.corpus().cloned_input_for_id(id)?;
        if let Some(bytes) = other.0.get(field) {
            fields.0[field].clone_from(bytes);
        }
        Ok(())
    }

    /// Mutates a field of a table, or the table, and serializes it with correct lengths.
    fn change_inside(&mut self, state: &mut State, bytes: Vec<u8>, depth: usize) -> Result<Vec<u8>, Error> {
        if depth < DEPTH_MAX
            && let Some(mut table) = Table::read(&bytes).filter(|table| !table.fields.is_empty())
        {
            let count = table.fields.len();
            let (at, other) = (state.rand_mut().below_or_zero(count), state.rand_mut().below_or_zero(count));
            match state.rand_mut().below_or_zero(10) {
                0 => table.fields[at].clear(),
                1 => table.fields.swap(at, other),
                2 => table.fields[at] = table.fields[other].clone(),
                3 => table.fields[at] = to_vector(&table.fields[at]),
                4 => {
                    let same = table.fields[at].clone();
                    table.fields.insert(at, same);
                }
                5 => drop(table.fields.remove(at)),
                _ => {
                    let inner = std::mem::take(&mut table.fields[at]);
                    table.fields[at] = self.change_inside(state, inner, depth + 1)?;
                }
            }
            return Ok(table.to_bytes());
        }
        match read_bytes(&bytes).map(<[u8]>::to_vec) {
            Some(held) => {
                let held = match state.rand_mut().below_or_zero(3) {
                    0 => self.change_inside(state, held, DEPTH_MAX)?,
                    _ => self.havoc(state, held)?,
                };
                Ok(to_vector(&held))
            }
            None if bytes.is_empty() => Ok(to_vector(&[0; 8])),
            None => self.havoc(state, bytes),
        }
    }
}

/// Changes the length of a length-prefixed sequence, and updates its prefix.
fn stretch(state: &mut State, bytes: &mut Vec<u8>) {
    let mut lengths = Vec::new();
    for width in [1, 2, 4] {
        for at in 0..bytes.len().saturating_sub(width) {
            let behind = bytes.len() - at - width;
            if number(&bytes[at..at + width]) == behind {
                lengths.push((at, width));
            }
        }
    }
    if lengths.is_empty() {
        return;
    }
    let (at, width) = lengths[state.rand_mut().below_or_zero(lengths.len())];
    let behind = bytes.len() - at - width;
    let bits = state.rand_mut().below_or_zero(STRETCH_BITS + 1);
    let by = state.rand_mut().below_or_zero(1 << bits);
    let wanted = match state.rand_mut().below_or_zero(4) {
        0 => behind.saturating_sub(by),
        _ => (behind + by + 1).min((1 << (8 * width)) - 1),
    };
    bytes.resize(at + width + wanted, state.rand_mut().next().to_le_bytes()[0]);
    bytes[at..at + width].copy_from_slice(&wanted.to_le_bytes()[..width]);
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Overwrites a number of a field with a large value, or with a field's number, offset or negated.
fn put_number(state: &mut State, field: usize, fields: &mut FuzzInput) {
    let width = 1 << state.rand_mut().between(1, 4);
    let from = state.rand_mut().below_or_zero(fields.0.len());
    let place = |state: &mut State, bytes: &[u8]| {
        let room = (bytes.len() / width).checked_sub(1)?;
        Some(width * state.rand_mut().below_or_zero(room + 1))
    };
    let (Some(at), Some(other)) = (place(state, &fields.0[field]), place(state, &fields.0[from])) else {
        return;
    };
    let mut number = [0; 16];
    number[..width].copy_from_slice(&fields.0[from][other..other + width]);
    let number = u128::from_le_bytes(number);
    let small = u128::from(state.rand_mut().next() % 16);
    let wanted = match state.rand_mut().below_or_zero(4) {
        0 => number.wrapping_neg().wrapping_add(small),
        1 => small.wrapping_neg(),
        2 => number.wrapping_add(small),
        _ => number.wrapping_sub(small),
    };
    fields.0[field][at..at + width].copy_from_slice(&wanted.to_le_bytes()[..width]);
}
