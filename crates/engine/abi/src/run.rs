//! The parameters of a run: the tiers that may run it, and the defaults.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// Default maximum size of a script in bytes.
pub const SCRIPT_BYTES_MAX: u64 = 16 << 20;
/// Default maximum size of a stored or loaded shared object in bytes.
pub const LIBRARY_BYTES_MAX: u64 = 64 << 20;
/// Default cycle limit: CKB's limit for all scripts of one block together.
pub const CYCLES_MAX_DEFAULT: u64 = 3_500_000_000;
/// Default wall time of a run in milliseconds.
pub const DEADLINE_MS_DEFAULT: u64 = 60_000;
/// Default maximum of debug output to retain from a run, in bytes.
pub const DEBUG_BYTES_MAX: u64 = 1 << 20;

/// The tiers that may run a script.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, IntoStaticStr,
)]
#[strum(serialize_all = "snake_case", const_into_str)]
#[strum(parse_err_ty = TierParseError, parse_err_fn = unknown)]
pub enum Tier {
    /// Native code if available, ckb-vm's interpreter for the rest.
    #[default]
    Auto,
    /// Like [`Tier::Auto`], but missing or unsuitable native code at the start is an error.
    Native,
    /// Only ckb-vm's interpreter.
    Interpreter,
}

impl Tier {
    /// All tiers.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Native, Self::Interpreter];

    /// Name for command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into_str()
    }
}

/// A text that names no tier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tier {found:?}; they are {}", Tier::ALL.map(Tier::name).join(", "))]
pub struct TierParseError {
    /// The text.
    pub found: String,
}

fn unknown(text: &str) -> TierParseError {
    TierParseError { found: text.to_owned() }
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
