//! Equal work at the same time is done once: one leader, any number of waiters.

use std::{
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;
use tracing::{Instrument, Span};

/// Work in progress, by key. Cheap to clone.
#[derive(Debug)]
pub struct Flights<K, V> {
    shared: Arc<Shared<K, V>>,
}

#[derive(Debug)]
struct Shared<K, V> {
    flying: Mutex<HashMap<K, watch::Receiver<Option<V>>>>,
    joined: AtomicU64,
}

impl<K, V> Flights<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// What the work under `key` gives: work that is in progress already, or else `work`. The work runs in a task of its
    /// own, so that callers who go away do not end it. Nothing is remembered: the next call after the end works again.
    ///
    /// `None` if the work ended without a value, that is, panicked.
    pub async fn join<F>(&self, key: K, work: impl FnOnce() -> F) -> Option<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut result = self.enter(key, work);
        let value = result.wait_for(Option::is_some).await.ok()?;
        value.clone()
    }

    /// Calls that found their work in progress, since the start.
    #[must_use]
    pub fn joined_total(&self) -> u64 {
        self.shared.joined.load(Ordering::Relaxed)
    }

    fn enter<F>(&self, key: K, work: impl FnOnce() -> F) -> watch::Receiver<Option<V>>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut flying = self.shared.flying();
        if let Some(result) = flying.get(&key) {
            self.shared.joined.fetch_add(1, Ordering::Relaxed);
            return result.clone();
        }
        let (sender, result) = watch::channel(None);
        flying.insert(key.clone(), result.clone());
        drop(flying);
        let landing = Landing { shared: self.shared.clone(), key };
        let work = work();
        tokio::spawn(
            async move {
                let value = work.await;
                // First off the list, then told: who asks after the answer begins anew.
                drop(landing);
                // Nobody may be left to hear it.
                let _ = sender.send(Some(value));
            }
            .instrument(Span::current()),
        );
        result
    }
}

/// Takes the flight off the list, also when it ends in a panic.
struct Landing<K: Eq + Hash, V> {
    shared: Arc<Shared<K, V>>,
    key: K,
}

impl<K: Eq + Hash, V> Drop for Landing<K, V> {
    fn drop(&mut self) {
        self.shared.flying().remove(&self.key);
    }
}

impl<K, V> Shared<K, V> {
    fn flying(&self) -> MutexGuard<'_, HashMap<K, watch::Receiver<Option<V>>>> {
        self.flying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Default for Flights<K, V> {
    fn default() -> Self {
        Self { shared: Arc::new(Shared { flying: Mutex::default(), joined: AtomicU64::new(0) }) }
    }
}

impl<K, V> Clone for Flights<K, V> {
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
        let flights = Flights::<u8, usize>::default();
        let started = Arc::new(AtomicUsize::new(0));
        let (go, gone) = oneshot::channel::<()>();
        let gone = Arc::new(Mutex::new(Some(gone)));
        let calls = (0..1_000).map(|_| {
            let gone = gone.lock().unwrap().take();
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
        let flights = Flights::<u8, u8>::default();
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

    #[tokio::test]
    async fn a_panic_is_told_and_the_next_call_tries_again() {
        let flights = Flights::<u8, u8>::default();
        assert_eq!(flights.join(1, || async { panic!("for the test") }).await, None);
        assert_eq!(flights.join(1, || async { 8 }).await, Some(8));
    }
}
