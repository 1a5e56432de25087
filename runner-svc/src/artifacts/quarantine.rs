//! Native code that is not run any more: while it ran, its worker broke a rule of the fence. Its generator is
//! wrong about it, or somebody got out of its script; either way the script runs in the interpreter, until
//! the service is started anew or the engine is another one.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use antares_abi::ArtifactKey;

/// Keys that are remembered; beyond that the oldest is forgotten. One would be too many already.
const KEYS_MAX: usize = 65_536;

/// Keys of native code that nobody gets.
#[derive(Debug, Default)]
pub(crate) struct Quarantine(Mutex<VecDeque<ArtifactKey>>);

impl Quarantine {
    /// Takes all of `keys` out of use: which one of a transaction's is to blame is not known.
    pub(crate) fn add(&self, keys: &[ArtifactKey], detail: &str) {
        let mut barred = self.barred();
        for key in keys {
            if barred.contains(key) {
                continue;
            }
            tracing::error!(%key, detail, "native code is in quarantine; its script is interpreted");
            if barred.len() == KEYS_MAX {
                barred.pop_front();
            }
            barred.push_back(*key);
        }
    }

    pub(crate) fn has(&self, key: ArtifactKey) -> bool {
        self.barred().contains(&key)
    }

    pub(crate) fn len(&self) -> u64 {
        self.barred().len() as u64
    }

    fn barred(&self) -> MutexGuard<'_, VecDeque<ArtifactKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Sha256Digest;

    use super::*;

    fn key(number: u32) -> ArtifactKey {
        Sha256Digest::of(&number.to_le_bytes())
    }

    #[test]
    fn keys_stay_in_quarantine() {
        let quarantine = Quarantine::default();
        quarantine.add(&[key(1), key(2), key(1)], "a test");
        quarantine.add(&[key(1)], "a test");
        assert!(quarantine.has(key(1)) && quarantine.has(key(2)) && !quarantine.has(key(3)));
        assert_eq!(quarantine.len(), 2);
        let many: Vec<ArtifactKey> = (0..=u32::try_from(KEYS_MAX).unwrap()).map(|_| key(9)).collect();
        quarantine.add(&many, "a test");
        assert_eq!(quarantine.len(), 3);
    }
}
