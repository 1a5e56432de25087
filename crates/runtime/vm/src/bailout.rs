//! Why native code bailed out.

use antares_abi::{BailoutReason, NAMES_TARGET, PAST_TABLE, State};

/// The bailout reason, and the known facts about the jump target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bailout {
    pub(crate) reason: BailoutReason,
    pub(crate) target: Option<u64>,
    /// A jump went past the targets that its table lists.
    pub(crate) is_past_table: bool,
}

impl Bailout {
    /// Reads an unknown target from the state.
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
