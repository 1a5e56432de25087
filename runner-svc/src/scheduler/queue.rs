//! Slots for runs, shared fairly between callers, with a bounded number of waiting calls.
//!
//! The next slot is for the caller with the least worker time, and within it for the tenant with the least:
//! made-up names take time only from the caller's own calls. Calls of one tenant stay in order. A call beyond
//! the bound displaces the last call of the caller with the most waiting calls, or its own if none has more.
//! Within that caller, the tenant with the most loses its last call.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_serve::{Fault, Identity, RunEstimate};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};

use crate::{
    scheduler::shares::{Moment, RECENT_US, Shares, Waiting},
    tenant::Tenant,
};

/// The queue is full of calls with an equal right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Slots, and the calls waiting for one.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting_max: usize,
    start: Instant,
    state: Mutex<State<oneshot::Sender<Slot>>>,
}

/// The queue without a clock: `now` is in microseconds.
#[derive(Debug)]
struct State<C> {
    slots: usize,
    free: usize,
    callers: Shares<Identity, Shares<Arc<str>, VecDeque<C>>>,
}

/// A tenant of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    caller: Identity,
    name: Arc<str>,
}

/// The right to run; returned on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: Arc<Queue>,
    key: Key,
    since: u64,
    /// Of a run that a quota counts.
    pub(super) estimate: Option<RunEstimate>,
}

impl Key {
    fn of(tenant: &Tenant) -> Self {
        Self { caller: tenant.account.identity(), name: tenant.name.clone() }
    }
}

impl Slot {
    /// The tenant that holds it.
    pub(crate) fn tenant(&self) -> &str {
        &self.key.name
    }

    /// Charges the run's estimate if the quota allows it.
    pub(super) fn begin(mut self, tenant: &Tenant) -> Result<Self, Fault> {
        self.estimate = tenant.account.begin_run()?;
        Ok(self)
    }

    /// Whether no other slot is taken and no call waits for one.
    pub(crate) fn is_alone(&self) -> bool {
        let state = self.queue.state.lock();
        state.free + 1 == state.slots && state.callers.count() == 0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        let now = self.queue.now();
        state.end(&self.key, self.since, now);
        drop(state);
        self.queue.hand_out();
    }
}

impl Queue {
    /// A queue for `slots` concurrent runs and up to `waiting_max` waiting calls.
    pub(crate) fn new(slots: usize, waiting_max: usize) -> Self {
        Self { waiting_max, start: Instant::now(), state: Mutex::new(State::new(slots)) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits for a slot for `tenant`.
    pub(crate) async fn acquire(self: &Arc<Self>, tenant: &Tenant) -> Result<Slot, Full> {
        let key = Key::of(tenant);
        let mut wait = self.enter(&key);
        self.state.lock().shed(&key, self.waiting_max);
        loop {
            match timeout(Duration::from_micros(RECENT_US), &mut wait.slot).await {
                Ok(slot) => return slot.map_err(|_| Full),
                // The last worker may have waited long enough for other callers.
                Err(_) => self.hand_out(),
            }
        }
    }

    /// A slot for `tenant`, if one is free now.
    pub(crate) fn try_acquire(self: &Arc<Self>, tenant: &Tenant) -> Option<Slot> {
        if self.state.lock().free == 0 {
            return None;
        }
        let key = Key::of(tenant);
        self.enter(&key).slot.try_recv().ok()
    }

    fn enter<'a>(self: &'a Arc<Self>, key: &'a Key) -> Wait<'a> {
        let (waiter, slot) = oneshot::channel();
        let mut state = self.state.lock();
        let now = self.now();
        state.push(key, waiter, now);
        drop(state);
        self.hand_out();
        Wait { queue: self, key, slot }
    }

    /// Hands free slots to the next calls.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let since = self.now();
            let Some((key, waiter)) = state.next(since) else { return };
            drop(state);
            // A slot for a call that has gone away returns here.
            drop(waiter.send(Slot { queue: Arc::clone(self), key, since, estimate: None }));
        }
    }
}

/// A call in the queue. Leaves it if it is dropped without a slot.
struct Wait<'a> {
    queue: &'a Queue,
    key: &'a Key,
    slot: oneshot::Receiver<Slot>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.slot.is_terminated() {
            return;
        }
        self.slot.close();
        if let Some(calls) = self.queue.state.lock().calls(self.key) {
            calls.retain(|waiter| !waiter.is_closed());
        }
    }
}

impl<C> State<C> {
    fn new(slots: usize) -> Self {
        Self { slots, free: slots, callers: Shares::default() }
    }

    fn push(&mut self, key: &Key, call: C, now: u64) {
        let tenants = &mut self.callers.enter(&key.caller, now).waiting;
        tenants.enter(&key.name, now).waiting.push_back(call);
    }

    /// The call that gets the next free slot.
    fn next(&mut self, now: u64) -> Option<(Key, C)> {
        let free = self.free.checked_sub(1)?;
        let moment = Moment { now, is_last: free == 0 && self.slots > 1 };
        let caller = self.callers.next(moment)?;
        let name = self.callers.all.get(&caller)?.waiting.next(moment)?;
        let tenants = &mut self.callers.begin(&caller, now).waiting;
        let call = tenants.begin(&name, now).waiting.pop_front()?;
        self.free = free;
        Some((Key { caller, name }, call))
    }

    fn end(&mut self, key: &Key, since: u64, now: u64) {
        self.free += 1;
        if let Some(caller) = self.callers.end(&key.caller, since, now) {
            caller.waiting.end(&key.name, since, now);
        }
    }

    /// Drops a call if more than `waiting_max` wait after the arrival of one of `key`.
    fn shed(&mut self, key: &Key, waiting_max: usize) {
        if self.callers.count() <= waiting_max {
            return;
        }
        let caller = self.callers.most(&key.caller).unwrap_or(key.caller);
        let tenants = self.callers.all.get(&caller).and_then(|share| share.waiting.most(&key.name));
        let name = tenants.unwrap_or_default();
        // Dropping the sender notifies its receiver.
        self.calls(&Key { caller, name }).and_then(VecDeque::pop_back);
    }

    fn calls(&mut self, key: &Key) -> Option<&mut VecDeque<C>> {
        let tenants = &mut self.callers.all.get_mut(&key.caller)?.waiting;
        Some(&mut tenants.all.get_mut(&key.name)?.waiting)
    }
}

impl<C> Waiting for VecDeque<C> {
    fn count(&self) -> usize {
        self.len()
    }

    fn is_ready(&self, _: Moment) -> bool {
        !self.is_empty()
    }
}

#[cfg(test)]
mod tests;
