//! How functions are called: which guest registers are passed in host registers, and which through the state.

use antares_ir as ir;
use antares_program::{Reg, RegSet};

/// Guest registers that a function returns in host registers beside the cycles left; x86_regcallcc returns
/// eleven values in registers, and a twelfth would send all of them through memory.
const RESULTS_IN_REGISTERS_MAX: usize = 10;

/// Where functions are passed and pass back more registers than this on average, most go through the state.
const PASSED_MAX: usize = 20;

/// Which guest registers are passed in host registers where functions are called and return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// As many as there are host registers for.
    All,
    /// Arguments, `sp` and the link. All others are in the state wherever a function begins or ends, so that
    /// a function that neither reads nor writes one of them has nothing to do with it, whatever it calls.
    Arguments,
}

impl Convention {
    /// The one for these functions.
    #[must_use]
    pub fn of(functions: &[ir::Function]) -> Self {
        let passed = functions.iter().map(|function| function.params.len() + function.results.len());
        if passed.sum::<usize>() > PASSED_MAX * functions.len() { Self::Arguments } else { Self::All }
    }
}

/// How a function is called.
pub(crate) struct Signature {
    /// Guest registers in parameter order.
    pub(crate) params: Vec<Reg>,
    /// Parameters through the state.
    pub(crate) in_state: Vec<Reg>,
    /// Results in host registers, in order.
    pub(crate) results: Vec<Reg>,
    /// Results through the state.
    pub(crate) overflow: Vec<Reg>,
}

impl Signature {
    /// How `function` is called.
    pub(crate) fn of(function: &ir::Function, convention: Convention) -> Self {
        let is_argument = |register: &Reg| arguments(function, convention).has(*register);
        let (params, in_state) = function.params.iter().partition(is_argument);
        let is_first = |register: &Reg| (10..=11).contains(&register.0);
        let is_result =
            |register: &Reg| convention == Convention::All || is_first(register) || *register == Reg::SP;
        let (mut results, mut overflow): (Vec<Reg>, Vec<Reg>) = function.results.iter().partition(is_result);
        // a0 and a1 first: they are read at once by most callers.
        results.sort_by_key(|register| (!is_first(register), register.0));
        overflow.extend(results.split_off(results.len().min(RESULTS_IN_REGISTERS_MAX)));
        Self { params, in_state, results, overflow }
    }
}

/// The registers that `function` has in host registers whatever it does with them, if it is passed them.
pub(crate) fn arguments(function: &ir::Function, convention: Convention) -> RegSet {
    match convention {
        Convention::All => RegSet::ALL,
        Convention::Arguments => (10..=15).map(Reg).fold(RegSet::of(&[Reg::SP, function.link]), RegSet::with),
    }
}
