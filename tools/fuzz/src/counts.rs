//! Coverage for the corpus: counters in classes, and the classes reached so far.

/// The reached classes of each counter, one bit each.
#[derive(Debug)]
pub(crate) struct Reached {
    classes: Vec<u8>,
    /// Counters that were ever nonzero.
    pub(crate) edges: u64,
}

impl Reached {
    pub(crate) fn new(counters: usize) -> Self {
        Self { classes: vec![0; counters], edges: 0 }
    }

    /// Adds the counters of a run; returns whether they are new. Skips zeros eight at a time, because most
    /// are zero. libafl's feedback looks at each, which takes longer than most scripts.
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

/// Classes 1, 2, 3, 4 to 7, 8 to 15, up to 31, up to 127, more, as in afl: one more pass of a loop is not
/// always new.
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
