//! Limits the additional code that hints may cause. Hints are untrusted and may be wrong: beyond the limit,
//! the compiler ignores them.

use std::collections::BTreeSet;

use antares_abi::Hints;
use antares_program::{Image, Program, ProgramError};

use crate::Request;

/// Cost of a function that callers anywhere may enter, in instructions. Measured with hints all over
/// secp256k1's code: 1,024 hints made its library 2.6 times as large.
const ENTRY: u64 = 40;

/// Maximum cost of code that only hints find, per instruction of it.
const FOUND: u64 = 4;

/// Cost that hints may always add: entries of small scripts.
const SPARE: u64 = 64 * ENTRY;

/// Recovers the program with the hints of `request`. Ignores them if they would increase the cost of known
/// code by more than half, or exceed a limit. The decision depends only on the image and the request, so it
/// is the same for all parts of a library.
pub(crate) fn recover(image: &Image, request: &Request) -> Result<Program, ProgramError> {
    let without = || antares_program::recover(image, &request.limits, &Hints::default());
    if request.hints.is_empty() {
        return without();
    }
    let Ok(hinted) = antares_program::recover(image, &request.limits, &request.hints) else {
        return without();
    };
    // A program over a limit without hints may be under it with them. Then they are worth it.
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

/// The half words of the program's instructions. Overlapping code counts once.
fn addresses(program: &Program) -> BTreeSet<u64> {
    let blocks = program.functions.iter().flat_map(|function| &function.blocks);
    let instructions = blocks.flat_map(|block| &block.instructions);
    let halves = |address: u64, length: u64| (address..address + length).step_by(2);
    instructions.flat_map(|(address, instruction)| halves(address.0, u64::from(instruction.length))).collect()
}
