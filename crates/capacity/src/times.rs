//! Times as they are spread, and all of them that a cluster is made of.

/// Times in their order; any share of them is as long as it says, or shorter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times(Vec<f64>);

impl Times {
    /// Of `times`, in any order.
    #[must_use]
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        Self(times)
    }

    /// What `share` of them do not pass, from 0 to 1; between two that were measured, what lies between.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a length")]
    pub fn at(&self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return 0.0 };
        let place = share.clamp(0.0, 1.0) * last as f64;
        let below = (place as usize).min(last);
        let (low, high) = (self.0[below], self.0[(below + 1).min(last)]);
        low + (high - low) * (place - below as f64)
    }

    /// Their mean; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The same spread around another mean.
    #[must_use]
    pub fn with_mean(&self, mean: f64) -> Self {
        let factor = mean / self.mean();
        Self(self.0.iter().map(|time| time * factor).collect())
    }
}

/// All that a cluster is made of, microseconds of processor time where nothing else is said.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// What calls take of a runner and its workers: their share of all calls, and their times.
    pub calls: Vec<(f64, Times)>,
    /// What a compiler takes to hand out an artifact.
    pub get_us: Times,
    /// How long the object store takes where the compiler has not got it; wall time.
    pub store_us: Times,
    /// A baseline compile.
    pub compile_us: Times,
    /// The full compile behind it.
    pub full_us: Times,
    /// Lengths of artifacts, bytes.
    pub artifact_bytes: Times,
}

impl Measured {
    /// What a call takes: which script it is for is drawn by `which`, and how long that takes by `share`.
    #[must_use]
    pub fn call(&self, which: f64, share: f64) -> f64 {
        let mut left = which;
        for (part, times) in &self.calls {
            if left < *part {
                return times.at(share);
            }
            left -= part;
        }
        self.calls.last().map_or(0.0, |(_, times)| times.at(share))
    }

    /// What a call takes in the mean.
    #[must_use]
    pub fn call_mean_us(&self) -> f64 {
        self.calls.iter().map(|(part, times)| part * times.mean()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_times_lies_what_lies_between() {
        let times = Times::of((0..=1_000).map(f64::from).rev().collect());
        assert_eq!(
            [times.at(0.0), times.at(0.5), times.at(0.9995), times.at(1.0)],
            [0.0, 500.0, 999.5, 1_000.0]
        );
        assert!((times.at(0.37) - 370.0).abs() < 1e-6 && (times.mean() - 500.0).abs() < 1e-6);
        assert!((times.with_mean(10.0).at(0.5) - 10.0).abs() < 1e-9);
        assert_eq!((Times::default().at(0.5), Times::default().mean()), (0.0, 0.0));
    }

    #[test]
    fn a_call_is_of_the_script_that_was_drawn() {
        let one = |time: f64| Times::of(vec![time]);
        let measured = Measured { calls: vec![(0.3, one(1.0)), (0.7, one(2.0))], ..Measured::default() };
        assert_eq!([0.0, 0.29, 0.31, 0.9999999].map(|which| measured.call(which, 0.5)), [1.0, 1.0, 2.0, 2.0]);
        assert!((measured.call_mean_us() - 1.7).abs() < 1e-9);
    }
}
