//! Profiles of all runs, by time window, tenant and script, in bounded memory.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_profile::Profile;
use parking_lot::Mutex;

use crate::{
    limits::{PROFILE_PENDING_MAX, PROFILE_WINDOWS_MAX, PROFILES_NODES_MAX},
    profiles::{
        deltas::{Deltas, Reader},
        entry::{Entry, ProfileKey, RunCycles, decoded, entry_of, merged},
    },
};

/// Counters for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProfilesStats {
    /// Stored stacks.
    pub(crate) nodes: u64,
    /// Windows dropped early for lack of space.
    pub(crate) windows_dropped: u64,
    /// Runs that the next push misses for lack of space.
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

#[derive(Debug)]
pub(crate) struct ProfileStore {
    keep: Duration,
    window: Duration,
    is_pushed: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    windows: VecDeque<Window>,
    dropped: u64,
    /// Runs since the last push.
    pending: BTreeMap<ProfileKey, Entry>,
    unpushed: u64,
    deltas: Deltas,
}

impl ProfileStore {
    /// A store that retains profiles for `keep` and, if `is_pushed`, also collects runs for
    /// [`Self::take_pending`].
    pub(crate) fn new(keep: Duration, is_pushed: bool) -> Self {
        let windows = u32::try_from(PROFILE_WINDOWS_MAX).unwrap_or(u32::MAX);
        let window = (keep / windows).max(Duration::from_millis(1));
        Self { keep, window, is_pushed, state: Mutex::default() }
    }

    /// Adds a run. Returns the error of its samples in cycles: always 0 unless Antares has a bug.
    pub(crate) fn add(&self, key: &ProfileKey, run: RunCycles<'_>) -> u64 {
        self.add_at(Instant::now(), key, run)
    }

    fn add_at(&self, now: Instant, key: &ProfileKey, run: RunCycles<'_>) -> u64 {
        let sampled = run.samples.and_then(decoded);
        let is_whole = sampled.as_ref().is_none_or(|sampled| sampled.profile.sum().cycles == run.cycles);
        let mut state = self.state.lock();
        self.evict_for_space(&mut state, now);
        let Some(window) = state.windows.back_mut() else { return 0 };
        let sampled = sampled.filter(|_| is_whole);
        entry_of(&mut window.entries, key).add(sampled.as_ref(), run);
        state.deltas.add(key, sampled.as_ref(), run);
        if self.is_pushed {
            // Tenants have no limit of their own.
            match state.pending.len() < PROFILE_PENDING_MAX || state.pending.contains_key(key) {
                true => entry_of(&mut state.pending, key).add(sampled.as_ref(), run),
                false => state.unpushed += 1,
            }
        }
        let wrong = run.samples.map_or(0, |samples| samples.mismatch_cycles);
        if is_whole { wrong } else { wrong.max(1) }
    }

    /// Takes the runs since the last call, for a push.
    pub(crate) fn take_pending(&self) -> BTreeMap<ProfileKey, Entry> {
        std::mem::take(&mut self.state.lock().pending)
    }

    /// The runs of `tenant`, or of all, in the last `window`: of one script, or of everything.
    pub(crate) fn get(
        &self,
        tenant: Option<&str>,
        script: Option<Sha256Digest>,
        window: Option<Duration>,
    ) -> Option<Profile> {
        // Samples of one script claim only cycles of that script.
        let mut scripts: BTreeMap<ProfileKey, Entry> = BTreeMap::new();
        self.visit(tenant, window, |key, entry| {
            if script.is_none() || key.script == script {
                scripts.entry(key.clone()).or_insert_with(|| Entry::new(Profile::default())).merge(entry);
            }
        });
        merged(scripts)
    }

    /// Runs since `reader`'s last request, and all stored ones at the first. Each run is in exactly one
    /// answer. None if there are too many readers.
    pub(crate) fn delta(&self, reader: Reader) -> Option<Profile> {
        let now = Instant::now();
        let mut state = self.state.lock();
        if let Some(since) = state.deltas.take(&reader, now) {
            drop(state);
            return Some(merged(since).unwrap_or_default());
        }
        if !state.deltas.begin(reader.clone(), now, self.keep) {
            return None;
        }
        let mut scripts: BTreeMap<ProfileKey, Entry> = BTreeMap::new();
        // Holding the same lock, so no run comes between.
        let kept = state.windows.iter().flat_map(|window| &window.entries);
        for (key, entry) in kept.filter(|(key, _)| reader.wants(key)) {
            scripts.entry(key.clone()).or_insert_with(|| Entry::new(Profile::default())).merge(entry);
        }
        drop(state);
        Some(merged(scripts).unwrap_or_default())
    }

    /// The runs of `tenant` in the last `window`: cycles and runs by script, most cycles first.
    pub(crate) fn list(
        &self,
        tenant: &str,
        window: Option<Duration>,
    ) -> Vec<(Option<Sha256Digest>, u64, u64)> {
        let sums = self.sums(Some(tenant), window).into_iter();
        sums.map(|(key, cycles, runs)| (key.script, cycles, runs)).collect()
    }

    fn sums(&self, tenant: Option<&str>, window: Option<Duration>) -> Vec<(ProfileKey, u64, u64)> {
        let mut sums: BTreeMap<ProfileKey, (u64, u64)> = BTreeMap::new();
        self.visit(tenant, window, |key, entry| {
            let sum = sums.entry(key.clone()).or_default();
            sum.0 = sum.0.saturating_add(entry.profile.sum().cycles);
            sum.1 = sum.1.saturating_add(entry.runs);
        });
        let mut list: Vec<_> = sums.into_iter().map(|(key, (cycles, runs))| (key, cycles, runs)).collect();
        list.sort_by_key(|(_, cycles, _)| std::cmp::Reverse(*cycles));
        list
    }

    /// Current sizes.
    pub(crate) fn stats(&self) -> ProfilesStats {
        let state = self.state.lock();
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
        let state = self.state.lock();
        let is_in = |start: Instant| now.duration_since(start) <= window.saturating_add(self.window);
        for window in state.windows.iter().filter(|window| is_in(window.start)) {
            window
                .entries
                .iter()
                .filter(|(key, _)| tenant.is_none_or(|tenant| &*key.tenant == tenant))
                .for_each(|(key, entry)| look(key, entry));
        }
    }

    /// Starts a window when due, and drops old ones.
    fn evict_for_space(&self, state: &mut State, now: Instant) {
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
}

#[cfg(test)]
pub(super) mod tests {
    use antares_pool::job::Samples;
    use antares_profile::{Frame, Node, ProfiledProgram, Value};

    use super::*;
    use crate::limits::{PROFILE_NODES_MAX, PROFILE_SCRIPTS_MAX, PROFILE_TENANTS_MAX};

    pub(in crate::profiles) fn key(tenant: &str, script: u8) -> ProfileKey {
        ProfileKey { tenant: tenant.into(), script: Some(Sha256Digest::of(&[script])) }
    }

    fn samples(number: u64, cycles: u64) -> Samples {
        let mut profile = Profile::default();
        profile.add(&[Frame::Syscall { number }], Value::cycles(cycles));
        let (profile, claims) = (profile.encode().unwrap(), Profile::default().encode().unwrap());
        Samples { profile, claims, unseen_cycles: 0, mismatch_cycles: 0 }
    }

    fn run(samples: Option<&Samples>, cycles: u64) -> RunCycles<'_> {
        RunCycles { samples, cycles, native_cycles: 0 }
    }

    #[test]
    fn samples_stand_for_runs_that_none_hit() {
        let store = ProfileStore::new(Duration::from_secs(3600), false);
        let (now, key) = (Instant::now(), key("a", 1));
        let mut claims = Profile::default();
        claims.add(&[Frame::Syscall { number: 2061 }], Value::cycles(60));
        let samples = Samples { claims: claims.encode().unwrap(), ..samples(2061, 40) };
        let run = |at, samples| {
            let cycles = RunCycles { samples, cycles: 40, native_cycles: 30 };
            store.add_at(now + Duration::from_secs(at), &key, cycles)
        };
        // The interpreter's cycles of a run do not count for its sample.
        let known = || {
            let profile = store.get(Some("a"), key.script, None).unwrap();
            let known = profile.nodes().iter().find(|node| node.frame != Frame::Other).unwrap();
            (known.value.cycles, profile.sum().cycles)
        };
        assert_eq!(run(0, Some(&samples)), 0);
        assert_eq!(known(), (40, 40));
        run(1, None);
        assert_eq!(known(), (70, 80));
        // The next window has the rest.
        for at in [100, 101] {
            run(at, None);
        }
        assert_eq!(known(), (100, 160));
        assert!(store.state.lock().windows.len() > 1);
    }

    #[test]
    fn more_stacks_than_there_is_room_for_keep_the_shares_of_what_runs() {
        let store = ProfileStore::new(Duration::from_secs(3600), false);
        let program = ProfiledProgram { elf: None, vm_version: 2, isa: 3 };
        let mut sum = 0;
        // Two functions take a quarter and three quarters, always from new callers.
        for number in 0..400 {
            let (mut profile, mut claims) = (Profile::default(), Profile::default());
            let programs = [&mut profile, &mut claims].map(|profile| profile.program(&program).unwrap());
            for caller in 0..40 {
                let code = |pc| Frame::Code { program: programs[0], pc };
                let stack = [
                    code(1 << 20),
                    code((2 << 20) + 40 * number + caller),
                    code(64 * u64::from(caller % 4 == 0)),
                ];
                profile.add(&stack, Value::cycles(100));
                sum += 100;
            }
            claims.add(&[Frame::Code { program: programs[1], pc: 8 }], Value::cycles(1));
            let [profile, claims] = [profile, claims].map(|profile| profile.encode().unwrap());
            let samples = Samples { profile, claims, unseen_cycles: 0, mismatch_cycles: 0 };
            assert_eq!(store.add(&key("a", 1), run(Some(&samples), 4000)), 0);
        }
        let profile = store.get(Some("a"), None, None).unwrap();
        let own = |at| {
            let is_at = |node: &&Node| matches!(node.frame, Frame::Code { pc, .. } if pc == at);
            profile.nodes().iter().filter(is_at).map(|node| node.value.cycles).sum::<u64>()
        };
        assert_eq!((own(0), own(64), profile.sum().cycles), (sum / 4 * 3, sum / 4, sum));
        assert!(store.stats().nodes <= PROFILE_NODES_MAX as u64);
        // Claims survive folding.
        assert_eq!(store.state.lock().windows[0].entries[&key("a", 1)].claims.len(), 400);
    }

    #[test]
    fn invented_tenants_take_bounded_room_and_no_run_is_lost() {
        let store = ProfileStore::new(Duration::from_secs(60), false);
        let runs = 10 * (PROFILE_SCRIPTS_MAX + PROFILE_TENANTS_MAX) as u64;
        for tenant in 0..runs {
            store.add(&key(&tenant.to_string(), 1), run(None, 1));
        }
        let entries: usize = store.state.lock().windows.iter().map(|window| window.entries.len()).sum();
        assert!(entries <= PROFILE_SCRIPTS_MAX + PROFILE_TENANTS_MAX + 1, "{entries}");
        assert_eq!(store.get(None, None, None).unwrap().sum().cycles, runs);
    }

    #[test]
    fn runs_add_up_by_tenant_and_script() {
        let store = ProfileStore::new(Duration::from_secs(3600), false);
        assert_eq!(store.add(&key("a", 1), run(Some(&samples(2061, 70)), 70)), 0);
        assert_eq!(store.add(&key("a", 1), run(None, 30)), 0);
        assert_eq!(store.add(&key("a", 2), run(None, 500)), 0);
        assert_eq!(store.add(&key("b", 1), run(None, 9)), 0);
        let one = store.get(Some("a"), key("a", 1).script, None).unwrap();
        assert_eq!((one.sum().cycles, one.nodes().len()), (100, 2));
        assert_eq!(store.get(Some("a"), None, None).unwrap().sum().cycles, 600);
        assert!(store.get(Some("c"), None, None).is_none());
        let list = store.list("a", None);
        assert_eq!(list, [(key("a", 2).script, 500, 1), (key("a", 1).script, 100, 2)]);
    }

    #[test]
    fn samples_that_do_not_add_up_are_counted_and_not_believed() {
        let store = ProfileStore::new(Duration::from_secs(3600), false);
        assert_eq!(store.add(&key("a", 1), run(Some(&samples(2061, 71)), 70)), 1);
        let broken = Samples { profile: vec![1, 2, 3], ..samples(2061, 5) };
        store.add(&key("a", 1), run(Some(&broken), 5));
        assert_eq!(store.get(Some("a"), None, None).unwrap().sum().cycles, 75);
    }

    #[test]
    fn what_is_pushed_is_what_was_run_since_and_is_bounded() {
        let store = ProfileStore::new(Duration::from_secs(60), true);
        store.add(&key("a", 1), run(Some(&samples(2061, 70)), 70));
        store.add(&key("a", 1), run(None, 30));
        let pending = store.take_pending();
        assert_eq!((pending.len(), pending[&key("a", 1)].profile.sum().cycles), (1, 100));
        assert!(store.take_pending().is_empty());
        for tenant in 0..PROFILE_PENDING_MAX + 7 {
            store.add(&key(&tenant.to_string(), 1), run(None, 1));
        }
        assert_eq!((store.take_pending().len(), store.stats().unpushed), (PROFILE_PENDING_MAX, 7));
        assert_eq!(store.get(Some("a"), None, None).unwrap().sum().cycles, 100);
    }

    #[test]
    fn old_windows_go_and_scripts_are_bounded() {
        let store = ProfileStore::new(Duration::from_secs(60), false);
        let start = Instant::now();
        for step in 0..1000 {
            store.add_at(start + Duration::from_secs(step), &key("a", 1), run(None, 1));
        }
        assert!(store.state.lock().windows.len() <= PROFILE_WINDOWS_MAX + 1);
        let late = start + Duration::from_secs(5000);
        for script in 0..u64::try_from(PROFILE_SCRIPTS_MAX + 10).unwrap() {
            let script = Some(Sha256Digest::of(&script.to_le_bytes()));
            store.add_at(late, &ProfileKey { tenant: "a".into(), script }, run(None, 1));
        }
        let state = store.state.lock();
        assert_eq!(state.windows.back().unwrap().entries.len(), PROFILE_SCRIPTS_MAX + 1);
    }
}
