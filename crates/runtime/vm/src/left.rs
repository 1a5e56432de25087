//! Why native code was left for good.

use antares_abi::{LeaveReason, NAMES_TARGET, PAST_TABLE, State};

/// Why native code was left, and what is known of where it was about to go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) reason: LeaveReason,
    pub(crate) target: Option<u64>,
    /// The jump goes nowhere else than to what it lists.
    pub(crate) is_past_table: bool,
}

impl Left {
    /// What the state says of an unknown target.
    pub(crate) fn of(state: &State) -> Self {
        let flag = u8::try_from(state.is_complete).unwrap_or(0);
        let target = (flag == NAMES_TARGET || flag == PAST_TABLE).then_some(state.pc);
        Self { reason: LeaveReason::UnknownTarget, target, is_past_table: flag == PAST_TABLE }
    }
}

impl From<LeaveReason> for Left {
    fn from(reason: LeaveReason) -> Self {
        Self { reason, target: None, is_past_table: false }
    }
}
