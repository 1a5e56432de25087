//! Who runs next: slots for runs, shared fairly between tenants, with a bounded number of calls that wait.
//!
//! Tenants that wait take turns, whatever the number of their calls. A call that finds the queue full takes the place of
//! the last one of the tenant that has most waiting, if that is more than its own tenant has; otherwise it is refused.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The queue is full of calls that have as good a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Slots, and who waits for one.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: usize,
    /// The calls of each tenant that has any, in the order in which they came.
    calls: HashMap<Arc<str>, VecDeque<oneshot::Sender<Slot>>>,
    /// The same tenants, the one whose turn is next first.
    turns: VecDeque<Arc<str>>,
}

/// The right to run; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: Arc<Queue>,
    tenant: Arc<str>,
}

impl Slot {
    /// For whom it is.
    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
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
        let (calls, turns) = Default::default();
        Self { waiting_max, state: Mutex::new(State { free: slots, waiting: 0, calls, turns }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot for `tenant`.
    pub(crate) async fn acquire(self: &Arc<Self>, tenant: &Arc<str>) -> Result<Slot, Full> {
        let slot = || Slot { queue: Arc::clone(self), tenant: Arc::clone(tenant) };
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
    slot.tenant = Arc::from("");
    slot.queue = Arc::new(Queue::new(0, 0));
}

/// Takes calls that nobody waits for any more out of the queue.
struct Purge<'a> {
    queue: &'a Queue,
    tenant: &'a Arc<str>,
}

impl Drop for Purge<'_> {
    fn drop(&mut self) {
        self.queue.state().purge(self.tenant);
    }
}

impl State {
    fn push(&mut self, tenant: &Arc<str>, waiter: oneshot::Sender<Slot>) {
        self.waiting += 1;
        let calls = self.calls.entry(Arc::clone(tenant)).or_insert_with(|| {
            self.turns.push_back(Arc::clone(tenant));
            VecDeque::new()
        });
        calls.push_back(waiter);
    }

    /// The next call: the first one of the tenant whose turn it is, who then is the last to have another.
    fn pop(&mut self) -> Option<(Arc<str>, oneshot::Sender<Slot>)> {
        let tenant = self.turns.pop_front()?;
        let calls = self.calls.get_mut(&tenant)?;
        let waiter = calls.pop_front()?;
        self.waiting -= 1;
        if calls.is_empty() {
            self.calls.remove(&tenant);
        } else {
            self.turns.push_back(Arc::clone(&tenant));
        }
        Some((tenant, waiter))
    }

    /// Drops the last call of the tenant that has most, if these are more than `tenant` would have.
    fn make_room_for(&mut self, tenant: &Arc<str>) -> Result<(), Full> {
        let own = self.calls.get(tenant).map_or(0, VecDeque::len);
        let (most, calls) = self.calls.iter_mut().max_by_key(|(_, calls)| calls.len()).ok_or(Full)?;
        if calls.len() <= own + 1 {
            return Err(Full);
        }
        let most = Arc::clone(most);
        // Its receiver learns of it.
        calls.pop_back();
        self.waiting -= 1;
        self.purge(&most);
        Ok(())
    }

    fn purge(&mut self, tenant: &Arc<str>) {
        let Some(calls) = self.calls.get_mut(tenant) else { return };
        let before = calls.len();
        calls.retain(|waiter| !waiter.is_closed());
        self.waiting -= before - calls.len();
        if calls.is_empty() {
            self.calls.remove(tenant);
            self.turns.retain(|other| other != tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use super::*;

    fn queue(slots: usize, waiting_max: usize) -> Arc<Queue> {
        Arc::new(Queue::new(slots, waiting_max))
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
    async fn tenants_take_turns() {
        let queue = queue(1, 100);
        let (many, few) = (Arc::from("many"), Arc::from("few"));
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
        assert_eq!((state.free, state.waiting, state.turns.len()), (1, 0, 0));
    }

    #[tokio::test]
    async fn a_full_queue_refuses_whoever_has_most() {
        let queue = queue(1, 3);
        let (many, few) = (Arc::from("many"), Arc::from("few"));
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
        let tenant = Arc::from("");
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
