//! Why native code was left for good.

use antares_abi::{BailoutReason, NAMES_TARGET, PAST_TABLE, State};

/// Why native code was left, and what is known of where it was about to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bailout {
    pub(crate) reason: BailoutReason,
    pub(crate) target: Option<u64>,
    /// The jump goes nowhere else than to what it lists.
    pub(crate) is_past_table: bool,
}

impl Bailout {
    /// What the state says of an unknown target.
    pub(crate) fn of(state: &State) -> Self {
        let flag = u8::try_from(state.is_complete).unwrap_or(0);
        let target = (flag == NAMES_TARGET || flag == PAST_TABLE).then_some(state.pc);
        Self { reason: BailoutReason::UnknownTarget, target, is_past_table: flag == PAST_TABLE }
    }
}

impl From<BailoutReason> for Bailout {
    fn from(reason: BailoutReason) -> Self {
        Self { reason, target: None, is_past_table: false }
    }
}
