//! What a run is asked for: which tiers may make it, and what is usual.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Longest script, bytes, where nobody says otherwise.
pub const SCRIPT_BYTES_MAX: u64 = 16 << 20;
/// Longest shared object that is kept or taken, bytes, where nobody says otherwise.
pub const LIBRARY_BYTES_MAX: u64 = 64 << 20;
/// Cycle limit where nobody names one, cycles: what CKB allows all scripts of one block together.
pub const CYCLES_MAX_DEFAULT: u64 = 3_500_000_000;
/// Wall time of a run where nobody names one, milliseconds.
pub const DEADLINE_MS_DEFAULT: u64 = 60_000;
/// Debug output of a run that is kept, bytes, where nobody says otherwise.
pub const DEBUG_BYTES_MAX: u64 = 1 << 20;

/// Which tiers may run a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tier {
    /// Native code where there is some, ckb-vm's interpreter for the rest.
    #[default]
    Auto,
    /// As [`Tier::Auto`], but never started without native code: where it is missing or unsuitable, that is
    /// an error.
    Native,
    /// ckb-vm's interpreter alone.
    Interpreter,
}

impl Tier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Native, Self::Interpreter];

    /// Name for command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Interpreter => "interpreter",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no tier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tier {found:?}; they are {}", Tier::ALL.map(Tier::name).join(", "))]
pub struct TierParseError {
    /// The text.
    pub found: String,
}

impl FromStr for Tier {
    type Err = TierParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|tier| tier.name() == text);
        found.ok_or_else(|| TierParseError { found: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tiers_round_trip() {
        for tier in Tier::ALL {
            assert_eq!(tier.to_string().parse(), Ok(tier));
        }
        assert!("moon".parse::<Tier>().is_err());
    }
}
