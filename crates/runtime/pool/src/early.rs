//! Native code that is left before its end, run after run, and cannot be helped by what runs teach: its
//! script begins in the interpreter, which would run all of it anyway. Now and then native code is tried
//! again, since other inputs may go elsewhere.
//!
//! What a caller makes a script do takes native code away from nobody: a run that ends in an error says
//! nothing, since native code went as far as the script did; and a library that has brought one run to its
//! end is tried in every run from then on. A run that leaves it costs a fraction more than one in the
//! interpreter, a run that is not tried costs many times as much.

use antares_hosted::job::{RunOutcome, RunReport};
use serde::{Deserialize, Serialize};

/// Runs that have left native code, none of which went on to its end, after which runs begin in the
/// interpreter.
pub const EARLY_RUNS_MIN: u32 = 4;

/// Of the runs that would begin in the interpreter, one in so many tries native code.
pub const EARLY_TRY_ONE_IN: u32 = 8;

/// What a run says of the native code that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NativeEnd {
    /// It ran to the script's end.
    Whole,
    /// It was left, and the script went on from there and exited.
    Left,
    /// Nothing: the script ended in an error or at a limit, or no native code ran.
    Unknown,
}

impl From<&RunReport> for NativeEnd {
    /// What ends in an error would have gone no further natively.
    fn from(report: &RunReport) -> Self {
        match (report.restarted, &report.outcome) {
            (None, _) if report.native_cycles > 0 => Self::Whole,
            (Some(_), RunOutcome::Exit(_)) => Self::Left,
            _ => Self::Unknown,
        }
    }
}

/// How the runs of a library went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyBailouts {
    /// Whether a run went to its end in it.
    was_whole: bool,
    /// Runs that were left.
    left: u32,
    /// Runs that began in the interpreter since.
    spared: u32,
}

impl EarlyBailouts {
    /// Bytes of [`Self::to_bytes`].
    pub const BYTES: usize = 9;

    /// Whether a run begins in the interpreter, which is counted.
    pub fn begins_interpreted(&mut self) -> bool {
        if self.was_whole || self.left < EARLY_RUNS_MIN {
            return false;
        }
        self.spared = self.spared.wrapping_add(1);
        !self.spared.is_multiple_of(EARLY_TRY_ONE_IN)
    }

    /// What is known after a run with the library.
    #[must_use]
    pub fn after(self, end: NativeEnd) -> Self {
        match end {
            NativeEnd::Whole => Self { was_whole: true, left: 0, spared: 0 },
            NativeEnd::Left if !self.was_whole => Self { left: self.left.saturating_add(1), ..self },
            NativeEnd::Left | NativeEnd::Unknown => self,
        }
    }

    /// As it is kept.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.left.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.spared.to_le_bytes());
        bytes[8] = self.was_whole.into();
        bytes
    }

    /// What was kept so; nothing is known of anything else.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (Some((left, rest)), Self::BYTES) = (bytes.split_first_chunk::<4>(), bytes.len()) else {
            return Self::default();
        };
        let Some((spared, flag)) = rest.split_first_chunk::<4>() else { return Self::default() };
        let (left, spared) = (u32::from_le_bytes(*left), u32::from_le_bytes(*spared));
        Self { was_whole: flag == [1], left, spared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ends: &[NativeEnd]) -> EarlyBailouts {
        ends.iter().fold(EarlyBailouts::default(), |known, end| known.after(*end))
    }

    #[test]
    fn what_is_left_again_and_again_is_tried_now_and_then() {
        let mut known = EarlyBailouts::default();
        for _ in 0..EARLY_RUNS_MIN {
            assert!(!known.begins_interpreted());
            known = known.after(NativeEnd::Left).after(NativeEnd::Unknown);
        }
        let tried = (0..4 * EARLY_TRY_ONE_IN).filter(|_| !known.begins_interpreted());
        assert_eq!(tried.count(), 4);
        assert!(!known.after(NativeEnd::Whole).begins_interpreted());
        assert_eq!(after(&[NativeEnd::Unknown; 99]), EarlyBailouts::default());
    }

    #[test]
    fn what_went_to_its_end_once_is_never_taken_away() {
        let mut known = after(&[&[NativeEnd::Whole][..], &[NativeEnd::Left; 1000]].concat());
        assert!((0..1000).all(|_| !known.begins_interpreted()));
    }

    #[test]
    fn strangers_before_the_first_whole_run_spare_few() {
        let mut known = after(&[NativeEnd::Left; 1000]);
        let mut spared = 0;
        for _ in 0..1000 {
            if known.begins_interpreted() { spared += 1 } else { known = known.after(NativeEnd::Whole) }
        }
        assert!(spared < 10, "{spared}");
    }

    #[test]
    fn it_is_kept_as_bytes() {
        for was_whole in [false, true] {
            let known = EarlyBailouts { was_whole, left: 5, spared: 70_000 };
            assert_eq!(EarlyBailouts::from_bytes(&known.to_bytes()), known);
        }
        for bytes in [&[][..], &[1; 7], &[1; 8], &[1; 10]] {
            assert_eq!(EarlyBailouts::from_bytes(bytes), EarlyBailouts::default());
        }
    }
}
