//! Pushes profiles to an OTLP collector: at each interval, the runs since the last one.
//!
//! Runs never wait for it: they only add to profiles in memory, whose number and size are bounded. A slow or
//! absent collector loses profiles, which are counted and not sent again.

use std::{
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use antares_config::{ProfilePush, Trace};
use antares_profile_view::otlp_request;
use antares_serve::{Account, TelemetryError, keep, otlp_channel};
use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesServiceRequest, profiles_service_client::ProfilesServiceClient,
};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tonic::transport::Channel;

use crate::{
    grpc::profile_service::{Named, with_programs, work},
    limits::PUSH_FAILURES_MAX,
    metrics::PushResult,
    profiles::entry::{Entry, ProfileKey},
    runner::Runner,
};

/// Starts pushing `runner`'s profiles, if configured. Call it within the runtime.
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

/// Pushes all runs since the last push.
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

// OTLP profiles (v1development) over gRPC.

/// Why a receiver refused a profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PushError {
    #[error("the receiver did not answer within {0:?}")]
    Timeout(Duration),
    #[error("the receiver answered {0}")]
    Refused(String),
    #[error("the profile cannot be written")]
    Unwritten,
}

/// The time range of a profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
}

/// An OTLP receiver. Connects on demand, and reconnects after a loss.
pub(crate) struct Otlp {
    client: ProfilesServiceClient<Channel>,
    /// Cycles between samples, on average.
    period: i64,
}

impl Otlp {
    /// The receiver of `trace`. Call it within a runtime.
    pub(crate) fn new(trace: &Trace, sample_cycles: u64) -> Result<Self, TelemetryError> {
        let (channel, _) = otlp_channel(trace)?;
        let period = i64::try_from(sample_cycles).unwrap_or(i64::MAX);
        Ok(Self { client: ProfilesServiceClient::new(channel), period })
    }

    /// The request for `named`: receivers refuse profiles without a time.
    pub(crate) fn request(&self, named: &Named, window: Window) -> ExportProfilesServiceRequest {
        let mut request = otlp_request(&named.view(), &named.labels);
        let start = since_epoch(window.start);
        let took = since_epoch(window.end).saturating_sub(start);
        let scopes = request.resource_profiles.iter_mut().flat_map(|resource| &mut resource.scope_profiles);
        for profile in scopes.flat_map(|scope| &mut scope.profiles) {
            profile.time_unix_nano = u64::try_from(start.as_nanos()).unwrap_or(u64::MAX);
            profile.duration_nano = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            profile.period = self.period;
        }
        request
    }

    pub(crate) async fn send(&self, request: ExportProfilesServiceRequest) -> Result<(), PushError> {
        let answer = self.client.clone().export(request).await;
        let answer = answer.map_err(|status| PushError::Refused(status.to_string()))?;
        match answer.into_inner().partial_success {
            Some(partial) if partial.rejected_profiles > 0 => Err(PushError::Refused(partial.error_message)),
            _ => Ok(()),
        }
    }
}

/// Time since 1970; zero before that.
fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}
