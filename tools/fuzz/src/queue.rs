//! Selects the next input: a recent one half of the time, otherwise any.

use std::num::NonZeroUsize;

use libafl::{
    Error,
    corpus::{Corpus, CorpusId},
    schedulers::Scheduler,
    state::{HasCorpus, HasRand},
};
use libafl_bolts::rands::Rand;

/// Number of inputs that count as recent.
const NEW: usize = 8;

/// Uses only the state's random numbers, and no clock as libafl's minimizing schedulers do: the same seed has
/// the same runs.
#[derive(Debug, Default)]
pub(crate) struct NewOrAny {
    added: Vec<CorpusId>,
}

impl<I, S: HasCorpus<I> + HasRand> Scheduler<I, S> for NewOrAny {
    fn on_add(&mut self, _state: &mut S, id: CorpusId) -> Result<(), Error> {
        self.added.push(id);
        Ok(())
    }

    fn next(&mut self, state: &mut S) -> Result<CorpusId, Error> {
        let count = self.added.len();
        let from = if state.rand_mut().below_or_zero(2) == 0 { count.saturating_sub(NEW) } else { 0 };
        let room = NonZeroUsize::new(count - from).ok_or_else(|| Error::empty("there is no input"))?;
        let id = self.added[from + state.rand_mut().below(room)];
        <Self as Scheduler<I, S>>::set_current_scheduled(self, state, Some(id))?;
        Ok(id)
    }

    fn set_current_scheduled(&mut self, state: &mut S, next_id: Option<CorpusId>) -> Result<(), Error> {
        *state.corpus_mut().current_mut() = next_id;
        Ok(())
    }
}
