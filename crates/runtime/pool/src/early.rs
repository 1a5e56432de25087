//! Detects native code that repeatedly bails out, and that learning from runs cannot improve. Its script starts
//! in the interpreter, which would run all of it anyway. Occasional runs retry native code, because other
//! inputs may take other paths.
//!
//! A caller's inputs cannot disable native code for others. A run that ends in an error does not count, since
//! native code ran as far as the script did. A library that has completed one run is used in every later run. A
//! run that bails out costs slightly more than an interpreted one, but a run without native code costs many
//! times as much.

use antares_hosted::job::{RunOutcome, RunReport};
use serde::{Deserialize, Serialize};

/// Bailouts, without a completed native run, after which runs start in the interpreter.
pub const EARLY_RUNS_MIN: u32 = 4;

/// One in this many of these runs retries native code.
pub const EARLY_TRY_ONE_IN: u32 = 8;

/// Result of a run for its native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NativeEnd {
    /// Native code ran to the script's end.
    Whole,
    /// Native code bailed out, and the script then exited.
    Left,
    /// Unknown: the script ended in an error or at a limit, or no native code ran.
    Unknown,
}

impl From<&RunReport> for NativeEnd {
    /// Native code would not have run beyond the error.
    fn from(report: &RunReport) -> Self {
        match (report.restarted, &report.outcome) {
            (None, _) if report.native_cycles > 0 => Self::Whole,
            (Some(_), RunOutcome::Exit(_)) => Self::Left,
            _ => Self::Unknown,
        }
    }
}

/// Statistics of a library's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyBailouts {
    /// Whether native code completed a run.
    was_whole: bool,
    /// Number of bailouts.
    left: u32,
    /// Runs since then that started in the interpreter.
    spared: u32,
}

impl EarlyBailouts {
    /// Bytes of [`Self::to_bytes`].
    pub const BYTES: usize = 9;

    /// Whether the next run starts in the interpreter; counts the run.
    pub fn begins_interpreted(&mut self) -> bool {
        if self.was_whole || self.left < EARLY_RUNS_MIN {
            return false;
        }
        self.spared = self.spared.wrapping_add(1);
        !self.spared.is_multiple_of(EARLY_TRY_ONE_IN)
    }

    /// The statistics after a run with the library.
    #[must_use]
    pub fn after(self, end: NativeEnd) -> Self {
        match end {
            NativeEnd::Whole => Self { was_whole: true, left: 0, spared: 0 },
            NativeEnd::Left if !self.was_whole => Self { left: self.left.saturating_add(1), ..self },
            NativeEnd::Left | NativeEnd::Unknown => self,
        }
    }

    /// Serializes the statistics.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.left.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.spared.to_le_bytes());
        bytes[8] = self.was_whole.into();
        bytes
    }

    /// Parses serialized statistics; empty for other bytes.
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
