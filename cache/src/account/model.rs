//! A model test of the account: after random operations its sums match its entries, and pinned
//! entries stay.

use super::*;
use crate::manifest::Manifest;

const ENTRIES: u8 = 12;

struct Model {
    account: Account,
    random: u64,
}

impl Model {
    /// A random number below `end`, which must not be 0.
    fn below(&mut self, end: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    fn id(&mut self) -> EntryId {
        let space = [Space::Script, Space::Artifact][usize::from(self.below(2) == 0)];
        EntryId::new(space, [u8::try_from(self.below(ENTRIES.into())).unwrap_or(0); 32])
    }

    fn stored(&mut self) -> Stored {
        let length = usize::try_from(self.below(3_000)).unwrap_or(0);
        let manifest = Manifest::of(&vec![0; length], [0; 32], 0).expect("few chunks");
        let tick = self.account.next_tick();
        Stored { id: self.id(), manifest, tick }
    }

    fn step(&mut self) {
        match self.below(7) {
            0..3 => {
                let (stored, peer) = (self.stored(), self.below(3));
                let owner = Owner { peer, tenant: self.below(2) };
                self.account.add(&stored, (peer > 0).then_some(owner));
            }
            3 => {
                let id = self.id();
                self.account.touch(id);
            }
            4 => {
                let id = self.id();
                self.account.renew(id);
            }
            5 => {
                let (id, is_pinned) = (self.id(), self.below(2) == 0);
                self.account.set_pinned(id, is_pinned);
            }
            _ => self.evict(),
        }
        if self.below(10) == 0 {
            let id = self.id();
            let was_there = self.account.contains(id);
            assert_eq!(self.account.remove(id).is_some(), was_there);
            self.account.take_touches(3);
        }
    }

    fn evict(&mut self) {
        let space = self.id().space;
        let (bytes, before) = (self.below(4_000), self.account.charged());
        let kept = self.account.pinned.iter().filter(|id| self.account.contains(**id));
        let kept: Vec<_> = kept.copied().collect();
        let removals = self.account.evict(space, bytes, 4);
        assert!(kept.iter().all(|id| self.account.contains(*id)), "what is kept from eviction stays");
        assert!(removals.iter().all(|removal| removal.id.space == space) && removals.len() <= 4);
        let freed = before.of(space) - self.account.charged().of(space);
        assert!(removals.is_empty() || freed > 0);
    }

    fn check_invariants(&self) {
        let Account { lines, order, touched, held, charged, last_tick, .. } = &self.account;
        let of = |space| lines.iter().filter(move |(id, _)| id.space == space).map(|(_, line)| line);
        for space in [Space::Script, Space::Artifact] {
            assert_eq!(charged.of(space), of(space).map(|line| line.charged_bytes).sum::<u64>());
        }
        let places: BTreeSet<_> = lines.iter().map(|(id, line)| (line.tick, *id)).collect();
        assert_eq!(*order, places);
        assert!(touched.iter().all(|id| lines.contains_key(id)));
        assert!(lines.values().all(|line| line.tick & !READ <= *last_tick));
        let mut owned: HashMap<(Space, Owner), u64> = HashMap::new();
        for (id, line) in lines {
            if let Some(owner) = line.owner {
                *owned.entry((id.space, owner)).or_default() += line.charged_bytes;
            }
        }
        owned.retain(|_, bytes| *bytes > 0);
        assert_eq!(*held, owned);
    }
}

#[test]
fn sums_are_those_of_the_lines() {
    for seed in 0..30 {
        let mut model = Model { account: Account::default(), random: seed };
        for _ in 0..1_000 {
            model.step();
            model.check_invariants();
        }
    }
}
