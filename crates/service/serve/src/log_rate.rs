//! Rate limit of log lines by kind: callers can produce some without limit. A kind is a code location.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::{
    Event, Level, Metadata, Subscriber, callsite::Identifier, level_filters::LevelFilter,
    subscriber::Interest,
};
use tracing_subscriber::layer::{Context, Filter};

/// Period in which lines of a kind are counted.
pub(crate) const PERIOD: Duration = Duration::from_secs(10);

/// Lines omitted since the start.
static OMITTED: AtomicU64 = AtomicU64::new(0);

/// Limits the rate of lines of each kind.
#[derive(Debug)]
pub(crate) struct LogRate {
    /// Lines of a kind per period.
    most: u64,
    kinds: Mutex<HashMap<Identifier, Kind>>,
}

#[derive(Clone, Copy, Debug)]
struct Kind {
    since: Instant,
    lines: u64,
}

impl LogRate {
    /// `per_second` lines of each kind, averaged over ten seconds.
    pub(crate) fn new(per_second: u64) -> Self {
        Self { most: per_second.saturating_mul(PERIOD.as_secs()), kinds: Mutex::default() }
    }

    /// Whether another line of `kind` may be written at `now`.
    fn admits(&self, kind: Identifier, now: Instant) -> bool {
        let mut kinds = self.kinds.lock();
        let kind = kinds.entry(kind).or_insert(Kind { since: now, lines: 0 });
        if now.saturating_duration_since(kind.since) >= PERIOD {
            *kind = Kind { since: now, lines: 0 };
        }
        kind.lines += 1;
        kind.lines <= self.most
    }
}

/// Lines omitted since the start.
pub(crate) fn omitted() -> u64 {
    OMITTED.load(Ordering::Relaxed)
}

impl<S: Subscriber> Filter<S> for LogRate {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    // With `always`, tracing-subscriber 0.3.23 asserts in debug builds after the first dropped line.
    fn callsite_enabled(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        // A more verbose `log.filter` asks for all of it.
        let is_written = *metadata.level() > Level::INFO || self.admits(metadata.callsite(), Instant::now());
        OMITTED.fetch_add((!is_written).into(), Ordering::Relaxed);
        is_written
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing_subscriber::{Layer as _, layer::SubscriberExt as _};

    use super::*;

    /// Counts the lines that pass.
    struct Lines(Arc<AtomicU64>);

    impl<S: Subscriber> tracing_subscriber::Layer<S> for Lines {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn one_kind_does_not_drown_the_others() {
        let lines = Arc::new(AtomicU64::new(0));
        let rate = LogRate::new(2);
        let subscriber = tracing_subscriber::registry().with(Lines(lines.clone()).with_filter(rate));
        let before = omitted();
        tracing::subscriber::with_default(subscriber, || {
            (0..1_000).for_each(|_| tracing::info!("what any caller can produce"));
            assert_eq!(lines.swap(0, Ordering::Relaxed), 20);
            tracing::error!("what matters");
            assert_eq!(lines.swap(0, Ordering::Relaxed), 1);
            (0..1_000).for_each(|_| tracing::debug!("what was asked for"));
            assert_eq!(lines.load(Ordering::Relaxed), 1_000);
        });
        assert_eq!(omitted() - before, 980);
    }

    #[test]
    fn a_kind_is_heard_again_after_a_while() {
        let rate = LogRate::new(1);
        let kind = tracing::info_span!("kind").metadata().map(|of| of.callsite());
        let Some(kind) = kind else { return };
        let now = Instant::now();
        assert_eq!((0..30).filter(|_| rate.admits(kind.clone(), now)).count(), 10);
        assert!(rate.admits(kind, now + PERIOD));
    }
}
