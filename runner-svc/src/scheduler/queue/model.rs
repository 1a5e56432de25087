//! A model of the queue: whoever comes, goes away or is done in whatever order, no slot is lost or given
//! twice, and nobody waits where one is free.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::*;

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
        let address = [[192, 0, 2, 1], [192, 0, 2, 2]][self.below(2)];
        let name = ["a", "b", "c"][self.below(3)];
        Tenant {
            peer: std::net::SocketAddr::from((address, 1)).into(),
            name: name.into(),
            ..Tenant::default()
        }
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
            // Gone away while it waited, with a slot on its way or without.
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
            self.look();
        }
    }

    /// Has all calls go on as far as they can.
    fn look(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        // Twice: who has come since may push out one that was looked at already.
        for _ in 0..2 {
            for mut call in std::mem::take(&mut self.waiting) {
                match call.as_mut().poll(&mut context) {
                    Poll::Ready(Ok(slot)) => self.running.push(slot),
                    Poll::Ready(Err(Full)) => {}
                    Poll::Pending => self.waiting.push(call),
                }
            }
        }
        let state = self.queue.state();
        assert_eq!(state.free + self.running.len(), SLOTS, "no slot is lost, none is given twice");
        assert_eq!(state.waiting, self.waiting.len());
    }
}

#[test]
fn no_slot_is_lost_and_nobody_waits_where_one_is_free() {
    for seed in 0..40 {
        let mut model = Model::new(seed);
        for _ in 0..1_000 {
            model.step();
        }
        model.waiting.clear();
        model.running.clear();
        let state = model.queue.state();
        assert_eq!((state.free, state.waiting), (SLOTS, 0));
        assert!(state.peers.waiting.is_empty() && state.peers.order.is_empty());
    }
}
