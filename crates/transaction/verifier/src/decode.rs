//! What an instruction is, in each instruction set that has it.

use ckb_vm::{
    instructions::{Instruction, a, b, i, m, rvc, tagged::TaggedInstruction},
    machine::VERSION2,
};

/// Finds what makes an instruction of a word, if it is one.
type Factory = fn(u32, u32) -> Option<Instruction>;

/// The instruction sets that know `word`, each with the instruction in assembly.
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
