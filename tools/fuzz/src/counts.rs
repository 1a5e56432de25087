//! Counters as the corpus sees them: how often, in classes; and which classes were reached so far.

use std::{borrow::Cow, cell::Cell, rc::Rc};

use libafl::{
    Error,
    executors::ExitKind,
    feedbacks::{Feedback, StateInitializer},
};
use libafl_bolts::Named;

/// What was reached: for each counter the classes that it had, one bit each.
#[derive(Debug)]
pub(crate) struct Reached {
    classes: Vec<u8>,
    /// Counters that were ever more than zero.
    pub(crate) edges: u64,
}

impl Reached {
    pub(crate) fn new(counters: usize) -> Self {
        Self { classes: vec![0; counters], edges: 0 }
    }

    /// Adds what a run has counted; whether some of it is news. Most counters of a run are zero, and eight of
    /// them are passed over at once.
    pub(crate) fn add(&mut self, counted: &[u8]) -> bool {
        let mut is_news = false;
        let (counted, _) = counted.as_chunks::<8>();
        let (classes, _) = self.classes.as_chunks_mut::<8>();
        for (counts, classes) in counted.iter().zip(classes) {
            if u64::from_ne_bytes(*counts) == 0 {
                continue;
            }
            for (count, known) in counts.iter().zip(classes) {
                let class = class_of(*count);
                if class & !*known != 0 {
                    is_news = true;
                    self.edges += u64::from(*known == 0);
                    *known |= class;
                }
            }
        }
        is_news
    }
}

/// 1, 2, 3, 4 to 7, 8 to 15, up to 31, up to 127, more: as afl has them, so that a loop that goes once more
/// is not always news.
fn class_of(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        128.. => 128,
    }
}

/// Tells libafl whether the last run is news. Its own feedback goes over all counters one by one, which takes
/// longer than most scripts.
#[derive(Clone, Debug, Default)]
pub(crate) struct News(pub(crate) Rc<Cell<bool>>);

impl Named for News {
    fn name(&self) -> &Cow<'static, str> {
        static NAME: Cow<'static, str> = Cow::Borrowed("counters");
        &NAME
    }
}

impl<S> StateInitializer<S> for News {}

impl<EM, I, OT, S> Feedback<EM, I, OT, S> for News {
    fn is_interesting(&mut self, _: &mut S, _: &mut EM, _: &I, _: &OT, _: &ExitKind) -> Result<bool, Error> {
        Ok(self.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_news_once_for_each_class() {
        let mut reached = Reached::new(16);
        let mut run = [0; 16];
        assert!(!reached.add(&run));
        run[9] = 1;
        assert!(reached.add(&run) && !reached.add(&run));
        run[9] = 4;
        assert!(reached.add(&run));
        run[9] = 7;
        assert!(!reached.add(&run));
        run[15] = 255;
        assert!(reached.add(&run));
        assert_eq!(reached.edges, 2);
    }
}
