//! Which cells stay hot.
//!
//! A tenant holds what it has used. When room is needed, who has more than its share (all room, divided by
//! the tenants that hold something) lets go of what it used longest ago: who brings cells without end moves
//! its own. What is pinned stays; where nobody can make room, a cell that comes is not kept.

use std::{
    collections::{BTreeMap, HashMap, hash_map},
    ptr,
    sync::{Arc, Weak},
};

use antares_abi::Sha256Digest;

use crate::verify::hot_cells::HotCell;

/// Bytes that the kernel gives a file at a time.
const PAGE_BYTES: u64 = 4096;

/// Of eight parts of the set, so many may be pinned for one tenant: there is always room for another one.
const PINNED_EIGHTHS_MAX: u64 = 7;

/// A tenant, by name.
pub(crate) type Holder = Arc<str>;

/// Hot cells by last use, of all tenants together at most so many bytes and files.
pub(crate) struct HotSet {
    bytes_max: u64,
    /// The least that a cell counts: each takes a descriptor, and there are so many.
    charge_min: u64,
    entries: HashMap<Sha256Digest, Entry>,
    holders: HashMap<Holder, Holds>,
    /// Those that left, or were not kept, while somebody held them.
    still_held: HashMap<Sha256Digest, Weak<HotCell>>,
    tick: u64,
    charged: u64,
    bytes: u64,
    hits: u64,
    misses: u64,
}

struct Entry {
    cell: Arc<HotCell>,
    charge: u64,
    /// When each of its holders used it last.
    used: HashMap<Holder, u64>,
    /// How many times it is pinned for each of them.
    pins: HashMap<Holder, u64>,
}

/// What a tenant holds.
#[derive(Default)]
struct Holds {
    charged: u64,
    /// Of cells that are pinned for it.
    pinned: u64,
    /// Keys by the tick of their last use.
    order: BTreeMap<u64, Sha256Digest>,
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HotCellsStats {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

impl HotSet {
    /// Nothing yet.
    pub(crate) fn new(bytes_max: u64, entries_max: u64) -> Self {
        Self {
            bytes_max,
            charge_min: bytes_max / entries_max.max(1),
            entries: HashMap::new(),
            holders: HashMap::new(),
            still_held: HashMap::new(),
            tick: 0,
            charged: 0,
            bytes: 0,
            hits: 0,
            misses: 0,
        }
    }

    pub(crate) fn stats(&self) -> HotCellsStats {
        let entries = self.entries.len() as u64;
        HotCellsStats { bytes: self.bytes, entries, hits: self.hits, misses: self.misses }
    }

    /// The cell with this key, which `holder` uses from now on.
    pub(crate) fn find(&mut self, holder: &Holder, key: Sha256Digest) -> Option<Arc<HotCell>> {
        let Some(entry) = self.entries.get(&key) else {
            let still_held = self.still_held.get(&key).and_then(Weak::upgrade);
            let counted = if still_held.is_some() { &mut self.hits } else { &mut self.misses };
            *counted += 1;
            return still_held;
        };
        let cell = entry.cell.clone();
        self.hits += 1;
        self.hold(holder, key);
        Some(cell)
    }

    /// Keeps `cell` for `holder`, if there is room or can be made. What is larger than everything is not
    /// kept.
    pub(crate) fn put(&mut self, holder: &Holder, key: Sha256Digest, cell: Arc<HotCell>) {
        let charge = self.charge(&cell);
        if !self.entries.contains_key(&key) {
            if charge > self.bytes_max || !self.make_room(holder, charge) {
                return self.keep_held(key, &cell);
            }
            self.bytes += cell.sealed.len();
            self.charged += charge;
            let (used, pins) = (HashMap::new(), HashMap::new());
            self.entries.insert(key, Entry { cell, charge, used, pins });
        }
        self.hold(holder, key);
    }

    /// What a cell counts: whole pages and one more, for the records of it.
    fn charge(&self, cell: &HotCell) -> u64 {
        (cell.sealed.len().next_multiple_of(PAGE_BYTES) + PAGE_BYTES).max(self.charge_min)
    }

    /// Notes that `holder` uses a cell that is there.
    fn hold(&mut self, holder: &Holder, key: Sha256Digest) {
        self.tick += 1;
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let holds = self.holders.entry(holder.clone()).or_default();
        match entry.used.insert(holder.clone(), self.tick) {
            Some(before) => drop(holds.order.remove(&before)),
            None => holds.charged += entry.charge,
        }
        holds.order.insert(self.tick, key);
    }

    /// Whether `holder` may put something that counts `charge`: others, or itself, have let go of enough.
    fn make_room(&mut self, holder: &Holder, charge: u64) -> bool {
        while self.charged + charge > self.bytes_max {
            if !self.let_go(holder, charge) {
                return false;
            }
        }
        true
    }

    /// Has somebody let go of what is used longest ago and not pinned: `holder` itself, if it has more than
    /// its share with `charge`; else who has most of those that have more than theirs; where these can let
    /// nothing go, itself all the same.
    fn let_go(&mut self, holder: &Holder, charge: u64) -> bool {
        let own = self.holders.get(holder);
        let holders = self.holders.len() + usize::from(own.is_none());
        let share = self.bytes_max / holders.max(1) as u64;
        let is_own = own.map_or(0, |holds| holds.charged) + charge > share;
        let over = self.holders.iter().filter(|(_, holds)| !is_own && holds.charged > share);
        let mut givers: Vec<_> = over.map(|(giver, holds)| (holds.charged, giver.clone())).collect();
        givers.sort_unstable_by(|one, other| other.cmp(one));
        givers.push((0, holder.clone()));
        let found = givers.into_iter().find_map(|(_, giver)| {
            let order = &self.holders.get(&giver)?.order;
            let is_free = |key: &&Sha256Digest| {
                self.entries.get(*key).is_some_and(|entry| !entry.pins.contains_key(&giver))
            };
            let key = *order.values().find(is_free)?;
            Some((giver, key))
        });
        if let Some((giver, key)) = &found {
            self.release(giver, *key);
        }
        found.is_some()
    }

    /// `giver` lets go of a cell; what nobody holds any more goes.
    fn release(&mut self, giver: &Holder, key: Sha256Digest) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(holds) = self.holders.get_mut(giver)
            && let Some(tick) = entry.used.remove(giver)
        {
            holds.order.remove(&tick);
            holds.charged -= entry.charge;
            if holds.order.is_empty() {
                self.holders.remove(giver);
            }
        }
        if entry.used.is_empty()
            && let Some(entry) = self.entries.remove(&key)
        {
            self.charged -= entry.charge;
            self.bytes -= entry.cell.sealed.len();
            self.keep_held(key, &entry.cell);
        }
    }

    /// Remembers a cell that is not in the set, if somebody holds it beside the caller.
    fn keep_held(&mut self, key: Sha256Digest, cell: &Arc<HotCell>) {
        if Arc::strong_count(cell) > 1 {
            self.still_held.retain(|_, cell| cell.strong_count() > 0);
            self.still_held.insert(key, Arc::downgrade(cell));
        }
    }

    /// Whether a cell stays from now on until it is unpinned.
    pub(crate) fn pin(&mut self, holder: &Holder, key: Sha256Digest, cell: &HotCell) -> bool {
        self.hold(holder, key);
        let pinned_max = self.bytes_max / 8 * PINNED_EIGHTHS_MAX;
        let entry = self.entries.get_mut(&key).filter(|entry| ptr::eq(&raw const *entry.cell, cell));
        let Some(entry) = entry else { return false };
        let Some(holds) = self.holders.get_mut(holder) else { return false };
        match entry.pins.entry(holder.clone()) {
            hash_map::Entry::Occupied(mut pins) => *pins.get_mut() += 1,
            hash_map::Entry::Vacant(_) if holds.pinned + entry.charge > pinned_max => return false,
            hash_map::Entry::Vacant(place) => {
                place.insert(1);
                holds.pinned += entry.charge;
            }
        }
        true
    }

    /// Takes a pin out again.
    pub(crate) fn unpin(&mut self, holder: &Holder, key: Sha256Digest) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let Some(pins) = entry.pins.get_mut(holder) else { return };
        *pins -= 1;
        if *pins == 0 {
            entry.pins.remove(holder);
            if let Some(holds) = self.holders.get_mut(holder) {
                holds.pinned -= entry.charge;
            }
        }
    }
}

#[cfg(test)]
impl HotSet {
    pub(crate) fn has(&self, key: Sha256Digest) -> bool {
        self.entries.contains_key(&key)
    }

    /// Of all cells, and of what all tenants hold.
    pub(crate) fn charges(&self) -> (u64, u64) {
        (self.charged, self.holders.values().map(|holds| holds.charged).sum())
    }
}
