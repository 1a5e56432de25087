//! Where the cycle limit is looked at: once in every cycle of the control flow, before every syscall, and wherever a
//! function is left.
//!
//! A script beyond its limit has no other effect, so the look may come late; it only must come. Recursion passes a block
//! that calls; loops pass a block that is the target of an edge back. A look at each call and return finds cycles that were
//! used up inside a function while it is still inside: a profile asks for no more.

use crate::ir::{Function, Module, Terminator};

/// Marks the blocks that look.
pub(crate) fn place(module: &mut Module) {
    module.functions.iter_mut().for_each(place_in);
}

fn place_in(function: &mut Function) {
    for target in targets_of_back_edges(function) {
        function.blocks[target].is_metered = !function.blocks[target].is_bounded;
    }
    for block in &mut function.blocks {
        block.is_metered |= !stays(&block.terminator);
    }
}

/// Whether what follows is in the function too, or native code is left for good.
fn stays(terminator: &Terminator) -> bool {
    match terminator {
        Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Leave => true,
        Terminator::JumpIndirect { may_call, .. } => !may_call,
        _ => false,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    Open,
    Closed,
}

/// Targets of edges to a block that is still open in a depth-first search: every cycle has one.
fn targets_of_back_edges(function: &Function) -> Vec<usize> {
    let successors: Vec<Vec<usize>> = function
        .blocks
        .iter()
        .map(|block| block.terminator.successors().iter().map(|id| id.0 as usize).collect())
        .collect();
    let mut visits = vec![Visit::New; successors.len()];
    let mut targets = Vec::new();
    let mut path = vec![(0, 0)];
    visits[0] = Visit::Open;
    while let Some((block, edge)) = path.last_mut() {
        let Some(&next) = successors[*block].get(*edge) else {
            visits[*block] = Visit::Closed;
            path.pop();
            continue;
        };
        *edge += 1;
        match visits[next] {
            Visit::New => {
                visits[next] = Visit::Open;
                path.push((next, 0));
            }
            Visit::Open => targets.push(next),
            Visit::Closed => {}
        }
    }
    targets
}
