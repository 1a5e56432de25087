//! How much more there may be to compile for hints. They may be anybody's word, and may be wrong: too much of
//! them counts as none.

use std::collections::BTreeSet;

use antares_abi::Hints;
use antares_program::{Image, Program, ProgramError};

use crate::Request;

/// What a function that may be entered from anywhere costs, in instructions: measured with hints all over
/// secp256k1's code, whose library was 2.6 times as large with 1,024 of them.
const ENTRY: u64 = 40;

/// What code that is found only by hints may cost, in instructions for each of its own.
const FOUND: u64 = 4;

/// Instructions that hints may always cost: entries of small scripts.
const SPARE: u64 = 64 * ENTRY;

/// The program with the hints of `request`, or without them where it would be half as large again for what is
/// known anyway, or over a limit. All parts of a library decide alike: it depends on nothing but the image
/// and the request.
pub(crate) fn recover(image: &Image, request: &Request) -> Result<Program, ProgramError> {
    let without = || antares_program::recover(image, &request.limits, &Hints::default());
    if request.hints.is_empty() {
        return without();
    }
    let Ok(hinted) = antares_program::recover(image, &request.limits, &request.hints) else {
        return without();
    };
    // What is over a limit without them may be under it with them: then they are worth it.
    let Ok(plain) = without() else { return Ok(hinted) };
    let known = addresses(&plain);
    let found = addresses(&hinted).difference(&known).count() as u64;
    let most = cost(&plain) + cost(&plain) / 2 + FOUND * found + SPARE;
    Ok(if cost(&hinted) <= most { hinted } else { plain })
}

fn cost(program: &Program) -> u64 {
    let entries = program.functions.iter().filter(|function| function.is_exposed).count() as u64;
    let blocks = program.functions.iter().flat_map(|function| &function.blocks);
    ENTRY * entries + blocks.map(|block| block.instructions.len() as u64).sum::<u64>()
}

/// Half words of the instructions of `program`: code that overlaps other code is not found, but made.
fn addresses(program: &Program) -> BTreeSet<u64> {
    let blocks = program.functions.iter().flat_map(|function| &function.blocks);
    let instructions = blocks.flat_map(|block| &block.instructions);
    let halves = |address: u64, length: u64| (address..address + length).step_by(2);
    instructions.flat_map(|(address, instruction)| halves(address.0, u64::from(instruction.length))).collect()
}
