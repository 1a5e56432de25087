//! Deduplicates concurrent equal work: one leader, any number of waiters.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
};
use tracing::{Instrument, Span};

/// Work in progress, by key. Cheap to clone.
#[derive(Debug)]
pub struct SingleFlight<K: Clone + Eq + Hash, V> {
    shared: Arc<Shared<K, V>>,
}

/// What happens to the work when a caller goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDrop {
    /// It continues to its end.
    GoesOn,
    /// It ends with the last caller.
    EndsAlone,
}

#[derive(Debug)]
struct Shared<K, V> {
    flying: Mutex<HashMap<K, SharedCall<V>>>,
    begun: AtomicU64,
    joined: AtomicU64,
}

#[derive(Debug)]
struct SharedCall<V> {
    number: u64,
    result: watch::Receiver<Option<V>>,
    waiters: usize,
    hurry: Arc<Notify>,
    task: Option<AbortHandle>,
}

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// The result of the work under `key`: the one in progress, or else a new `work`. It runs in its own
    /// task, so that callers who go away do not end it. Results are not cached: the next call after the end
    /// starts over.
    ///
    /// `None` if the work panicked.
    pub async fn join<F>(&self, key: K, work: impl FnOnce() -> F) -> Option<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        self.join_until(key, OnDrop::GoesOn, work).await
    }

    /// Like [`SingleFlight::join`], for a caller that may end the work by going away.
    pub async fn join_until<F>(&self, key: K, leaving: OnDrop, work: impl FnOnce() -> F) -> Option<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let (number, mut result) = self.enter(&key, work);
        let _waiter = Waiter { shared: self.shared.clone(), key, number, leaving };
        let value = result.wait_for(Option::is_some).await.ok()?;
        value.clone()
    }

    /// Waits until the work under `key` has a second caller, or [`SingleFlight::wake`] is called. For that
    /// work itself.
    pub async fn until_woken(&self, key: &K) {
        let hurry = self.shared.flying.lock().get(key).map(|flight| flight.hurry.clone());
        if let Some(hurry) = hurry {
            hurry.notified().await;
        }
    }

    /// Wakes the work under `key` if it waits for that, now or later.
    pub fn wake(&self, key: &K) {
        if let Some(flight) = self.shared.flying.lock().get(key) {
            flight.hurry.notify_one();
        }
    }

    /// Calls that joined work in progress, since the start.
    pub fn joined_total(&self) -> u64 {
        self.shared.joined.load(Ordering::Relaxed)
    }

    fn enter<F>(&self, key: &K, work: impl FnOnce() -> F) -> (u64, watch::Receiver<Option<V>>)
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut flying = self.shared.flying.lock();
        if let Some(flight) = flying.get_mut(key) {
            self.shared.joined.fetch_add(1, Ordering::Relaxed);
            flight.waiters += 1;
            flight.hurry.notify_one();
            return (flight.number, flight.result.clone());
        }
        let (sender, result) = watch::channel(None);
        let number = self.shared.begun.fetch_add(1, Ordering::Relaxed);
        let hurry = Arc::default();
        let flight = SharedCall { number, result: result.clone(), waiters: 1, hurry, task: None };
        flying.insert(key.clone(), flight);
        drop(flying);
        let landing = Landing { shared: self.shared.clone(), key: key.clone(), number };
        let work = work();
        let task = tokio::spawn(
            async move {
                let value = work.await;
                // Removal precedes the result: a caller that arrives after it starts over.
                drop(landing);
                // The receiver may be gone.
                let _ = sender.send(Some(value));
            }
            .instrument(Span::current()),
        );
        if let Some(flight) = self.shared.flying.lock().get_mut(key).filter(|flight| flight.number == number)
        {
            flight.task = Some(task.abort_handle());
        }
        (number, result)
    }
}

/// A caller waiting for a flight.
struct Waiter<K: Eq + Hash, V> {
    shared: Arc<Shared<K, V>>,
    key: K,
    number: u64,
    leaving: OnDrop,
}

impl<K: Eq + Hash, V> Drop for Waiter<K, V> {
    fn drop(&mut self) {
        let mut flying = self.shared.flying.lock();
        let Some(flight) = flying.get_mut(&self.key).filter(|flight| flight.number == self.number) else {
            return;
        };
        flight.waiters -= 1;
        if flight.waiters > 0 || self.leaving == OnDrop::GoesOn {
            return;
        }
        // Removed at once: a caller that arrives now starts over.
        let ended = flying.remove(&self.key);
        drop(flying);
        if let Some(task) = ended.and_then(|flight| flight.task) {
            task.abort();
        }
    }
}

/// Removes the flight, also after a panic.
struct Landing<K: Eq + Hash, V> {
    shared: Arc<Shared<K, V>>,
    key: K,
    number: u64,
}

impl<K: Eq + Hash, V> Drop for Landing<K, V> {
    fn drop(&mut self) {
        let mut flying = self.shared.flying.lock();
        if flying.get(&self.key).is_some_and(|flight| flight.number == self.number) {
            flying.remove(&self.key);
        }
    }
}

impl<K: Clone + Eq + Hash, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        let (flying, begun, joined) = Default::default();
        Self { shared: Arc::new(Shared { flying, begun, joined }) }
    }
}

impl<K: Clone + Eq + Hash, V> Clone for SingleFlight<K, V> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::future::join_all;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_thousand_callers_cause_one_piece_of_work() {
        let flights = SingleFlight::<u8, usize>::default();
        let started = Arc::new(AtomicUsize::new(0));
        let (go, gone) = oneshot::channel::<()>();
        let gone = Arc::new(Mutex::new(Some(gone)));
        let calls = (0..1_000).map(|_| {
            let gone = gone.lock().take();
            let started = started.clone();
            Box::pin(flights.join(1, || async move {
                gone.unwrap().await.unwrap();
                started.fetch_add(1, Ordering::SeqCst)
            }))
        });
        let mut all = join_all(calls);
        assert!(futures_util::poll!(&mut all).is_pending());
        go.send(()).unwrap();
        let values = all.await;
        assert_eq!(values, vec![Some(0); 1_000]);
        assert_eq!(flights.joined_total(), 999);
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_does_not_end_the_work() {
        let flights = SingleFlight::<u8, u8>::default();
        let (go, gone) = oneshot::channel::<()>();
        let mut first = Box::pin(flights.join(1, || async move {
            gone.await.unwrap();
            7
        }));
        assert!(futures_util::poll!(&mut first).is_pending());
        drop(first);
        let mut second = Box::pin(flights.join(1, || async { 8 }));
        assert!(futures_util::poll!(&mut second).is_pending());
        go.send(()).unwrap();
        assert_eq!(second.await, Some(7));
    }

    /// Endless work that signals its cancellation.
    fn endless(
        flights: &SingleFlight<u8, u8>,
        leaving: OnDrop,
    ) -> (impl Future<Output = Option<u8>>, oneshot::Receiver<()>) {
        let (kept, given_up) = oneshot::channel::<()>();
        let work = move || async move {
            let _kept = kept;
            std::future::pending().await
        };
        let flights = flights.clone();
        (async move { flights.join_until(1, leaving, work).await }, given_up)
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_ends_where_the_last_caller_says_so() {
        let flights = SingleFlight::<u8, u8>::default();
        let (first, mut given_up) = endless(&flights, OnDrop::EndsAlone);
        let (second, _) = endless(&flights, OnDrop::EndsAlone);
        let (mut first, mut second) = (Box::pin(first), Box::pin(second));
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        tokio::task::yield_now().await;
        assert!(given_up.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        drop(second);
        // The next one starts over, although the end has not come yet.
        assert_eq!(flights.join(1, || async { 8 }).await, Some(8));
        assert!(given_up.await.is_err());
    }

    #[tokio::test]
    async fn who_only_goes_away_ends_nothing_and_keeps_nobody_from_it() {
        let flights = SingleFlight::<u8, u8>::default();
        let (first, mut given_up) = endless(&flights, OnDrop::GoesOn);
        let mut first = Box::pin(first);
        assert!(futures_util::poll!(&mut first).is_pending());
        drop(first);
        tokio::task::yield_now().await;
        assert!(given_up.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        let (second, _) = endless(&flights, OnDrop::EndsAlone);
        let mut second = Box::pin(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(second);
        assert!(given_up.await.is_err());
    }

    #[tokio::test]
    async fn work_is_hurried_by_a_second_caller_or_by_whoever_says_so() {
        let flights = SingleFlight::<u8, u8>::default();
        let patient = |value| {
            let own = flights.clone();
            flights.join(value, move || async move {
                own.until_woken(&value).await;
                value
            })
        };
        let (mut first, mut other) = (Box::pin(patient(1)), Box::pin(patient(2)));
        assert!(futures_util::poll!(&mut first).is_pending() && futures_util::poll!(&mut other).is_pending());
        // The wake precedes the wait, and still counts.
        flights.wake(&2);
        assert_eq!(other.await, Some(2));
        tokio::task::yield_now().await;
        assert!(futures_util::poll!(&mut first).is_pending());
        assert_eq!(patient(1).await, Some(1));
        assert_eq!(first.await, Some(1));
    }

    #[tokio::test]
    async fn a_panic_is_reported_and_the_next_call_tries_again() {
        let flights = SingleFlight::<u8, u8>::default();
        assert_eq!(flights.join(1, || async { panic!("for the test") }).await, None);
        assert_eq!(flights.join(1, || async { 8 }).await, Some(8));
    }
}
