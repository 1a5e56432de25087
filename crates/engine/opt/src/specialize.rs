//! Copies small functions for calls with constant arguments. A constant often determines trip counts in the
//! copy at compile time, and whether the accessed ranges lie in memory.
//!
//! A copy is the original after a block that writes the constants. It has no entry of its own: calls by
//! address, and the host, use the original.

use std::collections::HashMap;

use antares_ir::{Block, Function, Module, Op, Terminator, Value};
use antares_program::{BlockId, FunctionId, Reg};

const COPIES_MAX: usize = 8;

/// Maximum operations of a function to copy.
const OPERATIONS_MAX: usize = 512;

/// Numbers from here on are addresses rather than lengths.
const NUMBER_END: i64 = 4096;

/// Constants that registers hold at a call.
type ConstantArguments = Vec<(Reg, i64)>;

/// Redirects calls with constant arguments to copies. Everything else about the module is final; originals
/// keep their signatures.
pub(crate) fn specialize(module: &mut Module) {
    let mut numbers_of: HashMap<FunctionId, Vec<(ConstantArguments, FunctionId)>> = HashMap::new();
    let mut copies: Vec<Function> = Vec::new();
    let mut calls: Vec<(usize, usize, FunctionId)> = Vec::new();
    let is_worth: Vec<bool> = module.functions.iter().map(is_worth).collect();
    // The module at most doubles in size.
    let mut operations_left: usize = module.functions.iter().map(Function::operations).sum();
    for (caller, function) in module.functions.iter().enumerate() {
        for (block, call) in function.blocks.iter().enumerate() {
            let Some(callee) = call.terminator.callee() else { continue };
            let original = &module.functions[callee.0 as usize];
            let numbers = numbers(call, original);
            if !is_worth[callee.0 as usize] || numbers.iter().all(|(_, number)| *number == 0) {
                continue;
            }
            let known = numbers_of.entry(callee).or_default();
            let copy = match known.iter().find(|(others, _)| *others == numbers) {
                Some((_, copy)) => *copy,
                None if known.len() >= COPIES_MAX || original.operations() > operations_left => continue,
                None => {
                    operations_left -= original.operations();
                    let number = module.functions.len() + copies.len();
                    let Ok(id) = u32::try_from(number).map(FunctionId) else { return };
                    copies.push(copy(original, id, &numbers));
                    known.push((numbers, id));
                    id
                }
            };
            calls.push((caller, block, copy));
        }
    }
    for (caller, block, copy) in calls {
        if let Terminator::Call { callee, .. } | Terminator::TailCall { callee, .. } =
            &mut module.functions[caller].blocks[block].terminator
        {
            *callee = copy;
        }
    }
    module.functions.append(&mut copies);
}

/// Whether it is a small function with counted loops, without calls and checks of its return address.
fn is_worth(function: &Function) -> bool {
    let stays = |block: &Block| match &block.terminator {
        Terminator::Jump(_) | Terminator::Branch { .. } => true,
        Terminator::Return { link, locals } => link.is_none() && locals.is_empty(),
        _ => false,
    };
    function.operations() <= OPERATIONS_MAX
        && function.blocks.iter().any(|block| block.is_bounded)
        && function.blocks.iter().all(stays)
}

/// The constants that `call` passes to `callee`.
fn numbers(call: &Block, callee: &Function) -> ConstantArguments {
    let number = |(register, value): &(Reg, Value)| {
        let number = call.number(*value).filter(|number| (0..NUMBER_END).contains(number))?;
        callee.params.has(*register).then_some((*register, number))
    };
    let mut numbers: ConstantArguments = call.writes.iter().filter_map(number).collect();
    numbers.sort_unstable_by_key(|(register, _)| register.0);
    numbers
}

/// The copy of `function` for calls with `numbers`.
fn copy(function: &Function, id: FunctionId, numbers: &[(Reg, i64)]) -> Function {
    let ops = numbers.iter().map(|(_, number)| Op::Const(*number)).collect();
    let start = Block::between(function.entry, ops, Terminator::Jump(BlockId(1)));
    let writes = (0..).map(Value).zip(numbers).map(|(value, (register, _))| (*register, value));
    let mut blocks = vec![Block { writes: writes.collect(), ..start }];
    blocks.extend(function.blocks.iter().map(|block| Block {
        terminator: block.terminator.map_targets(|target| BlockId(target.0 + 1)),
        ..block.clone()
    }));
    let params = numbers.iter().fold(function.params, |params, (register, _)| params.without(*register));
    let loops = function.loops.iter().map(|versioned| versioned.shifted(1)).collect();
    Function { id, is_exposed: false, is_resumable: false, params, blocks, loops, ..function.clone() }
}
