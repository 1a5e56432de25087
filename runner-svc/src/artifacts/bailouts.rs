//! Bailouts: native code that bails out run after run. Its script then starts in the interpreter. Other
//! native code of the script, compiled with new hints, has another key and starts over.

use antares_abi::ArtifactKey;
use antares_pool::{EarlyBailouts, NativeEnd};
use antares_serve::Account;
use parking_lot::Mutex;

use crate::{artifacts::recent::Recent, limits::EARLY_LIBRARIES_MAX};

/// Libraries that ran, per tenant: one tenant's inputs slow down no other tenant.
#[derive(Debug, Default)]
pub(crate) struct Bailouts(Mutex<Recent<TenantsCode, EarlyBailouts, EARLY_LIBRARIES_MAX>>);

/// A library as one tenant runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TenantsCode {
    pub(crate) library: ArtifactKey,
    holder: [u8; 32],
}

impl TenantsCode {
    pub(crate) fn of(account: &Account, library: ArtifactKey) -> Self {
        Self { library, holder: account.owner() }
    }
}

impl Bailouts {
    /// Whether a run starts in the interpreter although this library is available.
    pub(crate) fn begins_interpreted(&self, runs: TenantsCode) -> bool {
        self.0.lock().get_mut(&runs).is_some_and(EarlyBailouts::begins_interpreted)
    }

    /// Records how a run with a library ended.
    pub(crate) fn record(&self, runs: TenantsCode, end: NativeEnd) {
        let mut known = self.0.lock();
        if end == NativeEnd::Unknown && known.get(&runs).is_none() {
            return;
        }
        let known = known.entry(runs);
        *known = known.after(end);
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Sha256Digest;

    use super::*;

    fn library(number: usize) -> TenantsCode {
        TenantsCode::of(&Account::nobody(), Sha256Digest::of(&number.to_le_bytes()))
    }

    #[test]
    fn a_thousand_honest_calls_among_a_thousand_hostile_ones() {
        let bailouts = Bailouts::default();
        let mut spared = 0;
        for call in 0..1000 {
            // Another tenant's runs fail, or bail out of native code and exit.
            let hostile = [NativeEnd::Unknown, NativeEnd::Left][call / 4 % 2];
            if !bailouts.begins_interpreted(library(0)) {
                bailouts.record(library(0), hostile);
            }
            if bailouts.begins_interpreted(library(0)) {
                spared += 1;
            } else {
                bailouts.record(library(0), NativeEnd::Whole);
            }
        }
        assert!(spared <= 10, "{spared}");
    }
}
