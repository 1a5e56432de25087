//! Native code that is left before its end, run after run, and cannot be helped by what runs teach: its script begins in the interpreter,
//! which would run all of it anyway. Now and then native code is tried again, since other inputs may go elsewhere.

/// Runs in a row whose native code was left before its end, after which runs begin in the interpreter.
pub const EARLY_RUNS_MIN: u32 = 4;

/// Of the runs that would begin in the interpreter, one in so many tries native code.
pub const EARLY_TRY_ONE_IN: u32 = 16;

/// How the last runs of a library went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftEarly {
    /// Runs in a row that were left.
    left: u32,
    /// Runs that began in the interpreter since.
    spared: u32,
}

impl LeftEarly {
    /// Whether a run begins in the interpreter, which is counted.
    pub fn begins_interpreted(&mut self) -> bool {
        if self.left < EARLY_RUNS_MIN {
            return false;
        }
        self.spared = self.spared.wrapping_add(1);
        !self.spared.is_multiple_of(EARLY_TRY_ONE_IN)
    }

    /// What is known after a run with the library, which had to begin again for this reason, if it had to; none if there is nothing to
    /// remember. A limit of cycles says nothing of the library.
    #[must_use]
    pub fn after(self, restarted: Option<&str>) -> Option<Self> {
        match restarted {
            Some("out_of_cycles") => Some(self).filter(|known| known.left > 0),
            None => None,
            Some(_) => Some(Self { left: self.left.saturating_add(1), ..self }),
        }
    }

    /// As it is kept.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        (u64::from(self.left) | u64::from(self.spared) << 32).to_le_bytes()
    }

    /// What was kept so; nothing is known of anything else.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let Some((left, spared)) = bytes.split_first_chunk::<4>() else { return Self::default() };
        let Ok(spared) = spared.try_into() else { return Self::default() };
        Self { left: u32::from_le_bytes(*left), spared: u32::from_le_bytes(spared) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_again_and_again_is_tried_now_and_then() {
        let mut known = LeftEarly::default();
        for _ in 0..EARLY_RUNS_MIN {
            assert!(!known.begins_interpreted());
            known = known.after(Some("unknown_target")).unwrap();
            known = known.after(Some("out_of_cycles")).unwrap();
        }
        let tried = (0..4 * EARLY_TRY_ONE_IN).filter(|_| !known.begins_interpreted());
        assert_eq!(tried.count(), 4);
        assert_eq!(known.after(None), None);
        assert_eq!(LeftEarly::default().after(Some("out_of_cycles")), None);
    }

    #[test]
    fn it_is_kept_as_bytes() {
        let known = LeftEarly { left: 5, spared: 70_000 };
        assert_eq!(LeftEarly::from_bytes(&known.to_bytes()), known);
        for bytes in [&[][..], &[1; 7], &[1; 9]] {
            assert_eq!(LeftEarly::from_bytes(bytes), LeftEarly::default());
        }
    }
}
