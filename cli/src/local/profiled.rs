//! A profile with its symbols.

use std::collections::BTreeMap;

use antares_profile::Profile;
use antares_profile_view::Programs;

/// A profile, its symbols, and the outcome of the run.
pub struct Profiled {
    pub profile: Profile,
    pub programs: Programs,
    pub labels: BTreeMap<String, String>,
    /// One line about the outcome, for people.
    pub outcome: String,
    /// The outcome in a few constant words; empty if unknown.
    pub ending: String,
    /// Bytes of the script, or of the programs among a transaction's cells.
    pub size_bytes: u64,
}
