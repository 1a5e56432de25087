//! A profile with what names it.

use std::collections::BTreeMap;

use antares_profile::Profile;
use antares_profile_view::Programs;

/// A profile, what names its addresses, and how the run ended.
pub struct Profiled {
    pub profile: Profile,
    pub programs: Programs,
    pub labels: BTreeMap<String, String>,
    /// One line for people.
    pub outcome: String,
    /// How it ended, in a few words that are always the same; empty if that is not known.
    pub ending: String,
    /// Bytes of the script, or of the programs among a transaction's cells.
    pub size_bytes: u64,
}
