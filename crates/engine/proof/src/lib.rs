//! The semantic verifier: every check that is left out holds, every charge that is moved comes to the same,
//! and the cycle limit is checked in time. It shares no transfer function with what left them out: it cannot
//! see the passes. It is written to be read.
//!
//! * Accesses that a check in their block covers, or that of the stack frame at the entry: `access`, `frame`.
//! * Checks that earlier ones imply, over all paths: `available`.
//! * Checks that a guard has made for all iterations of a loop: `versioned`, from what it compares (`guard`)
//!   and what one iteration does (`iteration`), as sums modulo 2^64 (`modular`).
//! * Charges and cycle-limit checks: `cycles`; charges of loops that are left out: `search`, on bits that are
//!   known (`bits`).
//!
//! All but `available`, which has a limit of visits for each block, goes over operations, edges (`flow`) and
//! bounded loops once.
#![forbid(unsafe_code)]

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

/// What a module claims and its verifier cannot prove. This is our mistake, never the input's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{function} {block}: {claim}")]
pub struct ProofError {
    /// Function.
    pub function: FunctionId,
    /// Block; of a loop the header of its bounded version.
    pub block: BlockId,
    /// What is not shown.
    pub claim: Claim,
}

/// What modules claim, as it is said where it is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Claim {
    /// It breaks a rule of its form.
    #[error("{0}")]
    Form(FormRule),
    /// A check is before the memory access that the operation of this index makes.
    #[error("operation {0} has no address check before it")]
    Checked(usize),
    /// `sp` is given back.
    #[error("sp does not come back")]
    Frame,
    /// The address check of this index is left out, since all that comes before has seen to it.
    #[error("operation {0} is not proved")]
    Proved(usize),
    /// A bounded loop is what its witness says.
    #[error("bounded loop: {0}")]
    Loop(LoopError),
    /// What was charged is what was used, whichever path led here.
    #[error("charges are not balanced")]
    Balanced,
    /// A deferred charge is made.
    #[error("a deferred charge is lost")]
    Deferred,
    /// The loop that the block is there instead of would have used what is charged.
    #[error("the charge of a search is not proved")]
    Search,
    /// The cycle limit is checked in every cycle of the control flow, and before the function is left.
    #[error("the cycle limit is not checked")]
    Limited,
}

impl From<VerifyError> for ProofError {
    fn from(VerifyError { function, block, rule }: VerifyError) -> Self {
        Self { function, block, claim: Claim::Form(rule) }
    }
}

/// What the verifiers say against `module`, which is ready for a generator: one thing for each function, or
/// what is wrong with its form.
#[must_use]
pub fn refused(module: &Module) -> Vec<ProofError> {
    match antares_ir::verify(module) {
        Ok(()) => unproved(module, true),
        Err(error) => vec![error.into()],
    }
}

/// The same of a module between passes: signatures, cycle-limit checks and what is known of `sp` may not be
/// there yet.
#[must_use]
pub fn refused_between_passes(module: &Module) -> Vec<ProofError> {
    match antares_ir::verify_unsigned(module) {
        Ok(()) => unproved(module, false),
        Err(error) => vec![error.into()],
    }
}

/// What `module`, whose form is right, claims and does not show; if it `is_finished`, of all that it claims.
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

/// What is true of a function when all passes have run.
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
        // Where no path leads nothing is accessed.
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

/// The first check that is left out although neither checks that come before on all paths show that it holds
/// nor the guard of its loop.
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
