//! Landlock with nothing allowed: no file, no TCP port, no abstract socket, no signal to the outside.

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};

use crate::{Layer, LayerStatus};

/// Newest kernel interface that is asked for; an older kernel gives what it has.
const ABI_WANTED: ABI = ABI::V9;

/// Puts the calling process into a new Landlock domain. What is already open stays usable. Memory files can still be
/// opened through `/proc/self/fd`: Landlock does not watch kernel-internal file systems.
pub(crate) fn restrict() -> LayerStatus {
    let (active, detail) = match restrict_self() {
        Ok(status) => (status.ruleset != RulesetStatus::NotEnforced, describe(&status)),
        Err(error) => (false, error.to_string()),
    };
    LayerStatus { layer: Layer::Landlock, active, detail }
}

fn restrict_self() -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_WANTED))?
        .handle_access(AccessNet::from_all(ABI_WANTED))?
        .scope(Scope::from_all(ABI_WANTED))?
        .create()?
        .restrict_self()
}

fn describe(status: &RestrictionStatus) -> String {
    match status.landlock {
        LandlockStatus::NotEnabled => "not enabled when the kernel was booted".to_owned(),
        LandlockStatus::NotImplemented => "not in this kernel".to_owned(),
        LandlockStatus::Available { effective_abi, .. } => format!("ABI {}", effective_abi as i32),
    }
}
