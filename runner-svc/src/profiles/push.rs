//! Sends profiles to receivers elsewhere: at each interval, what was run since the last one.
//!
//! Runs wait for nothing here: they only add to profiles in memory, which are as many and as big as limits
//! say. A receiver that is away or slow costs profiles, which are counted and not sent again, and nothing
//! else.

mod otlp;
mod pyroscope;
mod window;

use std::{
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, SystemTime},
};

use antares_config::ProfilePush;
use antares_serve::{Account, keep};
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};

use crate::{
    grpc::profile_service::{Named, with_programs, work},
    limits::PUSH_FAILURES_MAX,
    metrics::{PushResult, RECEIVERS},
    profiles::push::{
        otlp::Otlp,
        pyroscope::Pyroscope,
        window::{PushError, Window},
    },
    runner::Runner,
};

/// One receiver.
enum Receiver {
    Otlp(Otlp),
    Pyroscope(Pyroscope),
}

impl Receiver {
    fn name(&self) -> &'static str {
        match self {
            Self::Otlp(_) => RECEIVERS[0],
            Self::Pyroscope(_) => RECEIVERS[1],
        }
    }

    async fn send(&self, payload: Payload) -> Result<(), PushError> {
        match (self, payload) {
            (Self::Otlp(otlp), Payload::Otlp(request)) => otlp.send(*request).await,
            (Self::Pyroscope(pyroscope), Payload::Pyroscope(request)) => pyroscope.send(request).await,
            // Payloads are made for their receiver.
            _ => Err(PushError::Unwritten),
        }
    }

    /// What to send of `named`.
    fn payload(&self, named: &Named, window: Window) -> Option<Payload> {
        match self {
            Self::Otlp(otlp) => Some(Payload::Otlp(Box::new(otlp.request(named, window)))),
            Self::Pyroscope(pyroscope) => pyroscope.request(named, window).map(Payload::Pyroscope),
        }
    }
}

enum Payload {
    Otlp(Box<otlp::Request>),
    Pyroscope(pyroscope::Request),
}

/// Starts to send `runner`'s profiles, if its configuration wants that. Call it within the runtime.
pub(crate) fn start(runner: &Runner) {
    let Some(settings) = runner.profiles.push.clone() else { return };
    let mut receivers = Vec::new();
    if let Some(endpoint) = &settings.otlp_endpoint {
        match Otlp::new(endpoint, runner.limits().sample_cycles.map_or(0, NonZeroU64::get)) {
            Ok(otlp) => receivers.push(Arc::new(Receiver::Otlp(otlp))),
            Err(error) => tracing::error!(endpoint, %error, "no profiles are sent there"),
        }
    }
    if let Some(url) = &settings.pyroscope_url {
        let pyroscope = Pyroscope::new(url, settings.pyroscope_tenants);
        receivers.push(Arc::new(Receiver::Pyroscope(pyroscope)));
    }
    let runner = runner.clone();
    keep("profile push", move || push_for_ever(runner.clone(), receivers.clone(), settings.clone()));
}

async fn push_for_ever(runner: Runner, receivers: Vec<Arc<Receiver>>, settings: ProfilePush) {
    let mut ticks = interval_at(Instant::now() + settings.interval, settings.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut start = SystemTime::now();
    loop {
        ticks.tick().await;
        let window = Window { start, end: SystemTime::now() };
        start = window.end;
        push_once(&runner, &receivers, window, &settings).await;
    }
}

/// Sends everything that was run since the last time, each profile to all receivers at once: none waits for
/// another.
async fn push_once(runner: &Runner, receivers: &[Arc<Receiver>], window: Window, settings: &ProfilePush) {
    let end = Instant::now() + settings.interval;
    let mut failures = vec![0; receivers.len()];
    for (key, entry) in runner.profiles.store.take_pending() {
        let tenant = Some(&*key.tenant);
        let account = Account::named(&key.tenant);
        let naming = with_programs(runner, &account, entry.profile.canonical(), tenant, key.script);
        let named = timeout(settings.timeout, naming).await.ok().map(Arc::new);
        let mut sending = JoinSet::new();
        for (index, receiver) in receivers.iter().enumerate() {
            let is_late = failures[index] >= PUSH_FAILURES_MAX || Instant::now() >= end;
            match named.as_ref().filter(|_| !is_late) {
                None => runner.metrics.note_push(receiver.name(), PushResult::Dropped),
                Some(named) => {
                    let (receiver, named, longest) = (receiver.clone(), named.clone(), settings.timeout);
                    sending.spawn(async move { (index, send(&receiver, &named, window, longest).await) });
                }
            }
        }
        while let Some(Ok((index, sent))) = sending.join_next().await {
            let name = receivers[index].name();
            failures[index] = if sent.is_ok() { 0 } else { failures[index] + 1 };
            let result = if sent.is_ok() { PushResult::Sent } else { PushResult::Failed };
            if let Err(error) = sent {
                tracing::debug!(receiver = name, %error, "a profile was not sent");
            }
            runner.metrics.note_push(name, result);
        }
    }
}

async fn send(
    receiver: &Arc<Receiver>,
    named: &Arc<Named>,
    window: Window,
    longest: Duration,
) -> Result<(), PushError> {
    let (writer, named) = (receiver.clone(), named.clone());
    let payload = work(move || writer.payload(&named, window)).await.ok().flatten();
    let sending = receiver.send(payload.ok_or(PushError::Unwritten)?);
    timeout(longest, sending).await.unwrap_or(Err(PushError::Timeout(longest)))
}
