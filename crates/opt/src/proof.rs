//! The semantic verifier: every check that is left out holds, every charge that is moved comes to the same, and the cycle limit is
//! checked in time. It shares no transfer function with what left them out, and is written to be read.
//!
//! * Accesses that a check in their block covers, or that of the stack frame at the entry: [`access`], [`frame`].
//! * Checks that earlier ones imply, over all ways: [`available`].
//! * Checks that a guard has made for all iterations of a loop: [`versioned`], from what it compares ([`guard`]) and what one
//!   iteration does ([`iteration`]), as sums modulo 2^64 ([`modular`]).
//! * Charges and cycle-limit checks: [`cycles`].

mod access;
mod available;
pub(crate) mod cycles;
mod frame;
mod guard;
mod iteration;
mod modular;
mod versioned;

use antares_ir::{Access, Block, Function, Module, Op, SpAfter};
use antares_program::{BlockId, FunctionId};

use crate::{
    proof::{
        available::{Executed, Implied},
        frame::{Frame, SpDistance},
        versioned::Bounded,
    },
    verify::{self, VerifyError},
};

pub use versioned::LoopError;

/// What a module claims and its verifier cannot prove. This is our mistake, never the input's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// It breaks a rule of its form.
    #[error(transparent)]
    Form(#[from] VerifyError),
    /// A memory access without a check before it.
    #[error("{function} {block}: operation {operation} has no address check before it")]
    Unchecked {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
        /// Index of the operation.
        operation: usize,
    },
    /// `sp` is said to come back, and that does not follow.
    #[error("{function}: sp does not come back")]
    Frame {
        /// Function.
        function: FunctionId,
    },
    /// An address check is left out, and not all that comes before has seen to it.
    #[error("{function} {block}: operation {operation} is not proved")]
    Unproved {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
        /// Index of the operation.
        operation: usize,
    },
    /// A bounded loop is not what its witness says.
    #[error("{function} loop {header}: {error}")]
    Loop {
        /// Function.
        function: FunctionId,
        /// Header of the bounded version.
        header: BlockId,
        /// What is not shown.
        error: LoopError,
    },
    /// What was charged is not what was used, whichever way led here.
    #[error("{function} {block}: charges are not balanced")]
    Unbalanced {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
    },
    /// A charge is deferred and not made.
    #[error("{function} {block}: a deferred charge is lost")]
    Lost {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
    },
    /// The cycle limit is not checked in a cycle of the control flow, or before the function is left.
    #[error("{function} {block}: the cycle limit is not checked")]
    Unlimited {
        /// Function.
        function: FunctionId,
        /// Block.
        block: BlockId,
    },
}

/// What the verifiers say against `module`, which is ready for a generator: one thing for each function, or what is wrong with its form.
#[must_use]
pub fn refused(module: &Module) -> Vec<ProofError> {
    match verify::verify(module) {
        Ok(()) => unproved(module, true),
        Err(error) => vec![error.into()],
    }
}

/// The same of a module between passes: signatures, cycle-limit checks and what is known of `sp` may not be there yet.
pub(crate) fn refused_between_passes(module: &Module) -> Vec<ProofError> {
    match verify::verify_unsigned(module) {
        Ok(()) => unproved(module, false),
        Err(error) => vec![error.into()],
    }
}

/// What `module`, whose form is right, claims and does not show; if it `is_finished`, of all that it claims.
fn unproved(module: &Module, is_finished: bool) -> Vec<ProofError> {
    let implied = Implied::of(|access| module.bounds(access));
    let execute =
        |function: &Function| function.blocks.iter().map(|block| Executed::of(block, implied)).collect();
    let executed: Vec<Vec<Executed>> = module.functions.iter().map(execute).collect();
    let frames = frame::solve(module, &executed);
    let functions = module.functions.iter().zip(executed.iter().zip(&frames));
    let proved = functions.map(|(function, of)| {
        prove(module, function, of)?;
        if is_finished { finished(function, of.1) } else { Ok(()) }
    });
    proved.filter_map(Result::err).collect()
}

/// What is true of a function when all passes have run.
fn finished(function: &Function, frame: &Frame) -> Result<(), ProofError> {
    if function.sp_after == SpAfter::Same && !frame.gives_back() {
        return Err(ProofError::Frame { function: function.id });
    }
    match cycles::unlimited(function) {
        None => Ok(()),
        Some(block) => Err(ProofError::Unlimited { function: function.id, block }),
    }
}

fn prove(
    module: &Module,
    function: &Function,
    (executed, frame): (&Vec<Executed>, &Frame),
) -> Result<(), ProofError> {
    let id = function.id;
    let bounds = |access: Access| module.bounds(access);
    let implied = Implied::of(bounds);
    for (index, block) in function.blocks.iter().enumerate() {
        let sp = (frame.sp(index), function.frame_low);
        // Where no way leads nothing is accessed.
        if sp.0 != SpDistance::Unreached
            && let Some(operation) = access::unchecked(block, implied, sp)
        {
            return Err(ProofError::Unchecked { function: id, block: id_of(index), operation });
        }
    }
    if let Some(block) = cycles::unbalanced(function) {
        return Err(ProofError::Unbalanced { function: id, block });
    }
    if let Some(block) = cycles::lost(function) {
        return Err(ProofError::Lost { function: id, block });
    }
    let mut loops = Vec::with_capacity(function.loops.len());
    for witness in &function.loops {
        let failed = |error| ProofError::Loop { function: id, header: witness.header, error };
        loops.push(Bounded::prove(function, witness, bounds).map_err(failed)?);
    }
    let blocks = || (0..).map(BlockId).zip(&function.blocks);
    let is_stray = |(id, block): &(BlockId, &Block)| {
        block.is_bounded && !function.loops.iter().any(|witness| witness.has(*id))
    };
    if let Some((header, _)) = blocks().find(is_stray) {
        return Err(ProofError::Loop { function: id, header, error: LoopError::Flow });
    }
    addresses(function, executed, &loops, implied)
}

/// Every check that is left out holds: because of checks that come before on all ways, or of the guard of its loop.
fn addresses(
    function: &Function,
    executed: &[Executed],
    loops: &[Bounded],
    implied: Implied,
) -> Result<(), ProofError> {
    if executed.iter().all(|executed| executed.left_out.is_empty()) {
        return Ok(());
    }
    let before = available::solve(function, executed, implied);
    for (place, block) in function.blocks.iter().enumerate() {
        let Some(before) = &before[place] else { continue };
        let number = id_of(place);
        let own = (function.loops.iter().zip(loops)).find(|(witness, _)| witness.has(number));
        for left_out in &executed[place].left_out {
            let operation = left_out.operation;
            let Op::Proved { access, base, low, high } = block.ops[operation] else { continue };
            let is_proved = left_out.known(before).hold(access, low, high)
                || own
                    .is_some_and(|(_, bounded)| low < high && bounded.may(access, number, base, (low, high)));
            if !is_proved {
                return Err(ProofError::Unproved { function: function.id, block: number, operation });
            }
        }
    }
    Ok(())
}

fn id_of(index: usize) -> BlockId {
    BlockId(u32::try_from(index).expect("a function has fewer than 2^32 blocks"))
}
