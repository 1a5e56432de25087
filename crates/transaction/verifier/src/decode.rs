//! Decodes an instruction in each instruction set that contains it.

use ckb_vm::{
    instructions::{Instruction, a, b, i, m, rvc, tagged::TaggedInstruction},
    machine::VERSION2,
};

/// Decodes a word, if it is an instruction of the set.
type Factory = fn(u32, u32) -> Option<Instruction>;

/// The instruction sets that contain `word`, each with the assembly text.
#[must_use]
pub fn decode(word: u32) -> Vec<(char, String)> {
    let sets: [(char, Factory); 5] = [
        ('I', i::factory::<u64>),
        ('M', m::factory::<u64>),
        ('A', a::factory::<u64>),
        ('C', rvc::factory::<u64>),
        ('B', b::factory::<u64>),
    ];
    let known = sets.into_iter().filter_map(|(set, factory)| Some((set, factory(word, VERSION2)?)));
    known
        .filter_map(|(set, found)| Some((set, TaggedInstruction::try_from(found).ok()?.to_string())))
        .collect()
}
