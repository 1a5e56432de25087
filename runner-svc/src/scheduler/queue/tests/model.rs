//! A model of the queue: calls arrive, leave and end in any order. No slot is lost or given twice, and nobody
//! waits while more than the last one is free.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use crate::scheduler::queue::*;

const SLOTS: usize = 3;
const WAITING_MAX: usize = 6;

type Call = Pin<Box<dyn Future<Output = Result<Slot, Full>>>>;

struct Model {
    queue: Arc<Queue>,
    random: u64,
    waiting: Vec<Call>,
    running: Vec<Slot>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let queue = Arc::new(Queue::new(SLOTS, WAITING_MAX));
        Self { queue, random: seed, waiting: Vec::new(), running: Vec::new() }
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.random >> 33).unwrap_or(0) % end
    }

    fn tenant(&mut self) -> Tenant {
        let account = antares_serve::Account::proven(["x", "y"][self.below(2)]);
        Tenant { name: ["a", "b", "c"][self.below(3)].into(), account }
    }

    fn step(&mut self) {
        match self.below(6) {
            0..3 => {
                let (queue, tenant) = (self.queue.clone(), self.tenant());
                self.waiting.push(Box::pin(async move { queue.acquire(&tenant).await }));
            }
            3 => {
                let tenant = self.tenant();
                self.running.extend(self.queue.try_acquire(&tenant));
            }
            // It left while waiting, with or without a slot on its way.
            4 if !self.waiting.is_empty() => {
                let at = self.below(self.waiting.len());
                drop(self.waiting.swap_remove(at));
            }
            _ if !self.running.is_empty() => {
                let at = self.below(self.running.len());
                drop(self.running.swap_remove(at));
            }
            _ => {}
        }
        if self.below(3) > 0 {
            self.poll();
        }
    }

    /// Advances all calls as far as possible.
    fn poll(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        // Twice: a later arrival may push out a call that was already polled.
        for _ in 0..2 {
            for mut call in std::mem::take(&mut self.waiting) {
                match call.as_mut().poll(&mut context) {
                    Poll::Ready(Ok(slot)) => self.running.push(slot),
                    Poll::Ready(Err(Full)) => {}
                    Poll::Pending => self.waiting.push(call),
                }
            }
        }
        let state = self.queue.state.lock();
        assert_eq!(state.free + self.running.len(), SLOTS, "no slot is lost, none is given twice");
        assert_eq!(state.callers.count(), self.waiting.len());
        assert!(state.free <= 1 || self.waiting.is_empty(), "nobody waits where two are free");
    }
}

#[test]
fn no_slot_is_lost_and_nobody_waits_where_two_are_free() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _entered = runtime.enter();
    for seed in 0..40 {
        let mut model = Model::new(seed);
        for _ in 0..1_000 {
            model.step();
        }
        model.waiting.clear();
        model.running.clear();
        let state = model.queue.state.lock();
        assert_eq!((state.free, state.callers.count()), (SLOTS, 0));
    }
}
