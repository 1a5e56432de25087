//! Calling conventions: the guest registers passed in host registers, and those passed through the state.

use antares_ir as ir;
use antares_program::{Reg, RegSet};

/// Maximum guest registers that a function returns in host registers, in addition to the cycles left.
/// x86_regcallcc returns eleven values in registers; a twelfth would move all of them to memory.
const RESULTS_IN_REGISTERS_MAX: usize = 10;

/// Mean params plus results of functions above which most registers go through the state.
const PASSED_MAX: usize = 20;

/// The guest registers passed in host registers at calls and returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// As many as there are host registers.
    All,
    /// Arguments, `sp` and the link. All others are in the state whenever a function begins or ends. A
    /// function that does not use one of them need not move it, whatever it calls.
    Arguments,
}

impl Convention {
    /// The better convention for these functions.
    #[must_use]
    pub fn of(functions: &[ir::Function]) -> Self {
        let passed = functions.iter().map(|function| function.params.len() + function.results.len());
        if passed.sum::<usize>() > PASSED_MAX * functions.len() { Self::Arguments } else { Self::All }
    }
}

pub(crate) struct Signature {
    /// Guest registers in parameter order.
    pub(crate) params: Vec<Reg>,
    /// Parameters through the state.
    pub(crate) in_state: RegSet,
    /// Results in host registers, in order.
    pub(crate) results: Vec<Reg>,
    /// Results through the state.
    pub(crate) overflow: Vec<Reg>,
}

impl Signature {
    pub(crate) fn of(function: &ir::Function, convention: Convention) -> Self {
        let arguments = arguments(function, convention);
        let in_state = function.params.minus(arguments);
        let params = function.params.and(arguments).iter().collect();
        let is_first = |register: &Reg| (10..=11).contains(&register.0);
        let is_result =
            |register: &Reg| convention == Convention::All || is_first(register) || *register == Reg::SP;
        let (mut results, mut overflow): (Vec<Reg>, Vec<Reg>) = function.results.iter().partition(is_result);
        // a0 and a1 come first: most callers read them immediately.
        results.sort_by_key(|register| (!is_first(register), register.0));
        overflow.extend(results.split_off(results.len().min(RESULTS_IN_REGISTERS_MAX)));
        Self { params, in_state, results, overflow }
    }
}

/// The registers that `function` holds in host registers if it takes them as params.
pub(crate) fn arguments(function: &ir::Function, convention: Convention) -> RegSet {
    match convention {
        Convention::All => RegSet::ALL,
        Convention::Arguments => (10..=15).map(Reg).fold(RegSet::of(&[Reg::SP, function.link]), RegSet::with),
    }
}
