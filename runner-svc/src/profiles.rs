//! Profiles of all runs, by window of time, tenant and script, in bounded memory.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_pool::job::Samples;
use antares_profile::{Profile, Value};

use crate::limits::{
    PROFILE_NODES_MAX, PROFILE_PENDING_MAX, PROFILE_SCRIPTS_MAX, PROFILE_WINDOWS_MAX, PROFILES_NODES_MAX,
};

/// Whose profile it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProfileKey {
    pub(crate) tenant: Arc<str>,
    /// Digest of the ELF; none for transactions.
    pub(crate) script: Option<Sha256Digest>,
}

/// What was run, and where its cycles went.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) profile: Profile,
    pub(crate) runs: u64,
}

/// What is counted for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProfilesStats {
    /// Stacks that are held.
    pub(crate) nodes: u64,
    /// Windows that went before their time, for want of room.
    pub(crate) windows_dropped: u64,
    /// Runs that were not kept for the next push, for want of room.
    pub(crate) unpushed: u64,
}

#[derive(Debug)]
struct Window {
    start: Instant,
    entries: BTreeMap<ProfileKey, Entry>,
}

impl Window {
    fn nodes(&self) -> usize {
        self.entries.values().map(|entry| entry.profile.nodes().len()).sum()
    }
}

/// The store.
#[derive(Debug)]
pub(crate) struct Profiles {
    keep: Duration,
    window: Duration,
    is_pushed: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    windows: VecDeque<Window>,
    dropped: u64,
    /// What was run since the last push.
    pending: BTreeMap<ProfileKey, Entry>,
    unpushed: u64,
}

/// The entry that a run of `key` counts in. Beyond that many scripts, those of a tenant count together.
fn entry_of<'a>(entries: &'a mut BTreeMap<ProfileKey, Entry>, key: &ProfileKey) -> &'a mut Entry {
    let is_new = !entries.contains_key(key);
    let key = match is_new && entries.len() >= PROFILE_SCRIPTS_MAX {
        true => ProfileKey { tenant: key.tenant.clone(), script: None },
        false => key.clone(),
    };
    let made = || Entry { profile: Profile::with_nodes_max(PROFILE_NODES_MAX), runs: 0 };
    entries.entry(key).or_insert_with(made)
}

impl Entry {
    /// Adds a run of `cycles`, with the samples that there are of it.
    fn add(&mut self, sampled: Option<&Profile>, cycles: u64) {
        self.runs += 1;
        match sampled {
            Some(sampled) => self.profile.merge(sampled),
            None => self.profile.add_other(Value::cycles(cycles)),
        }
    }
}

impl Profiles {
    /// A store that keeps profiles for `keep`; where `is_pushed`, what was run since [`Self::take_pending`] too.
    pub(crate) fn new(keep: Duration, is_pushed: bool) -> Self {
        let windows = u32::try_from(PROFILE_WINDOWS_MAX).unwrap_or(u32::MAX);
        let window = (keep / windows).max(Duration::from_millis(1));
        Self { keep, window, is_pushed, state: Mutex::default() }
    }

    /// Adds a run of `cycles`. Gives by how many cycles its samples were wrong: always 0, unless Antares has a mistake.
    pub(crate) fn add(&self, key: &ProfileKey, samples: Option<&Samples>, cycles: u64) -> u64 {
        self.add_at(Instant::now(), key, samples, cycles)
    }

    fn add_at(&self, now: Instant, key: &ProfileKey, samples: Option<&Samples>, cycles: u64) -> u64 {
        let sampled = samples.and_then(|samples| Profile::decode(&samples.profile).ok());
        let is_whole = sampled.as_ref().is_none_or(|sampled| sampled.sum().cycles == cycles);
        let mut state = self.lock();
        self.make_room(&mut state, now);
        let Some(window) = state.windows.back_mut() else { return 0 };
        let sampled = sampled.filter(|_| is_whole);
        entry_of(&mut window.entries, key).add(sampled.as_ref(), cycles);
        if self.is_pushed {
            // Tenants have no limit of their own.
            match state.pending.len() < PROFILE_PENDING_MAX || state.pending.contains_key(key) {
                true => entry_of(&mut state.pending, key).add(sampled.as_ref(), cycles),
                false => state.unpushed += 1,
            }
        }
        let told = samples.map_or(0, |samples| samples.mismatch_cycles);
        if is_whole { told } else { told.max(1) }
    }

    /// What was run since the last time, to be pushed.
    pub(crate) fn take_pending(&self) -> BTreeMap<ProfileKey, Entry> {
        std::mem::take(&mut self.lock().pending)
    }

    /// The runs of `tenant`, or of all, in the last `window`: of one script, or of everything.
    pub(crate) fn get(
        &self,
        tenant: Option<&str>,
        script: Option<Sha256Digest>,
        window: Option<Duration>,
    ) -> Option<Profile> {
        let mut all: Option<Profile> = None;
        self.visit(tenant, window, |key, entry| {
            if script.is_none() || key.script == script {
                all.get_or_insert_with(Profile::new).merge(&entry.profile);
            }
        });
        all.map(|profile| profile.canonical())
    }

    /// What was run for `tenant` in the last `window`: cycles and runs by script, most cycles first.
    pub(crate) fn list(
        &self,
        tenant: &str,
        window: Option<Duration>,
    ) -> Vec<(Option<Sha256Digest>, u64, u64)> {
        let mut scripts: BTreeMap<ProfileKey, (u64, u64)> = BTreeMap::new();
        self.visit(Some(tenant), window, |key, entry| {
            let sums = scripts.entry(key.clone()).or_default();
            sums.0 = sums.0.saturating_add(entry.profile.sum().cycles);
            sums.1 = sums.1.saturating_add(entry.runs);
        });
        let mut list: Vec<_> =
            scripts.into_iter().map(|(key, (cycles, runs))| (key.script, cycles, runs)).collect();
        list.sort_by_key(|(_, cycles, _)| std::cmp::Reverse(*cycles));
        list
    }

    /// What is held.
    pub(crate) fn stats(&self) -> ProfilesStats {
        let state = self.lock();
        ProfilesStats {
            nodes: state.windows.iter().map(Window::nodes).sum::<usize>() as u64,
            windows_dropped: state.dropped,
            unpushed: state.unpushed,
        }
    }

    fn visit(
        &self,
        tenant: Option<&str>,
        window: Option<Duration>,
        mut look: impl FnMut(&ProfileKey, &Entry),
    ) {
        let (now, window) = (Instant::now(), window.unwrap_or(self.keep));
        let state = self.lock();
        let is_in = |start: Instant| now.duration_since(start) <= window.saturating_add(self.window);
        for window in state.windows.iter().filter(|window| is_in(window.start)) {
            window
                .entries
                .iter()
                .filter(|(key, _)| tenant.is_none_or(|tenant| &*key.tenant == tenant))
                .for_each(|(key, entry)| look(key, entry));
        }
    }

    /// Begins a window if it is time, and lets old ones go.
    fn make_room(&self, state: &mut State, now: Instant) {
        let is_over = |window: &Window| now.saturating_duration_since(window.start) >= self.window;
        if state.windows.back().is_none_or(is_over) {
            state.windows.push_back(Window { start: now, entries: BTreeMap::new() });
            let is_old = |window: &Window| now.saturating_duration_since(window.start) > self.keep;
            while state.windows.front().is_some_and(is_old) || state.windows.len() > PROFILE_WINDOWS_MAX + 1 {
                state.windows.pop_front();
            }
            while state.windows.len() > 1
                && state.windows.iter().map(Window::nodes).sum::<usize>() > PROFILES_NODES_MAX
            {
                state.windows.pop_front();
                state.dropped += 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use antares_profile::Frame;

    use super::*;

    fn key(tenant: &str, script: u8) -> ProfileKey {
        ProfileKey { tenant: tenant.into(), script: Some(Sha256Digest::of(&[script])) }
    }

    fn samples(number: u64, cycles: u64) -> Samples {
        let mut profile = Profile::new();
        profile.add(&[Frame::Syscall { number }], Value::cycles(cycles));
        Samples { profile: profile.encode().unwrap(), mismatch_cycles: 0 }
    }

    #[test]
    fn runs_add_up_by_tenant_and_script() {
        let store = Profiles::new(Duration::from_secs(3600), false);
        assert_eq!(store.add(&key("a", 1), Some(&samples(2061, 70)), 70), 0);
        assert_eq!(store.add(&key("a", 1), None, 30), 0);
        assert_eq!(store.add(&key("a", 2), None, 500), 0);
        assert_eq!(store.add(&key("b", 1), None, 9), 0);
        let one = store.get(Some("a"), key("a", 1).script, None).unwrap();
        assert_eq!((one.sum().cycles, one.nodes().len()), (100, 2));
        assert_eq!(store.get(Some("a"), None, None).unwrap().sum().cycles, 600);
        assert!(store.get(Some("c"), None, None).is_none());
        let list = store.list("a", None);
        assert_eq!(list, [(key("a", 2).script, 500, 1), (key("a", 1).script, 100, 2)]);
    }

    #[test]
    fn samples_that_do_not_add_up_are_counted_and_not_believed() {
        let store = Profiles::new(Duration::from_secs(3600), false);
        assert_eq!(store.add(&key("a", 1), Some(&samples(2061, 71)), 70), 1);
        let broken = Samples { profile: vec![1, 2, 3], mismatch_cycles: 0 };
        store.add(&key("a", 1), Some(&broken), 5);
        assert_eq!(store.get(Some("a"), None, None).unwrap().sum().cycles, 75);
    }

    #[test]
    fn what_is_pushed_is_what_was_run_since_and_is_bounded() {
        let store = Profiles::new(Duration::from_secs(60), true);
        store.add(&key("a", 1), Some(&samples(2061, 70)), 70);
        store.add(&key("a", 1), None, 30);
        let pending = store.take_pending();
        assert_eq!((pending.len(), pending[&key("a", 1)].profile.sum().cycles), (1, 100));
        assert!(store.take_pending().is_empty());
        for tenant in 0..PROFILE_PENDING_MAX + 7 {
            store.add(&key(&tenant.to_string(), 1), None, 1);
        }
        assert_eq!((store.take_pending().len(), store.stats().unpushed), (PROFILE_PENDING_MAX, 7));
        assert_eq!(store.get(Some("a"), None, None).unwrap().sum().cycles, 100);
    }

    #[test]
    fn old_windows_go_and_scripts_are_bounded() {
        let store = Profiles::new(Duration::from_secs(60), false);
        let start = Instant::now();
        for step in 0..1000 {
            store.add_at(start + Duration::from_secs(step), &key("a", 1), None, 1);
        }
        assert!(store.lock().windows.len() <= PROFILE_WINDOWS_MAX + 1);
        let late = start + Duration::from_secs(5000);
        for script in 0..u64::try_from(PROFILE_SCRIPTS_MAX + 10).unwrap() {
            let script = Some(Sha256Digest::of(&script.to_le_bytes()));
            store.add_at(late, &ProfileKey { tenant: "a".into(), script }, None, 1);
        }
        let state = store.lock();
        assert_eq!(state.windows.back().unwrap().entries.len(), PROFILE_SCRIPTS_MAX + 1);
    }
}
