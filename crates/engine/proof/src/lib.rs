//! The semantic verifier: proves omitted checks, moved charges and timely cycle-limit checks.
//!
//! It shares no transfer function with the passes and cannot depend on them. It is written for readers.
//!
//! * Accesses that a check in their block or the entry's check of the stack frame covers: `access`, `frame`.
//! * Checks that earlier ones imply, over all paths: `available`.
//! * Checks that a guard makes for all iterations of a loop: `versioned`, from its comparisons (`guard`) and
//!   the effect of one iteration (`iteration`), as sums modulo 2^64 (`modular`).
//! * Charges and cycle-limit checks: `cycles`; charges of omitted loops: `search`, on known bits (`bits`).
//!
//! Everything but `available`, which limits the visits of a block, processes operations, edges (`flow`) and
//! bounded loops once.

mod access;
mod available;
mod bits;
mod cycles;
mod flow;
mod frame;
mod guard;
mod iteration;
mod modular;
mod search;
mod versioned;

use antares_ir::{Access, Block, FormRule, Function, Module, Op, SpAfter, VerifyError};
use antares_program::{BlockId, FunctionId};

use crate::{
    available::{Executed, ImpliedWindows},
    flow::Flow,
    frame::{SpDistance, StackFrame},
    versioned::Bounded,
};

pub use cycles::unbalanced;
pub use versioned::LoopError;

/// A claim that the verifier cannot prove. The cause is a bug in the compiler, never the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{function} {block}: {claim}")]
pub struct ProofError {
    /// Function.
    pub function: FunctionId,
    /// Block; for a loop, the header of its bounded version.
    pub block: BlockId,
    /// The claim without a proof.
    pub claim: Claim,
}

/// The claims of a module, worded as errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Claim {
    /// The module satisfies the rules of its form.
    #[error("{0}")]
    Form(FormRule),
    /// A check precedes the memory access of the operation with this index.
    #[error("operation {0} has no address check before it")]
    Checked(usize),
    /// The function restores `sp`.
    #[error("sp does not come back")]
    Frame,
    /// Earlier checks imply the omitted check with this index.
    #[error("operation {0} is not proved")]
    Proved(usize),
    /// A bounded loop matches its witness.
    #[error("bounded loop: {0}")]
    Loop(LoopError),
    /// The charged cycles equal the used ones, on every path.
    #[error("charges are not balanced")]
    Balanced,
    /// A deferred charge is made.
    #[error("a deferred charge is lost")]
    Deferred,
    /// The loop that the block replaces would have used the charged cycles.
    #[error("the charge of a search is not proved")]
    Search,
    /// Every cycle of the control flow checks the cycle limit, and so does every exit of the function.
    #[error("the cycle limit is not checked")]
    Limited,
}

impl From<VerifyError> for ProofError {
    fn from(VerifyError { function, block, rule }: VerifyError) -> Self {
        Self { function, block, claim: Claim::Form(rule) }
    }
}

/// Verifies a `module` that is ready for a generator. Returns one error for each function, or the error in
/// the module's form.
#[must_use]
pub fn refused(module: &Module) -> Vec<ProofError> {
    antares_ir::verify(module).map_or_else(|error| vec![error.into()], |()| unproved(module, true))
}

/// Like [`refused`], for a module between passes. Signatures, cycle-limit checks and the values of `sp` may
/// still be missing.
#[must_use]
pub fn refused_between_passes(module: &Module) -> Vec<ProofError> {
    antares_ir::verify_unsigned(module).map_or_else(|error| vec![error.into()], |()| unproved(module, false))
}

/// The unproved claims of a well-formed `module`, all of them if it `is_finished`.
fn unproved(module: &Module, is_finished: bool) -> Vec<ProofError> {
    let implied = ImpliedWindows::of(|access| module.bounds(access));
    let execute =
        |function: &Function| function.blocks.iter().map(|block| Executed::of(block, implied)).collect();
    let executed: Vec<Vec<Executed>> = module.functions.iter().map(execute).collect();
    let frames = frame::solve(module, &executed);
    let functions = module.functions.iter().zip(executed.iter().zip(&frames));
    let proved = functions.map(|(function, of)| {
        let flow = Flow::of(function);
        prove(module, function, &flow, of)?;
        if is_finished { finished(function, &flow, of.1) } else { Ok(()) }
    });
    proved.filter_map(Result::err).collect()
}

/// Verifies the claims of a function after all passes.
fn finished(function: &Function, flow: &Flow, frame: &StackFrame) -> Result<(), ProofError> {
    let failed = |block, claim| Err(ProofError { function: function.id, block, claim });
    if function.sp_after == SpAfter::Same && !frame.gives_back() {
        return failed(BlockId(0), Claim::Frame);
    }
    cycles::unlimited(function, flow).map_or(Ok(()), |block| failed(block, Claim::Limited))
}

fn prove(
    module: &Module,
    function: &Function,
    flow: &Flow,
    (executed, frame): (&Vec<Executed>, &StackFrame),
) -> Result<(), ProofError> {
    let failed = |block, claim| ProofError { function: function.id, block, claim };
    let bounds = |access: Access| module.bounds(access);
    let implied = ImpliedWindows::of(bounds);
    for (index, block) in function.blocks.iter().enumerate() {
        let sp = (frame.sp(index), function.frame_low);
        // Unreachable blocks access nothing.
        if sp.0 != SpDistance::Unreached
            && let Some(operation) = access::unchecked(block, implied, sp)
        {
            return Err(failed(BlockId::at(index), Claim::Checked(operation)));
        }
    }
    let charges = [
        (unbalanced(function), Claim::Balanced),
        (cycles::lost(function, flow), Claim::Deferred),
        (search::unproved(function, &flow.cfg), Claim::Search),
    ];
    if let Some((block, claim)) = charges.into_iter().find_map(|(block, claim)| Some((block?, claim))) {
        return Err(failed(block, claim));
    }
    let mut loops = Vec::with_capacity(function.loops.len());
    for witness in &function.loops {
        let proved = Bounded::prove(function, &flow.cfg, witness, bounds);
        loops.push(proved.map_err(|error| failed(witness.header, Claim::Loop(error)))?);
    }
    let is_stray = |(id, block): &(BlockId, &Block)| block.is_bounded && flow.loop_of(*id).is_none();
    if let Some((header, _)) = (0..).map(BlockId).zip(&function.blocks).find(is_stray) {
        return Err(failed(header, Claim::Loop(LoopError::Flow)));
    }
    match unproved_check(function, flow, (executed, &loops), implied) {
        Some((block, operation)) => Err(failed(block, Claim::Proved(operation))),
        None => Ok(()),
    }
}

/// The first omitted check that neither earlier checks on all paths nor its loop's guard imply.
fn unproved_check(
    function: &Function,
    flow: &Flow,
    (executed, loops): (&[Executed], &[Bounded]),
    implied: ImpliedWindows,
) -> Option<(BlockId, usize)> {
    if executed.iter().all(|executed| executed.left_out.is_empty()) {
        return None;
    }
    let before = available::solve(function, &flow.cfg, executed, implied);
    for (position, block) in function.blocks.iter().enumerate() {
        let Some(before) = &before[position] else { continue };
        let number = BlockId::at(position);
        let own = flow.loop_of(number).map(|of| &loops[of]);
        for left_out in &executed[position].left_out {
            let operation = left_out.operation;
            let Op::Proved { access, base, low, high } = block.ops[operation] else { continue };
            let is_proved = left_out.known(before).hold(access, low, high)
                || own.is_some_and(|bounded| low < high && bounded.may(access, number, base, (low, high)));
            if !is_proved {
                return Some((number, operation));
            }
        }
    }
    None
}
