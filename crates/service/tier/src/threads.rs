//! Threads for files of a folder that may hang: a bounded number, none of them the runtime's.

use std::{io, sync::Arc, thread};

use tokio::sync::{Semaphore, oneshot};

/// Bytes of a stack: what runs on it calls the system and little else.
const STACK_BYTES: usize = 256 << 10;

/// A bounded number of threads. An operation that hangs keeps its thread, and its place, until it really
/// ends.
#[derive(Debug)]
pub(crate) struct Threads {
    places: Arc<Semaphore>,
}

impl Threads {
    pub(crate) fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(most)) }
    }

    /// Runs `work` on a thread of its own, once there is a place. Whoever waits may go away; the work goes
    /// on.
    ///
    /// # Errors
    /// No thread can be made, or the work panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let place = self.places.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (sender, receiver) = oneshot::channel();
        let thread = thread::Builder::new().name("antares-tier".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            let done = work();
            drop(place);
            // Nobody may wait any more.
            drop(sender.send(done));
        })?;
        receiver.await.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[tokio::test]
    async fn a_place_is_taken_until_the_work_ends() {
        let threads = Threads::new(2);
        let (end, hangs) = mpsc::channel::<()>();
        let hung = threads.run(move || hangs.recv());
        assert!(tokio::time::timeout(Duration::from_millis(1), hung).await.is_err());
        assert_eq!(threads.places.available_permits(), 1, "nobody waits, and its place is not free");
        assert_eq!(threads.run(|| 7).await.unwrap(), 7, "others go on");
        end.send(()).unwrap();
        let _both = threads.places.acquire_many(2).await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_gives_its_place_back() {
        let threads = Threads::new(1);
        let work = || {
            if std::env::args().count() > 0 {
                panic!("as it should")
            }
        };
        threads.run(work).await.unwrap_err();
        assert_eq!(threads.run(|| 7).await.unwrap(), 7);
    }
}
