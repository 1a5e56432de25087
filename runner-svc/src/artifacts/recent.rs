//! A map that holds the latest entries.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// At most `MAX` entries: a further one evicts the oldest.
#[derive(Debug)]
pub(crate) struct Recent<K, V, const MAX: usize> {
    entries: HashMap<K, V>,
    /// Oldest first.
    order: VecDeque<K>,
}

impl<K, V, const MAX: usize> Default for Recent<K, V, MAX> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash, V: Default, const MAX: usize> Recent<K, V, MAX> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    /// The entry of `key`, which is new if there was none.
    pub(crate) fn entry(&mut self, key: K) -> &mut V {
        if !self.entries.contains_key(&key) {
            self.order.push_back(key);
            if self.order.len() > MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.entries.remove(&oldest);
            }
        }
        self.entries.entry(key).or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_remembered_the_latest() {
        let mut recent = Recent::<u32, u32, 10>::default();
        for key in (0..20).flat_map(|key| [key, key]) {
            *recent.entry(key) += key;
        }
        assert_eq!((recent.len(), recent.order.len()), (10, 10));
        let held = [9, 10, 19].map(|key| recent.get_mut(&key).copied());
        assert_eq!(held, [None, Some(20), Some(38)]);
    }
}
