//! What libafl keeps of a fuzzing.

use libafl::{corpus::InMemoryCorpus, state::StdState};
use libafl_bolts::rands::StdRand;

use crate::FuzzInput;

/// What libafl keeps: inputs, random numbers, what was reached.
pub(crate) type State = StdState<InMemoryCorpus<FuzzInput>, FuzzInput, StdRand, InMemoryCorpus<FuzzInput>>;
