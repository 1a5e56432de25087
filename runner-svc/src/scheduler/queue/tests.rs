//! The queue with real callers.

mod fairness;
mod model;

use std::{future::Future, pin::pin, task::Poll};

use antares_serve::Account;

use super::*;

fn queue(slots: usize, waiting_max: usize) -> Arc<Queue> {
    Arc::new(Queue::new(slots, waiting_max))
}

fn named(name: &str) -> Tenant {
    Tenant { name: name.into(), ..Tenant::default() }
}

/// Polls each of `calls` once; returns the indexes and results of those that ended.
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
    // The waiting call has it.
    assert!(!first.is_alone());
    drop(ended(&mut calls).await);
    assert!(first.is_alone());
}

#[tokio::test]
async fn names_buy_no_places_from_other_callers() {
    let queue = queue(1, 5);
    let honest = Tenant { account: Account::proven("honest"), ..Tenant::default() };
    let names: Vec<Tenant> = (0..5).map(|number| named(&format!("t{number}"))).collect();
    let _slot = queue.acquire(&names[0]).await.unwrap();
    let mut many: Vec<_> = names.iter().map(|tenant| Box::pin(queue.acquire(tenant))).collect();
    assert!(ended(&mut many).await.is_empty());
    // The queue is full of calls with as many names, all of one caller.
    let mut few: Vec<_> = (0..3).map(|_| Box::pin(queue.acquire(&honest))).collect();
    assert!(matches!(ended(&mut few).await[..], [(2, Err(Full))]));
    assert!(matches!(ended(&mut many).await[..], [(_, Err(Full)), (_, Err(Full))]));
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
    assert_eq!(queue.state.lock().callers.count(), 3);
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
    assert_eq!(queue.state.lock().callers.count(), 0);
    // A call that got a slot and went away before polling.
    let mut call = [Box::pin(queue.acquire(&tenant))];
    assert!(ended(&mut call).await.is_empty());
    drop(slot);
    drop(call);
    assert_eq!(queue.state.lock().free, 1);
}
