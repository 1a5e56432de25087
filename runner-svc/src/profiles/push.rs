//! Sends profiles to an OTLP collector: at each interval, what was run since the last one.
//!
//! Runs never wait for it: they only add to profiles in memory, whose number and size are bounded. A collector
//! that is away or slow costs profiles, which are counted and not sent again.

mod otlp;

use std::{
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, SystemTime},
};

use antares_config::ProfilePush;
use antares_serve::{Account, keep};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::{
    grpc::profile_service::{with_programs, work},
    limits::PUSH_FAILURES_MAX,
    metrics::PushResult,
    profiles::{
        entry::{Entry, ProfileKey},
        push::otlp::{Otlp, PushError, Window},
    },
    runner::Runner,
};

/// Starts to send `runner`'s profiles, if its configuration wants that. Call it within the runtime.
pub(crate) fn start(runner: &Runner) {
    let Some(settings) = runner.profiles.push.clone() else { return };
    match Otlp::new(&settings.receiver, runner.limits().sample_cycles.map_or(0, NonZeroU64::get)) {
        Ok(otlp) => {
            let (runner, otlp) = (runner.clone(), Arc::new(otlp));
            keep("profile push", move || push_for_ever(runner.clone(), otlp.clone(), settings.clone()));
        }
        Err(error) => {
            tracing::error!(endpoint = settings.receiver.endpoint, %error, "no profiles are sent there")
        }
    }
}

async fn push_for_ever(runner: Runner, otlp: Arc<Otlp>, settings: ProfilePush) {
    let mut ticks = interval_at(Instant::now() + settings.interval, settings.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut start = SystemTime::now();
    loop {
        ticks.tick().await;
        let window = Window { start, end: SystemTime::now() };
        start = window.end;
        push_once(&runner, &otlp, window, &settings).await;
    }
}

/// Sends everything that was run since the last time.
async fn push_once(runner: &Runner, otlp: &Arc<Otlp>, window: Window, settings: &ProfilePush) {
    let end = Instant::now() + settings.interval;
    let mut failures = 0;
    for (key, entry) in runner.profiles.store.take_pending() {
        let result = if failures >= PUSH_FAILURES_MAX || Instant::now() >= end {
            PushResult::Dropped
        } else {
            match push(runner, otlp, &key, &entry, window, settings.timeout).await {
                Ok(()) => {
                    failures = 0;
                    PushResult::Sent
                }
                Err(error) => {
                    failures += 1;
                    tracing::debug!(%error, "a profile was not sent");
                    PushResult::Failed
                }
            }
        };
        runner.metrics.record_push(result);
    }
}

async fn push(
    runner: &Runner,
    otlp: &Arc<Otlp>,
    key: &ProfileKey,
    entry: &Entry,
    window: Window,
    longest: Duration,
) -> Result<(), PushError> {
    let account = Account::named(&key.tenant);
    let naming = with_programs(runner, &account, entry.profile.canonical(), Some(&*key.tenant), key.script);
    let named = timeout(longest, naming).await.map_err(|_| PushError::Timeout(longest))?;
    let writer = otlp.clone();
    let request = work(move || writer.request(&named, window)).await.map_err(|_| PushError::Unwritten)?;
    timeout(longest, otlp.send(request)).await.unwrap_or(Err(PushError::Timeout(longest)))
}
