//! In-memory accounting of the stored entries: charged bytes, order of use, pins. Rebuilt from the
//! manifests when the cache opens.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use crate::{
    entry::{EntryId, Owner, Space},
    stats::PerSpace,
    store::{Removal, Stored, Touch},
};

/// An entry as [`Cache::list`](crate::Cache::list) returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: [u8; 32],
    /// Size of the payload in bytes.
    pub bytes: u64,
    /// Whether the entry is pinned: eviction skips it.
    pub is_pinned: bool,
    /// Whether the entry was read since it was stored.
    pub was_read: bool,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    total_bytes: u64,
    charged_bytes: u64,
    chunks: u32,
    /// Position in the order of use.
    tick: u64,
    /// The position that the store has on disk.
    stored_tick: u64,
    owner: Option<Owner>,
}

/// Bit of a tick: the entry was read since it was stored. Entries that were never read are evicted first, so
/// a client that stores many entries cannot evict those in use.
const READ: u64 = 1 << 63;

/// Unread entries may use one in `UNREAD_PARTS` of a space, so that a new entry has time to be read.
const UNREAD_PARTS: u64 = 4;

/// The share of one owner is one in `OWNER_PARTS` of a space. An owner that exceeds its share evicts its own
/// entries.
const OWNER_PARTS: u64 = 4;

/// Facts about the cache's entries that need no query to the store.
///
/// The order of use is a counter, not a clock: it cannot jump.
#[derive(Debug, Default)]
pub(crate) struct Account {
    lines: HashMap<EntryId, Line>,
    order: BTreeSet<(u64, EntryId)>,
    touched: BTreeSet<EntryId>,
    pinned: HashSet<EntryId>,
    /// Charged bytes by owner, for entries with a known owner.
    held: HashMap<(Space, Owner), u64>,
    charged: PerSpace,
    last_tick: u64,
}

impl Account {
    /// Replaces all entries with `entries`; keeps pins, owners and later uses.
    pub(crate) fn reload(&mut self, entries: &[Stored]) {
        let before = std::mem::take(self);
        *self = Self { pinned: before.pinned, last_tick: before.last_tick, ..Self::default() };
        for stored in entries {
            let line = before.lines.get(&stored.id);
            self.add(stored, line.and_then(|line| line.owner));
            if let Some(line) = line.filter(|line| line.tick > stored.tick) {
                self.move_to(stored.id, line.tick);
            }
        }
    }

    /// Adds an entry that the store has.
    pub(crate) fn add(&mut self, stored: &Stored, owner: Option<Owner>) {
        self.remove(stored.id);
        let line = Line {
            total_bytes: stored.manifest.total_bytes,
            charged_bytes: stored.manifest.charged_bytes(),
            chunks: stored.manifest.chunks,
            tick: stored.tick,
            stored_tick: stored.tick,
            owner,
        };
        if let Some(owner) = owner {
            *self.held.entry((stored.id.space, owner)).or_default() += line.charged_bytes;
        }
        *self.charged.of_mut(stored.id.space) += line.charged_bytes;
        self.last_tick = self.last_tick.max(line.tick & !READ);
        self.order.insert((line.tick, stored.id));
        self.lines.insert(stored.id, line);
    }

    /// Removes an entry; returns the removal for the store.
    pub(crate) fn remove(&mut self, id: EntryId) -> Option<Removal> {
        let line = self.lines.remove(&id)?;
        *self.charged.of_mut(id.space) -= line.charged_bytes;
        self.order.remove(&(line.tick, id));
        self.touched.remove(&id);
        if let Some(owner) = line.owner
            && let Some(held) = self.held.get_mut(&(id.space, owner))
        {
            *held -= line.charged_bytes;
            if *held == 0 {
                self.held.remove(&(id.space, owner));
            }
        }
        Some(Removal { id, tick: line.stored_tick })
    }

    /// The next position in the order of use.
    pub(crate) fn next_tick(&mut self) -> u64 {
        self.last_tick += 1;
        self.last_tick
    }

    /// Moves an entry to the end of the order of use and marks it as read.
    pub(crate) fn touch(&mut self, id: EntryId) {
        self.move_to_end(id, READ);
    }

    /// Moves an entry that was stored again to the end of its group. A repeated store does not count as a
    /// read.
    pub(crate) fn renew(&mut self, id: EntryId) {
        self.move_to_end(id, 0);
    }

    fn move_to_end(&mut self, id: EntryId, read: u64) {
        let tick = self.next_tick();
        if let Some(line) = self.lines.get(&id) {
            self.move_to(id, tick | read | line.tick & READ);
        }
    }

    fn move_to(&mut self, id: EntryId, tick: u64) {
        if let Some(line) = self.lines.get_mut(&id) {
            self.order.remove(&(line.tick, id));
            line.tick = tick;
            self.order.insert((tick, id));
            self.touched.insert(id);
        }
    }

    /// Takes up to `limit` moves that the store has not written yet.
    pub(crate) fn take_touches(&mut self, limit: usize) -> Vec<Touch> {
        let mut touches = Vec::new();
        while let Some(id) = (touches.len() < limit).then(|| self.touched.pop_first()).flatten() {
            if let Some(line) = self.lines.get_mut(&id) {
                touches.push(Touch { id, from: line.stored_tick, to: line.tick });
                line.stored_tick = line.tick;
            }
        }
        touches
    }

    /// Removes entries of `space` until `bytes` are freed, at most `limit` of them; skips pinned
    /// ones. Unread entries go before read ones, unless the unread ones are within their part of the space.
    /// In each group the oldest go first. An owner over its share pays first, down to its share.
    pub(crate) fn evict(&mut self, space: Space, bytes: u64, limit: usize) -> Vec<Removal> {
        if let Some((owner, surplus)) = self.payer(space) {
            let removals = self.evict_of(space, Some(owner), bytes.min(surplus), limit);
            if !removals.is_empty() {
                return removals;
            }
        }
        self.evict_of(space, None, bytes, limit)
    }

    /// The owner that has to pay and its surplus: the largest tenant of the largest peer, if that peer
    /// exceeds its share of `space`.
    fn payer(&self, space: Space) -> Option<(Owner, u64)> {
        let held = || {
            self.held.iter().filter(|((of, _), _)| *of == space).map(|((_, owner), bytes)| (*owner, *bytes))
        };
        let mut peers: HashMap<u64, u64> = HashMap::new();
        held().for_each(|(owner, bytes)| *peers.entry(owner.peer).or_default() += bytes);
        let (peer, bytes) = peers.into_iter().max_by_key(|&(peer, bytes)| (bytes, peer))?;
        let surplus = bytes.saturating_sub(self.charged.of(space) / OWNER_PARTS);
        let of_peer = held().filter(|(owner, _)| owner.peer == peer);
        let (owner, held) = of_peer.max_by_key(|(owner, bytes)| (*bytes, owner.tenant))?;
        (surplus > 0).then_some((owner, surplus.min(held)))
    }

    fn evict_of(&mut self, space: Space, owner: Option<Owner>, bytes: u64, limit: usize) -> Vec<Removal> {
        let is_idle = |id: &EntryId| id.space == space && !self.pinned.contains(id);
        let idle = self.order.iter().filter(|(_, id)| is_idle(id));
        let lines = idle.filter_map(|&(tick, id)| {
            let line = self.lines.get(&id).filter(|line| owner.is_none() || line.owner == owner)?;
            Some((tick & READ != 0, id, line.charged_bytes))
        });
        let (read, unread): (VecDeque<_>, VecDeque<_>) = lines.partition(|(is_read, ..)| *is_read);
        let mut groups = [unread, read];
        let charged =
            |group: &VecDeque<(bool, EntryId, u64)>| group.iter().map(|(.., charge)| charge).sum::<u64>();
        let mut charges = [charged(&groups[0]), charged(&groups[1])];
        let (mut excess, mut chosen) = (bytes, Vec::new());
        while excess > 0 && chosen.len() < limit {
            let first = usize::from(charges[0] <= (charges[0] + charges[1]) / UNREAD_PARTS);
            let next =
                [first, 1 - first].into_iter().find_map(|from| Some((from, groups[from].pop_front()?)));
            let Some((from, (_, id, charge))) = next else { break };
            charges[from] -= charge;
            excess = excess.saturating_sub(charge);
            chosen.push(id);
        }
        chosen.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Replaces the set of pinned entries.
    pub(crate) fn reload_pins(&mut self, pinned: Vec<EntryId>) {
        self.pinned = pinned.into_iter().collect();
    }

    pub(crate) fn set_pinned(&mut self, id: EntryId, is_pinned: bool) {
        if is_pinned {
            self.pinned.insert(id);
        } else {
            self.pinned.remove(&id);
        }
    }

    /// Charged bytes of all pinned entries except `id`.
    pub(crate) fn pinned_bytes(&self, id: EntryId) -> u64 {
        self.pinned.iter().filter(|pinned| **pinned != id).filter_map(|pinned| self.charge(*pinned)).sum()
    }

    /// Charged bytes of an entry, if it is stored.
    pub(crate) fn charge(&self, id: EntryId) -> Option<u64> {
        self.lines.get(&id).map(|line| line.charged_bytes)
    }

    /// The first entries of a space with keys greater than `after`, sorted by key.
    pub(crate) fn list(&self, space: Space, after: Option<[u8; 32]>, limit: usize) -> Vec<Listed> {
        let is_wanted = |id: &EntryId| id.space == space && after.is_none_or(|after| id.key > after);
        let mut found: Vec<_> = self.lines.iter().filter(|(id, _)| is_wanted(id)).collect();
        found.sort_unstable_by_key(|(id, _)| id.key);
        let listed = found.into_iter().take(limit).map(|(id, line)| Listed {
            key: id.key,
            bytes: line.total_bytes,
            is_pinned: self.pinned.contains(id),
            was_read: line.tick & READ != 0,
        });
        listed.collect()
    }

    pub(crate) fn contains(&self, id: EntryId) -> bool {
        self.lines.contains_key(&id)
    }

    /// Number of chunks in the manifest of an entry; zero if it is not stored.
    pub(crate) fn chunks(&self, id: EntryId) -> u32 {
        self.lines.get(&id).map_or(0, |line| line.chunks)
    }

    pub(crate) fn newest_first(&self) -> Vec<EntryId> {
        self.order.iter().rev().map(|&(_, id)| id).collect()
    }

    /// Position of an entry in the order of use.
    pub(crate) fn tick(&self, id: EntryId) -> Option<u64> {
        self.lines.get(&id).map(|line| line.tick)
    }

    pub(crate) fn entries(&self, space: Space) -> u64 {
        self.lines.keys().filter(|id| id.space == space).count() as u64
    }

    pub(crate) fn logical_bytes(&self) -> u64 {
        self.lines.values().map(|line| line.total_bytes).sum()
    }

    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged.script + self.charged.artifact
    }

    pub(crate) fn charged(&self) -> PerSpace {
        self.charged
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Manifest;

    fn stored(number: u8, length: usize, tick: u64) -> Stored {
        let manifest = Manifest::of(&vec![0; length], [0; 32], 0).expect("few chunks");
        Stored { id: EntryId::new(Space::Artifact, [number; 32]), manifest, tick }
    }

    fn evicted(account: &mut Account, charged_max: u64) -> Vec<u8> {
        let mut gone = Vec::new();
        loop {
            let bytes = account.charged_bytes().saturating_sub(charged_max);
            let removals = account.evict(Space::Artifact, bytes, usize::MAX);
            if removals.is_empty() {
                return gone;
            }
            gone.extend(removals.iter().map(|removal| removal.id.key[0]));
        }
    }

    #[test]
    fn the_least_recently_used_go_first_and_pinned_ones_stay() {
        let mut account = Account::default();
        account.reload(&[stored(1, 1000, 5), stored(2, 1000, 3), stored(3, 1000, 4)]);
        account.touch(stored(2, 0, 0).id);
        account.set_pinned(stored(3, 0, 0).id, true);
        assert_eq!(account.newest_first()[0].key[0], 2);
        assert_eq!(evicted(&mut account, 1), [1, 2]);
        assert!(account.contains(stored(3, 0, 0).id));
        account.set_pinned(stored(3, 0, 0).id, false);
        assert_eq!(evicted(&mut account, 1), [3]);
        assert_eq!((account.logical_bytes(), account.charged_bytes()), (0, 0));
    }

    #[test]
    fn what_was_never_read_goes_first_and_counting_goes_on_after_a_restart() {
        let mut account = Account::default();
        account.reload(&[stored(1, 1000, READ | 1), stored(2, 1000, 5), stored(3, 1000, 6)]);
        account.renew(stored(2, 0, 0).id);
        assert_eq!(account.next_tick(), 8);
        assert_eq!(evicted(&mut account, 1), [3, 2, 1]);
    }

    #[test]
    fn what_is_new_has_time_to_be_read() {
        let mut account = Account::default();
        account.reload(&[1, 2, 3, 4, 5].map(|number| stored(number, 1000, READ | u64::from(number))));
        account.add(&stored(6, 1000, 6), None);
        let charged = account.charged_bytes();
        assert_eq!(evicted(&mut account, charged / 6 * 4), [1, 2]);
    }

    #[test]
    fn who_has_more_than_its_share_pays_first() {
        let owner = |peer, tenant| Some(Owner { peer, tenant });
        let mut account = Account::default();
        account.add(&stored(1, 1000, 1), owner(1, 0));
        account.add(&stored(2, 1000, 2), None);
        for number in 3..7 {
            account.add(&stored(number, 1000, number.into()), owner(2, u64::from(number < 6)));
        }
        let charge = account.charged_bytes() / 6;
        // The largest tenant of peer 2 pays first, although other entries are older; then the oldest entry
        // goes.
        assert_eq!(evicted(&mut account, charge * 5), [3]);
        assert_eq!(evicted(&mut account, charge * 4), [4]);
        account.set_pinned(stored(1, 0, 0).id, true);
        assert_eq!(evicted(&mut account, 1), [5, 6, 2]);
        account.set_pinned(stored(1, 0, 0).id, false);
        assert_eq!(evicted(&mut account, 1), [1]);
    }

    #[test]
    fn touches_name_the_place_on_disk() {
        let mut account = Account::default();
        account.add(&stored(1, 10, 7), None);
        account.touch(stored(1, 0, 0).id);
        account.touch(stored(1, 0, 0).id);
        let touches = account.take_touches(10);
        assert_eq!(touches, [Touch { id: stored(1, 0, 0).id, from: 7, to: READ | 9 }]);
        assert!(account.take_touches(10).is_empty());
        assert_eq!(account.remove(stored(1, 0, 0).id).map(|removal| removal.tick), Some(READ | 9));
    }

    #[test]
    fn uses_that_are_not_written_outlive_a_rebuild() {
        let (mut account, entries) = (Account::default(), [stored(1, 10, 7), stored(2, 10, 8)]);
        account.reload(&entries);
        account.touch(entries[0].id);
        account.reload(&entries);
        assert_eq!(account.newest_first()[0], entries[0].id);
        assert_eq!(account.take_touches(10), [Touch { id: entries[0].id, from: 7, to: READ | 9 }]);
        assert_eq!(account.next_tick(), 10);
    }
}
