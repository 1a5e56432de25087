//! OTLP profiles (v1development) over gRPC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use antares_config::Trace;
use antares_profile_view::otlp_request;
use antares_serve::{TelemetryError, otlp_channel};
use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesServiceRequest, profiles_service_client::ProfilesServiceClient,
};
use tonic::transport::Channel;

use crate::grpc::profile_service::Named;

/// Why a receiver did not take a profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PushError {
    #[error("the receiver did not answer within {0:?}")]
    Timeout(Duration),
    #[error("the receiver answered {0}")]
    Refused(String),
    #[error("the profile cannot be written")]
    Unwritten,
}

/// The time that a profile is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
}

/// A receiver of OTLP. Connects when it is needed, and again after it was lost.
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

    /// What to send of `named`: receivers refuse profiles without a time.
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
