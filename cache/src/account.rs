//! The account of what is stored: bytes charged, order of use, leases. In memory, rebuilt from the manifests
//! at open.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use crate::{
    entry::{EntryId, Owner, Space},
    stats::PerSpace,
    store::{Removal, Stored, Touch},
};

/// An entry as `Cache::list` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: [u8; 32],
    /// Payload bytes.
    pub bytes: u64,
    /// Whether it is kept from eviction.
    pub is_pinned: bool,
    /// Whether it was read since it was stored.
    pub was_read: bool,
}

/// One stored entry.
#[derive(Clone, Copy, Debug)]
struct Line {
    total_bytes: u64,
    charged_bytes: u64,
    chunks: u32,
    /// Place in the order of use.
    tick: u64,
    /// The place that the store has on disk.
    stored_tick: u64,
    owner: Option<Owner>,
}

/// In a place of the order of use: the entry was read since it was stored. Whoever stores much shall not push
/// out what is used, so all that was never read goes first.
const READ: u64 = 1 << 63;

/// One part in so many of a space stays for entries that were not read yet, so that a new one has time to be.
const UNREAD_PARTS: u64 = 4;

/// One part in so many of a space is the share of one owner: what it stores beyond that pushes out its own.
const OWNER_PARTS: u64 = 4;

/// What the cache knows about its entries without asking the store.
///
/// The order of use is a counter, not a clock: it cannot jump.
#[derive(Debug, Default)]
pub(crate) struct Account {
    lines: HashMap<EntryId, Line>,
    order: BTreeSet<(u64, EntryId)>,
    touched: BTreeSet<EntryId>,
    leases: HashMap<EntryId, u32>,
    pinned: HashSet<EntryId>,
    /// Charged bytes by who had them stored, where that is known.
    held: HashMap<(Space, Owner), u64>,
    logical_bytes: u64,
    charged: PerSpace,
    last_tick: u64,
}

impl Account {
    /// Replaces all lines by `entries`; leases, pins and owners stay.
    pub(crate) fn reload(&mut self, entries: &[Stored]) {
        let before = std::mem::take(self);
        *self = Self { leases: before.leases, pinned: before.pinned, ..Self::default() };
        for stored in entries {
            let owner = before.lines.get(&stored.id).and_then(|line| line.owner);
            self.add(stored, owner);
        }
    }

    /// Adds the line of an entry that the store has.
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
        self.logical_bytes += line.total_bytes;
        *self.charged.of_mut(stored.id.space) += line.charged_bytes;
        self.last_tick = self.last_tick.max(line.tick & !READ);
        self.order.insert((line.tick, stored.id));
        self.lines.insert(stored.id, line);
    }

    /// Strikes the line of an entry; returns how the store knows it.
    pub(crate) fn remove(&mut self, id: EntryId) -> Option<Removal> {
        let line = self.lines.remove(&id)?;
        self.logical_bytes -= line.total_bytes;
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

    /// The next place in the order of use.
    pub(crate) fn next_tick(&mut self) -> u64 {
        self.last_tick += 1;
        self.last_tick
    }

    /// Moves an entry that was read to the end of the order of use.
    pub(crate) fn touch(&mut self, id: EntryId) {
        self.move_to_end(id, READ);
    }

    /// Moves an entry that was to be stored again to the end of those like it: that is no use.
    pub(crate) fn renew(&mut self, id: EntryId) {
        self.move_to_end(id, 0);
    }

    fn move_to_end(&mut self, id: EntryId, read: u64) {
        let tick = self.next_tick();
        if let Some(line) = self.lines.get_mut(&id) {
            let tick = tick | read | line.tick & READ;
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

    /// Strikes lines of `space` that are not leased until `bytes` less are charged, at most `limit` of them:
    /// those never read before the least recently read, unless they are little; in each group the oldest
    /// first. An owner that has more than its share pays first, down to its share.
    pub(crate) fn evict(&mut self, space: Space, bytes: u64, limit: usize) -> Vec<Removal> {
        if let Some((owner, surplus)) = self.payer(space) {
            let removals = self.evict_of(space, Some(owner), bytes.min(surplus), limit);
            if !removals.is_empty() {
                return removals;
            }
        }
        self.evict_of(space, None, bytes, limit)
    }

    /// The owner that has most of `space`, if that is more than its share, and how much more. A share is that
    /// of a peer, and the same part of what a peer has for each of its tenants.
    fn payer(&self, space: Space) -> Option<(Owner, u64)> {
        let held = || {
            self.held.iter().filter(|((of, _), _)| *of == space).map(|((_, owner), bytes)| (*owner, *bytes))
        };
        let mut peers: HashMap<u64, u64> = HashMap::new();
        held().for_each(|(owner, bytes)| *peers.entry(owner.peer).or_default() += bytes);
        let (peer, bytes) = peers.into_iter().max_by_key(|&(peer, bytes)| (bytes, peer))?;
        let surplus = bytes.saturating_sub(*self.charged.of(space) / OWNER_PARTS);
        let of_peer = held().filter(|(owner, _)| owner.peer == peer);
        let (owner, held) = of_peer.max_by_key(|(owner, bytes)| (*bytes, owner.tenant))?;
        (surplus > 0).then_some((owner, surplus.min(held)))
    }

    fn evict_of(&mut self, space: Space, owner: Option<Owner>, bytes: u64, limit: usize) -> Vec<Removal> {
        let is_idle = |id: &EntryId| !self.leases.contains_key(id) && !self.pinned.contains(id);
        let is_payer = |id| owner.is_none() || self.lines.get(id).is_some_and(|line| line.owner == owner);
        let idle = self.order.iter().filter(|(_, id)| id.space == space && is_idle(id) && is_payer(id));
        let lines =
            idle.filter_map(|&(tick, id)| Some((tick & READ != 0, id, self.lines.get(&id)?.charged_bytes)));
        let (read, unread): (VecDeque<_>, VecDeque<_>) = lines.partition(|(is_read, ..)| *is_read);
        let mut groups = [unread, read];
        let charged =
            |group: &VecDeque<(bool, EntryId, u64)>| group.iter().map(|(.., charge)| charge).sum::<u64>();
        let mut charges = [charged(&groups[0]), charged(&groups[1])];
        let (mut excess, mut chosen) = (bytes, Vec::new());
        while excess > 0 && chosen.len() < limit {
            let first = usize::from(charges[0] <= (charges[0] + charges[1]) / UNREAD_PARTS);
            let Some(from) = [first, 1 - first].into_iter().find(|&group| !groups[group].is_empty()) else {
                break;
            };
            if let Some((_, id, charge)) = groups[from].pop_front() {
                charges[from] -= charge;
                excess = excess.saturating_sub(charge);
                chosen.push(id);
            }
        }
        chosen.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Keeps an entry from eviction, stored already or not.
    pub(crate) fn lease(&mut self, id: EntryId) {
        *self.leases.entry(id).or_default() += 1;
    }

    /// Gives a lease back.
    pub(crate) fn release(&mut self, id: EntryId) {
        if let Some(count) = self.leases.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.leases.remove(&id);
            }
        }
    }

    /// Takes over what is kept from eviction.
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

    /// What all pinned entries but `id` are charged.
    pub(crate) fn pinned_bytes(&self, id: EntryId) -> u64 {
        self.pinned.iter().filter(|pinned| **pinned != id).filter_map(|pinned| self.charge(*pinned)).sum()
    }

    /// What an entry is charged, if it is stored.
    pub(crate) fn charge(&self, id: EntryId) -> Option<u64> {
        self.lines.get(&id).map(|line| line.charged_bytes)
    }

    /// The first entries of a space behind `after`, by key.
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

    /// Chunks that an entry rightfully has; zero for one that is not stored.
    pub(crate) fn chunks(&self, id: EntryId) -> u32 {
        self.lines.get(&id).map_or(0, |line| line.chunks)
    }

    /// All entries, most recently used first.
    pub(crate) fn newest_first(&self) -> Vec<EntryId> {
        self.order.iter().rev().map(|&(_, id)| id).collect()
    }

    /// Place of an entry in the order of use.
    pub(crate) fn tick(&self, id: EntryId) -> Option<u64> {
        self.lines.get(&id).map(|line| line.tick)
    }

    pub(crate) fn entries(&self, space: Space) -> u64 {
        self.lines.keys().filter(|id| id.space == space).count() as u64
    }

    pub(crate) fn logical_bytes(&self) -> u64 {
        self.logical_bytes
    }

    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged.script + self.charged.artifact
    }

    /// By space.
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
    fn the_least_recently_used_go_first_and_leased_ones_stay() {
        let mut account = Account::default();
        account.reload(&[stored(1, 1000, 5), stored(2, 1000, 3), stored(3, 1000, 4)]);
        account.touch(stored(2, 0, 0).id);
        account.lease(stored(3, 0, 0).id);
        assert_eq!(account.newest_first()[0].key[0], 2);
        assert_eq!(evicted(&mut account, 1), [1, 2]);
        assert!(account.contains(stored(3, 0, 0).id));
        account.release(stored(3, 0, 0).id);
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
    fn eviction_stops_as_soon_as_it_is_enough() {
        let mut account = Account::default();
        account.reload(&[stored(1, 1000, 1), stored(2, 1000, 2)]);
        let charged = account.charged_bytes();
        assert!(evicted(&mut account, charged).is_empty());
        assert_eq!(evicted(&mut account, charged - 1), [1]);
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
        // Of peer 2 the tenant that has most, although others are older; then what is oldest.
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
    fn adding_twice_counts_once() {
        let mut account = Account::default();
        account.add(&stored(1, 10, 1), None);
        account.add(&stored(1, 20, 2), None);
        assert_eq!(account.logical_bytes(), 20);
        assert_eq!(account.entries(Space::Artifact), 1);
    }
}
