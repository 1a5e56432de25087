//! Mutates an input: libafl's havoc on a field or inside of a molecule table, words of the script, operands of
//! branches, and fields of other inputs.

use std::collections::BTreeSet;

use libafl::{
    Error,
    corpus::InMemoryCorpus,
    inputs::{BytesInput, NopInput},
    mutators::{HavocMutationsNoCrossoverType, HavocScheduledMutator, Mutator, havoc_mutations_no_crossover},
    state::{HasMaxSize as _, HasRand as _, StdState},
};
use libafl_bolts::rands::{Rand, StdRand};

use crate::{
    FuzzInput, Table,
    constants::words,
    job::FuzzJob,
    molecule::{read_bytes, to_vector},
    operands::Position,
};

/// Number of inputs that count as recent.
const NEW: usize = 8;
/// Power of two of the maximum growth in bytes of a field with a length.
const STRETCH_BITS: usize = 8;
/// Power of two of the maximum mutations of an input before it runs.
const CHANGES_BITS_MAX: usize = 3;
/// Power of two of the maximum havoc mutations in one of these: fields are short.
const HAVOC_BITS_MAX: usize = 3;
/// Maximum depth of nested tables.
const DEPTH_MAX: usize = 3;

/// libafl's state, of which only the random numbers and the limit of a field are used.
type State = StdState<InMemoryCorpus<NopInput>, NopInput, StdRand, InMemoryCorpus<NopInput>>;

/// The retained inputs, the script's words, and the mutations.
pub(crate) struct Changes {
    havoc: HavocScheduledMutator<HavocMutationsNoCrossoverType>,
    state: State,
    words: Vec<Vec<u8>>,
    /// Each with the positions of its branch operands.
    inputs: Vec<(FuzzInput, Vec<Position>)>,
}

impl Changes {
    pub(crate) fn new(job: &FuzzJob) -> Result<Self, Error> {
        let havoc = HavocScheduledMutator::with_max_stack_pow(havoc_mutations_no_crossover(), HAVOC_BITS_MAX);
        let mut state = State::nop()?;
        *state.rand_mut() = StdRand::with_seed(job.seed);
        state.set_max_size(usize::try_from(job.field_bytes_max).unwrap_or(usize::MAX).max(1));
        let elves = job.libraries.iter().map(|library| &library.elf[..]);
        // Without a script, there are still the words of all scripts.
        let words: BTreeSet<_> = elves.chain([&[][..]]).flat_map(words).collect();
        Ok(Self { havoc, state, words: words.into_iter().collect(), inputs: Vec::new() })
    }

    /// Retains an input.
    pub(crate) fn keep(&mut self, fields: FuzzInput, places: Vec<Position>) {
        self.inputs.push((fields, places));
    }

    /// The number of the next input to mutate: a recent one half of the time, otherwise any. Uses no clock, as
    /// libafl's minimizing schedulers do: the same seed has the same runs.
    pub(crate) fn next_input(&mut self) -> usize {
        let (count, random) = (self.inputs.len(), self.state.rand_mut());
        let from = if random.below_or_zero(2) == 0 { count.saturating_sub(NEW) } else { 0 };
        from + random.below_or_zero(count - from)
    }

    /// The input with this number, mutated.
    pub(crate) fn mutated(&mut self, input: usize) -> Result<FuzzInput, Error> {
        let mut fields = self.inputs[input].0.clone();
        for _ in 0..1 << self.below(CHANGES_BITS_MAX + 1) {
            let field = self.below(fields.0.len());
            match self.below(20) {
                // Positions refer to the original input; after other mutations they are arbitrary.
                0..=3 if self.put_operand(input, &mut fields) => {}
                4..=6 => self.put_word(&mut fields.0[field]),
                7 => {
                    let other = self.below(self.inputs.len());
                    fields.0[field].clone_from(&self.inputs[other].0.0[field]);
                }
                8 => stretch(&mut self.state, &mut fields.0[field]),
                9 => put_number(&mut self.state, field, &mut fields),
                10..=12 => {
                    let bytes = std::mem::take(&mut fields.0[field]);
                    fields.0[field] = self.change_inside(bytes, 0)?;
                }
                _ => {
                    let bytes = std::mem::take(&mut fields.0[field]);
                    fields.0[field] = self.havoc(bytes)?;
                }
            }
            fields.0[field].truncate(self.state.max_size());
        }
        Ok(fields)
    }

    fn below(&mut self, count: usize) -> usize {
        self.state.rand_mut().below_or_zero(count)
    }

    fn havoc(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut input = BytesInput::new(bytes);
        self.havoc.mutate(&mut self.state, &mut input)?;
        Ok(input.into_inner())
    }

    /// Replaces one operand of a branch by the other.
    fn put_operand(&mut self, input: usize, fields: &mut FuzzInput) -> bool {
        let (places, random) = (&self.inputs[input].1, self.state.rand_mut());
        if places.is_empty() {
            return false;
        }
        let place = &places[random.below_or_zero(places.len())];
        let end = place.at + place.bytes.len();
        let Some(bytes) = fields.0[place.field].get_mut(place.at..end) else { return false };
        bytes.copy_from_slice(&place.bytes);
        // One more or one less is the other side of a comparison.
        match random.below_or_zero(4) {
            0 => bytes[0] = bytes[0].wrapping_add(1),
            1 => bytes[0] = bytes[0].wrapping_sub(1),
            _ => {}
        }
        true
    }

    /// Overwrites bytes with a word of the script, or inserts it.
    fn put_word(&mut self, bytes: &mut Vec<u8>) {
        let random = self.state.rand_mut();
        let word = &self.words[random.below_or_zero(self.words.len())];
        let at = random.below_or_zero(bytes.len() + 1);
        let end = match random.below_or_zero(4) {
            0 => at,
            _ => (at + word.len()).min(bytes.len()),
        };
        bytes.splice(at..end, word.iter().copied());
    }

    /// Mutates a field of a table, or the table, and serializes it with correct lengths.
    fn change_inside(&mut self, bytes: Vec<u8>, depth: usize) -> Result<Vec<u8>, Error> {
        if depth < DEPTH_MAX
            && let Some(mut table) = Table::read(&bytes).filter(|table| !table.fields.is_empty())
        {
            let count = table.fields.len();
            let (at, other) = (self.below(count), self.below(count));
            match self.below(10) {
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
                    table.fields[at] = self.change_inside(inner, depth + 1)?;
                }
            }
            return Ok(table.to_bytes());
        }
        match read_bytes(&bytes).map(<[u8]>::to_vec) {
            Some(held) => {
                let held = match self.below(3) {
                    0 => self.change_inside(held, DEPTH_MAX)?,
                    _ => self.havoc(held)?,
                };
                Ok(to_vector(&held))
            }
            None if bytes.is_empty() => Ok(to_vector(&[0; 8])),
            None => self.havoc(bytes),
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
