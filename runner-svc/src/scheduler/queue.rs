//! Who runs next: slots for runs, shared fairly between peers and the tenants of each, with a bounded number
//! of calls that wait.
//!
//! Peers that wait take turns, and so do the tenants of a peer, whatever the number of their calls: names
//! that a caller makes up buy turns from its own other calls alone. A call that finds the queue full takes
//! the place of the last one of the peer that has most waiting, if that is more than its own peer has, or
//! else of its own peer's tenant that has most, by the same rule; otherwise it is refused.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_serve::Peer;
use tokio::sync::oneshot;

use crate::tenant::Tenant;

/// The queue is full of calls that have as good a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Slots, and who waits for one.
#[derive(Debug)]
pub(crate) struct Queue {
    slots: usize,
    waiting_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: usize,
    peers: Turns<Peer, Turns<Arc<str>, Calls>>,
}

/// The calls of one tenant in the order in which they came.
type Calls = VecDeque<oneshot::Sender<Slot>>;

/// Whoever waits, and whose turn is next: that one is the first.
#[derive(Debug)]
struct Turns<K, W> {
    waiting: HashMap<K, W>,
    order: VecDeque<K>,
}

/// Calls that wait.
trait Waiting {
    /// How many.
    fn count(&self) -> usize;
}

/// The right to run; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: Arc<Queue>,
    tenant: Tenant,
}

impl Slot {
    /// For whom it is.
    pub(crate) fn tenant(&self) -> &str {
        &self.tenant.name
    }

    /// Whether no other slot is taken, and nobody waits for one.
    pub(crate) fn is_alone(&self) -> bool {
        let state = self.queue.state();
        state.free + 1 == self.queue.slots && state.waiting == 0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queue.give_back();
    }
}

impl Queue {
    /// A queue before `slots` runs at once, in which `waiting_max` calls may wait.
    pub(crate) fn new(slots: usize, waiting_max: usize) -> Self {
        let peers = Turns::default();
        Self { slots, waiting_max, state: Mutex::new(State { free: slots, waiting: 0, peers }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic half-way through a change.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(state.free <= self.slots && state.waiting <= self.waiting_max);
        debug_assert!(state.free == 0 || state.waiting == 0, "nobody waits where a slot is free");
        debug_assert_eq!(state.waiting, state.peers.count());
        state
    }

    /// Waits for a slot for `tenant`.
    pub(crate) async fn acquire(self: &Arc<Self>, tenant: &Tenant) -> Result<Slot, Full> {
        let slot = || Slot { queue: Arc::clone(self), tenant: tenant.clone() };
        let (waiter, wait) = oneshot::channel();
        {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(slot());
            }
            if state.waiting >= self.waiting_max {
                state.make_room_for(tenant)?;
            }
            state.push(tenant, waiter);
        }
        let _purge = Purge { queue: self, tenant };
        wait.await.map_err(|_| Full)
    }

    /// A slot for `tenant`, if one is free now.
    pub(crate) fn try_acquire(self: &Arc<Self>, tenant: &Tenant) -> Option<Slot> {
        let mut state = self.state();
        state.free = state.free.checked_sub(1)?;
        Some(Slot { queue: Arc::clone(self), tenant: tenant.clone() })
    }

    /// Hands a slot on to the next who waits.
    fn give_back(self: &Arc<Self>) {
        loop {
            let (tenant, waiter) = {
                let mut state = self.state();
                let Some(next) = state.pop() else {
                    state.free += 1;
                    return;
                };
                next
            };
            let slot = Slot { queue: Arc::clone(self), tenant };
            match waiter.send(slot) {
                Ok(()) => return,
                // Whoever waited has gone away. The slot must not be given back twice.
                Err(slot) => forget(slot),
            }
        }
    }
}

/// Takes `slot` apart without giving it back.
fn forget(slot: Slot) {
    let mut slot = std::mem::ManuallyDrop::new(slot);
    // The parts are replaced by others of no weight, and dropped.
    slot.tenant = Tenant::default();
    slot.queue = Arc::new(Queue::new(0, 0));
}

/// Takes calls that nobody waits for any more out of the queue.
struct Purge<'a> {
    queue: &'a Queue,
    tenant: &'a Tenant,
}

impl Drop for Purge<'_> {
    fn drop(&mut self) {
        self.queue.state().purge(self.tenant);
    }
}

impl State {
    fn push(&mut self, tenant: &Tenant, waiter: oneshot::Sender<Slot>) {
        self.waiting += 1;
        self.peers.of(&tenant.peer).of(&tenant.name).push_back(waiter);
    }

    /// The next call: the first one of the tenant whose turn it is, of the peer whose turn it is; both then
    /// are the last to have another.
    fn pop(&mut self) -> Option<(Tenant, oneshot::Sender<Slot>)> {
        let (peer, (name, waiter)) =
            self.peers.take_turn(|tenants| tenants.take_turn(VecDeque::pop_front))?;
        self.waiting -= 1;
        Some((Tenant { peer, name, ..Tenant::default() }, waiter))
    }

    /// Drops the last call of whoever has most, if that is more than `tenant` would have.
    fn make_room_for(&mut self, tenant: &Tenant) -> Result<(), Full> {
        let own = self.peers.count_of(&tenant.peer);
        let (peer, most) = self.peers.most().ok_or(Full)?;
        let peer = if most > own + 1 { peer } else { tenant.peer };
        let tenants = self.peers.waiting.get_mut(&peer).ok_or(Full)?;
        let own = tenants.count_of(&tenant.name);
        let (name, most) = tenants.most().ok_or(Full)?;
        if peer == tenant.peer && most <= own + 1 {
            return Err(Full);
        }
        // Its receiver learns of it.
        tenants.of(&name).pop_back();
        self.waiting -= 1;
        self.purge(&Tenant { peer, name, ..Tenant::default() });
        Ok(())
    }

    fn purge(&mut self, tenant: &Tenant) {
        let Some(tenants) = self.peers.waiting.get_mut(&tenant.peer) else { return };
        let Some(calls) = tenants.waiting.get_mut(&tenant.name) else { return };
        let before = calls.len();
        calls.retain(|waiter| !waiter.is_closed());
        self.waiting -= before - calls.len();
        tenants.forget_idle(&tenant.name);
        self.peers.forget_idle(&tenant.peer);
    }
}

impl<K, W> Default for Turns<K, W> {
    fn default() -> Self {
        let (waiting, order) = Default::default();
        Self { waiting, order }
    }
}

impl Waiting for Calls {
    fn count(&self) -> usize {
        self.len()
    }
}

impl<K, W: Waiting> Waiting for Turns<K, W> {
    fn count(&self) -> usize {
        self.waiting.values().map(Waiting::count).sum()
    }
}

impl<K: Clone + Eq + Hash, W: Default + Waiting> Turns<K, W> {
    /// The calls of `key`, which from now on has its turns.
    fn of(&mut self, key: &K) -> &mut W {
        self.waiting.entry(key.clone()).or_insert_with(|| {
            self.order.push_back(key.clone());
            W::default()
        })
    }

    fn count_of(&self, key: &K) -> usize {
        self.waiting.get(key).map_or(0, Waiting::count)
    }

    /// Who has most calls, and how many.
    fn most(&self) -> Option<(K, usize)> {
        let counts = self.waiting.iter().map(|(key, calls)| (key.clone(), calls.count()));
        counts.max_by_key(|(_, count)| *count)
    }

    /// What `take` takes from the calls of the one whose turn it is.
    fn take_turn<T>(&mut self, take: impl FnOnce(&mut W) -> Option<T>) -> Option<(K, T)> {
        let key = self.order.pop_front()?;
        let calls = self.waiting.get_mut(&key)?;
        let taken = take(calls)?;
        if calls.count() == 0 {
            self.waiting.remove(&key);
        } else {
            self.order.push_back(key.clone());
        }
        Some((key, taken))
    }

    /// Forgets `key` if it has no calls.
    fn forget_idle(&mut self, key: &K) {
        if self.count_of(key) == 0 && self.waiting.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use super::*;

    fn queue(slots: usize, waiting_max: usize) -> Arc<Queue> {
        Arc::new(Queue::new(slots, waiting_max))
    }

    fn named(name: &str) -> Tenant {
        Tenant { name: name.into(), ..Tenant::default() }
    }

    /// Looks once at each of `calls`; gives the places of those that have come to an end, and what they gave.
    async fn ended<F: Future>(calls: &mut [std::pin::Pin<Box<F>>]) -> Vec<(usize, F::Output)> {
        let mut found = Vec::new();
        for (index, call) in calls.iter_mut().enumerate() {
            let mut call = pin!(call);
            let look = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context)));
            if let Poll::Ready(output) = look.await {
                found.push((index, output));
            }
        }
        found
    }

    #[tokio::test]
    async fn what_can_wait_takes_no_slot_that_is_waited_for() {
        let queue = queue(1, 1);
        let tenant = named("one");
        let slot = queue.try_acquire(&tenant).unwrap();
        let mut calls = [Box::pin(queue.acquire(&tenant))];
        assert!(ended(&mut calls).await.is_empty() && queue.try_acquire(&tenant).is_none());
        drop(slot);
        assert!(queue.try_acquire(&tenant).is_none());
        drop(ended(&mut calls).await);
        assert!(queue.try_acquire(&tenant).is_some());
    }

    #[tokio::test]
    async fn a_slot_is_alone_while_no_other_is_taken_and_nobody_waits() {
        let queue = queue(2, 1);
        let tenant = named("one");
        let first = queue.try_acquire(&tenant).unwrap();
        assert!(first.is_alone());
        let second = queue.try_acquire(&tenant).unwrap();
        assert!(!first.is_alone());
        let mut calls = [Box::pin(queue.acquire(&tenant))];
        assert!(ended(&mut calls).await.is_empty());
        drop(second);
        // The one that waited has it.
        assert!(!first.is_alone());
        drop(ended(&mut calls).await);
        assert!(first.is_alone());
    }

    #[tokio::test]
    async fn tenants_take_turns() {
        let queue = queue(1, 100);
        let (many, few) = (named("many"), named("few"));
        let mut slot = queue.acquire(&many).await.unwrap();
        let mut order = Vec::new();
        let mut calls: Vec<_> = [&many, &many, &many, &many, &few, &few]
            .into_iter()
            .map(|tenant| Box::pin(queue.acquire(tenant)))
            .collect();
        assert!(ended(&mut calls).await.is_empty());
        for _ in 0..6 {
            drop(slot);
            let mut now = ended(&mut calls).await;
            let (index, next) = now.pop().unwrap();
            assert!(now.is_empty());
            drop(calls.remove(index));
            slot = next.unwrap();
            order.push(slot.tenant().to_owned());
        }
        assert_eq!(order, ["many", "few", "many", "few", "many", "many"]);
        drop(slot);
        let state = queue.state();
        assert_eq!((state.free, state.waiting, state.peers.order.len()), (1, 0, 0));
    }

    #[tokio::test]
    async fn names_buy_no_turns_from_other_peers() {
        let queue = queue(1, 5);
        let honest =
            Tenant { peer: Peer::from(std::net::SocketAddr::from(([127, 0, 0, 9], 1))), ..Tenant::default() };
        let names: Vec<Tenant> = (0..5).map(|number| named(&format!("t{number}"))).collect();
        let mut slot = queue.acquire(&names[0]).await.unwrap();
        let mut many: Vec<_> = names.iter().map(|tenant| Box::pin(queue.acquire(tenant))).collect();
        assert!(ended(&mut many).await.is_empty());
        // The queue is full of calls of as many names, which are one peer's.
        let mut few: Vec<_> = (0..2).map(|_| Box::pin(queue.acquire(&honest))).collect();
        assert!(ended(&mut few).await.is_empty());
        let mut order = Vec::new();
        for _ in 0..4 {
            drop(slot);
            let mut slots = Vec::new();
            for calls in [&mut many, &mut few] {
                for (index, ended) in ended(calls).await.into_iter().rev() {
                    drop(calls.remove(index));
                    // Those that had to go are not asked again.
                    slots.extend(ended.ok());
                }
            }
            slot = slots.pop().unwrap();
            assert!(slots.is_empty());
            order.push(slot.tenant.peer == honest.peer);
        }
        assert_eq!(order, [false, true, false, true]);
    }

    #[tokio::test]
    async fn a_full_queue_refuses_whoever_has_most() {
        let queue = queue(1, 3);
        let (many, few) = (named("many"), named("few"));
        let _slot = queue.acquire(&many).await.unwrap();
        let mut calls: Vec<_> = (0..3).map(|_| Box::pin(queue.acquire(&many))).collect();
        assert!(ended(&mut calls).await.is_empty());
        assert!(matches!(queue.acquire(&many).await, Err(Full)));
        let mut first = [Box::pin(queue.acquire(&few))];
        assert!(ended(&mut first).await.is_empty());
        assert!(matches!(ended(&mut calls).await[..], [(2, Err(Full))]));
        calls.pop();
        // Two of one and one of the other: neither has a better right.
        assert!(matches!(queue.acquire(&few).await, Err(Full)));
        assert_eq!(queue.state().waiting, 3);
    }

    #[tokio::test]
    async fn who_goes_away_leaves_its_place_and_its_slot() {
        let queue = queue(1, 1);
        let tenant = named("");
        let slot = queue.acquire(&tenant).await.unwrap();
        for _ in 0..10 {
            let mut gone = [Box::pin(queue.acquire(&tenant))];
            assert!(ended(&mut gone).await.is_empty());
        }
        assert_eq!(queue.state().waiting, 0);
        // One that was given a slot, and went before it looked.
        let mut call = [Box::pin(queue.acquire(&tenant))];
        assert!(ended(&mut call).await.is_empty());
        drop(slot);
        drop(call);
        assert_eq!(queue.state().free, 1);
    }
}
