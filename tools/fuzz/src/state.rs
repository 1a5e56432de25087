//! The fuzzing state in libafl.

use libafl::{corpus::InMemoryCorpus, state::StdState};
use libafl_bolts::rands::StdRand;

use crate::FuzzInput;

/// libafl's state: inputs, random numbers, coverage.
pub(crate) type State = StdState<InMemoryCorpus<FuzzInput>, FuzzInput, StdRand, InMemoryCorpus<FuzzInput>>;
