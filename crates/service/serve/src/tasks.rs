//! Tasks that must run as long as the process: each has a name, and one that ends or panics is counted,
//! logged and restarted. Liveness reports a stalled one.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::metrics::{Metrics, set_gauge, set_total};

/// First and longest pause before a restart. It doubles.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A task that ran for this long was not broken from the start; its pause is reset.
const SETTLED_AFTER: Duration = Duration::from_secs(60);

/// A beating task without a beat for this long is stuck: endless blocking work, or no thread for it.
const STALLED_AFTER: Duration = Duration::from_secs(120);

/// How long a task waits for blocking work before it continues without the result.
const BLOCKED_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Task {
    is_running: bool,
    ends: u64,
    /// Its last beat, if it beats.
    beat: Option<Instant>,
}

static TASKS: Mutex<BTreeMap<&'static str, Task>> = Mutex::new(BTreeMap::new());

/// Panics of any thread.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Keeps the task of `begin` running as `name` while the runtime lives. Call it within the runtime.
pub fn keep<F: Future<Output = ()> + Send + 'static>(
    name: &'static str,
    mut begin: impl FnMut() -> F + Send + 'static,
) {
    TASKS.lock().entry(name).or_default();
    tokio::spawn(async move {
        let mut pause = PAUSE_MIN;
        loop {
            let since = Instant::now();
            TASKS.lock().entry(name).or_default().is_running = true;
            let ended = match catch_unwind(AssertUnwindSafe(&mut begin)) {
                Ok(task) => tokio::spawn(task).await,
                // The hook has logged where.
                Err(_) => Ok(()),
            };
            if ended.as_ref().is_err_and(tokio::task::JoinError::is_cancelled) {
                // The runtime is ending.
                return;
            }
            let panicked = ended.is_err();
            {
                let mut duties = TASKS.lock();
                let duty = duties.entry(name).or_default();
                (duty.is_running, duty.ends) = (false, duty.ends + 1);
            }
            pause = if since.elapsed() > SETTLED_AFTER { PAUSE_MIN } else { pause };
            tracing::error!(task = name, panicked, "a task that must not end has ended; it is begun again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    });
}

/// Records a beat of the task `name`. Once it has beaten, further beats are expected.
pub fn beat(name: &'static str) {
    TASKS.lock().entry(name).or_default().beat = Some(Instant::now());
}

/// A stuck task, if any: only a restart of the process helps.
pub(crate) fn stalled() -> Option<&'static str> {
    let is_stalled = |duty: &Task| duty.beat.is_some_and(|beat| beat.elapsed() > STALLED_AFTER);
    TASKS.lock().iter().find(|(_, duty)| is_stalled(duty)).map(|(name, _)| *name)
}

/// Runs `work`, which may block, on another thread, for a task that must continue: none if no thread is
/// available, if it panics, or if it takes longer than half a minute.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // It panics if no thread exists or can be created.
    let task = catch_unwind(AssertUnwindSafe(|| tokio::task::spawn_blocking(work))).ok()?;
    tokio::time::timeout(BLOCKED_MAX, task).await.ok()?.ok()
}

/// Exports the state of tasks, and counts panics.
pub(crate) fn watch(metrics: &Metrics) {
    let ends = metrics.counters(
        "antares_task_ends_total",
        "Times that a task ended that must not; it was begun again.",
        &["task"],
    );
    let running =
        metrics.gauges("antares_tasks_running", "1 while a task that must not end runs.", &["task"]);
    let panics = metrics.counter("antares_panics_total", "Panics of threads of the service's process.");
    metrics.before_scrape(move || {
        for (name, duty) in TASKS.lock().iter() {
            set_total(&ends.with_label_values(&[*name]), duty.ends);
            set_gauge(&running.with_label_values(&[*name]), duty.is_running.into());
        }
        set_total(&panics, PANICS.load(Ordering::Relaxed));
    });
}

/// Sends panics to the log, which never blocks, instead of standard error, which may have no reader.
pub(crate) fn log_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            if cfg!(test) || !tracing::dispatcher::has_been_set() {
                return before(panic);
            }
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let thread = std::thread::current();
            let what = panic.payload_as_str().unwrap_or("no text");
            tracing::error!(thread = thread.name().unwrap_or("unnamed"), place, what, "a thread panicked");
        }));
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicU32};

    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_or_panics_is_begun_again_and_counted() {
        let begun = Arc::new(AtomicU32::new(0));
        let count = begun.clone();
        keep("test", move || {
            let count = count.clone();
            async move {
                match count.fetch_add(1, Ordering::Relaxed) {
                    0 => {}
                    1 => panic!("for the test"),
                    _ => std::future::pending().await,
                }
            }
        });
        while begun.load(Ordering::Relaxed) < 3 {
            tokio::time::sleep(PAUSE_MIN).await;
        }
        let metrics = Metrics::new();
        watch(&metrics);
        let text = String::from_utf8(metrics.text().unwrap()).unwrap();
        for line in ["antares_task_ends_total{task=\"test\"} 2", "antares_tasks_running{task=\"test\"} 1"] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[tokio::test]
    async fn blocking_work_that_panics_is_no_answer() {
        assert_eq!(blocking(|| 7).await, Some(7));
        assert_eq!(blocking(|| -> u32 { panic!("for the test") }).await, None);
    }

    #[test]
    fn who_never_beat_is_not_stalled() {
        TASKS.lock().entry("quiet").or_default();
        assert_ne!(stalled(), Some("quiet"));
        let long_ago = Instant::now().checked_sub(2 * STALLED_AFTER);
        TASKS.lock().entry("loud").or_default().beat = long_ago;
        assert_eq!(stalled().is_some(), long_ago.is_some());
        beat("loud");
        assert_eq!(stalled(), None);
    }
}
