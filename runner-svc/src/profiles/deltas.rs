//! Runs since each profile reader's last request, so that a scraper can add up the answers.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;

use crate::{
    limits::PROFILE_PENDING_MAX,
    profiles::entry::{DecodedSamples, Entry, OTHER_TENANTS, ProfileKey, RunCycles, entry_of},
};

/// Concurrent readers.
pub(crate) const READERS_MAX: usize = 4;

/// A reader and its selection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reader {
    pub(crate) name: String,
    pub(crate) tenant: Option<String>,
    pub(crate) script: Option<Sha256Digest>,
}

impl Reader {
    /// Whether the reader's selection includes a run.
    pub(crate) fn wants(&self, key: &ProfileKey) -> bool {
        self.tenant.as_deref().is_none_or(|tenant| &*key.tenant == tenant)
            && (self.script.is_none() || self.script == key.script)
    }
}

#[derive(Debug)]
struct Since {
    asked: Instant,
    entries: BTreeMap<ProfileKey, Entry>,
}

/// The readers, each with its pending profiles.
#[derive(Debug, Default)]
pub(crate) struct Deltas(BTreeMap<Reader, Since>);

impl Deltas {
    /// Adds a run for all readers that select it. A run without its own slot counts with the rest.
    pub(crate) fn add(&mut self, key: &ProfileKey, sampled: Option<&DecodedSamples>, run: RunCycles<'_>) {
        for (_, since) in self.0.iter_mut().filter(|(reader, _)| reader.wants(key)) {
            let is_full = since.entries.len() >= PROFILE_PENDING_MAX && !since.entries.contains_key(key);
            let rest = ProfileKey { tenant: Arc::from(OTHER_TENANTS), script: None };
            entry_of(&mut since.entries, if is_full { &rest } else { key }).add(sampled, run);
        }
    }

    /// Runs since `reader`'s last request; none if it is new or was dropped.
    pub(crate) fn take(&mut self, reader: &Reader, now: Instant) -> Option<BTreeMap<ProfileKey, Entry>> {
        let since = self.0.get_mut(reader)?;
        since.asked = now;
        Some(std::mem::take(&mut since.entries))
    }

    /// Starts to record for `reader`; false if too many readers sent requests within `keep`.
    pub(crate) fn begin(&mut self, reader: Reader, now: Instant, keep: Duration) -> bool {
        self.0.retain(|_, since| now.saturating_duration_since(since.asked) <= keep);
        let has_room = self.0.len() < READERS_MAX;
        if has_room {
            self.0.insert(reader, Since { asked: now, entries: BTreeMap::new() });
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::store::{ProfileStore, tests::key};

    fn run(cycles: u64) -> RunCycles<'static> {
        RunCycles { samples: None, cycles, native_cycles: 0 }
    }

    #[test]
    fn what_readers_get_adds_up() {
        let store = ProfileStore::new(Duration::from_secs(60), false);
        let reader = |name: &str| Reader { name: name.to_owned(), tenant: None, script: None };
        let of = |reader: &Reader| store.delta(reader.clone()).map(|profile| profile.sum().cycles);
        store.add(&key("a", 1), run(70));
        assert_eq!((of(&reader("one")), of(&reader("one"))), (Some(70), Some(0)));
        store.add(&key("a", 1), run(30));
        let of_b = Reader { tenant: Some("b".to_owned()), ..reader("one") };
        assert_eq!((of(&reader("two")), of(&of_b)), (Some(100), Some(0)));
        store.add(&key("b", 2), run(5));
        assert_eq!((of(&reader("one")), of(&reader("two")), of(&of_b)), (Some(35), Some(5), Some(5)));
        // Scripts beyond the limit still count.
        for tenant in 0..PROFILE_PENDING_MAX + 7 {
            store.add(&key(&tenant.to_string(), 1), run(1));
        }
        assert_eq!(of(&reader("one")), Some(PROFILE_PENDING_MAX as u64 + 7));
        assert!(of(&reader("three")).is_some());
        assert_eq!(of(&reader("five")), None, "there are as many readers as may be");
    }
}
