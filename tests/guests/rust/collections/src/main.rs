//! Collections on the heap: maps, queues, strings, sorting by keys, reference counts. The last argument is the number of rounds.
#![no_std]
#![no_main]

extern crate atomics as _;

use alloc::{
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
    format,
    rc::Rc,
    string::String,
    vec::Vec,
};
use core::{cell::RefCell, cmp::Reverse};

use ckb_std::{default_alloc, entry, env};

entry!(main);
default_alloc!();

/// Pseudorandom numbers.
struct Numbers(u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Some(self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    name: String,
    weight: u64,
}

/// A tree whose nodes are shared.
struct Node {
    value: u64,
    children: RefCell<Vec<Rc<Node>>>,
}

impl Node {
    fn sum(&self) -> u64 {
        self.children.borrow().iter().fold(self.value, |sum, child| sum.wrapping_add(child.sum()))
    }
}

fn sorted(numbers: &mut Numbers) -> u64 {
    let mut entries: Vec<Entry> =
        numbers.take(120).map(|n| Entry { name: format!("{:03}", n % 500), weight: n >> 40 }).collect();
    entries.sort();
    let first = entries.first().map_or(0, |entry| entry.weight);
    entries.sort_unstable_by_key(|entry| Reverse(entry.weight));
    entries.dedup_by_key(|entry| entry.weight & 0xff);
    first ^ entries.iter().map(|entry| entry.weight).fold(0_u64, |sum, weight| sum.rotate_left(3) ^ weight)
}

fn counted(numbers: &mut Numbers) -> u64 {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for number in numbers.take(150) {
        let key: String =
            ['a', 'é', 'z'].iter().cycle().skip(number as usize % 3).take(number as usize % 7).collect();
        *counts.entry(key).or_default() += 1;
        seen.insert(number % 64);
    }
    counts.retain(|key, _| key.len() != 2);
    counts.range(String::from("a")..).map(|(key, count)| key.len() * count).sum::<usize>() as u64
        + seen.range(8..24).count() as u64
}

/// Shortest paths through a pseudorandom graph.
fn shortest(numbers: &mut Numbers) -> u64 {
    const NODES: usize = 40;
    let edges: Vec<[(usize, u64); 3]> = (0..NODES)
        .map(|_| [0; 3].map(|_| numbers.next().map_or((0, 1), |n| (n as usize % NODES, n >> 56))))
        .collect();
    let mut best = [u64::MAX; NODES];
    let mut heap = BinaryHeap::from([Reverse((0, 0_usize))]);
    while let Some(Reverse((way, node))) = heap.pop() {
        if way < best[node] {
            best[node] = way;
            heap.extend(edges[node].iter().map(|(next, length)| Reverse((way + length, *next))));
        }
    }
    best.iter().filter(|way| **way != u64::MAX).sum()
}

fn shared(numbers: &mut Numbers) -> u64 {
    let root = Rc::new(Node { value: 1, children: RefCell::default() });
    let mut queue = VecDeque::from([Rc::clone(&root)]);
    for value in numbers.take(60) {
        let Some(parent) = queue.pop_front() else { break };
        let child = Rc::new(Node { value, children: RefCell::default() });
        parent.children.borrow_mut().push(Rc::clone(&child));
        queue.extend([Rc::clone(&child), child, parent]);
    }
    root.sum() ^ Rc::strong_count(&root) as u64
}

fn main() -> i8 {
    let rounds = env::argv().last().and_then(|text| text.to_str().ok()).and_then(|text| text.parse().ok());
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut sum = 0_u64;
    for _ in 0..rounds.unwrap_or(1_u32) {
        for part in [sorted, counted, shortest, shared] {
            sum = sum.rotate_left(9) ^ part(&mut numbers);
        }
    }
    ((sum ^ sum >> 32) & 0x7f) as i8
}
