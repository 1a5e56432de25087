//! How much of everything.

use serde::Serialize;

/// Names of the amounts, in their order: columns, and keys of JSON.
pub const NAMES: [&str; 9] = [
    "calls",
    "refused_calls",
    "sent_bytes",
    "runs",
    "guest_cycles",
    "run_us",
    "compiles",
    "compile_us",
    "stored_bytes",
];

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Calls that ended, health checks aside.
    pub calls: u64,
    /// Of these, such that were refused: for a quota, for want of room, or for who called.
    pub refused_calls: u64,
    /// Bytes of answers.
    pub sent_bytes: u64,
    /// Runs of scripts and verifications of transactions that had a worker.
    pub runs: u64,
    /// Guest cycles that workers told. A run that told none has none here.
    pub guest_cycles: u64,
    /// Time of run workers, microseconds.
    pub run_us: u64,
    /// Compiles.
    pub compiles: u64,
    /// Time of compile workers, microseconds.
    pub compile_us: u64,
    /// Bytes of scripts that were newly stored.
    pub stored_bytes: u64,
}

impl Amounts {
    /// All of them, in the order of [`NAMES`].
    #[must_use]
    pub fn values(&self) -> [u64; NAMES.len()] {
        [
            self.calls,
            self.refused_calls,
            self.sent_bytes,
            self.runs,
            self.guest_cycles,
            self.run_us,
            self.compiles,
            self.compile_us,
            self.stored_bytes,
        ]
    }

    /// The same way back.
    #[must_use]
    pub fn of(values: [u64; NAMES.len()]) -> Self {
        let [
            calls,
            refused_calls,
            sent_bytes,
            runs,
            guest_cycles,
            run_us,
            compiles,
            compile_us,
            stored_bytes,
        ] = values;
        Self {
            calls,
            refused_calls,
            sent_bytes,
            runs,
            guest_cycles,
            run_us,
            compiles,
            compile_us,
            stored_bytes,
        }
    }

    /// Adds `more`; what would not fit stays at the highest number.
    pub fn add(&mut self, more: &Self) {
        let mut sums = self.values();
        sums.iter_mut().zip(more.values()).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        *self = Self::of(sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_fields_in_their_order() {
        let values = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let amounts = Amounts::of(values);
        assert_eq!(amounts.values(), values);
        let json = serde_json::to_value(amounts).unwrap();
        for (name, value) in NAMES.iter().zip(values) {
            assert_eq!(json[name], value, "{name}");
        }
        let mut sum = amounts;
        sum.add(&Amounts { calls: u64::MAX, ..amounts });
        assert_eq!((sum.calls, sum.stored_bytes), (u64::MAX, 18));
    }
}
