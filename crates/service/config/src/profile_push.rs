//! Section `[profile_push]`.

use std::time::Duration;

use crate::{check::Checker, section::section, trace::RawTrace};

section! {
/// Profiles that are sent to others: what was run since the last time, one for each script and tenant.
"profile_push": RawProfilePush {
    /// Whether profiles go to `trace.endpoint`, as OTLP profiles (v1development).
    otlp: flag;
    /// Pyroscope, or what takes its `/ingest`, such as `http://localhost:4040`; empty sends nothing there.
    pyroscope_url: text;
    /// Whether Pyroscope is told the tenant of each profile, as `X-Scope-OrgID`.
    pyroscope_tenants: flag;
}
}

/// Time between pushes.
const INTERVAL: Duration = Duration::from_secs(15);

/// How long a receiver may take for one profile.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Where profiles are sent, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilePush {
    /// A receiver of OTLP over gRPC, if it gets them.
    pub otlp_endpoint: Option<String>,
    /// Base URL of Pyroscope, if it gets them.
    pub pyroscope_url: Option<String>,
    /// Whether Pyroscope is told the tenant in a header.
    pub pyroscope_tenants: bool,
    /// Time between pushes.
    pub interval: Duration,
    /// Time for one profile.
    pub timeout: Duration,
}

impl RawProfilePush {
    /// None where nobody gets profiles.
    pub(crate) fn check(
        &self,
        trace: &RawTrace,
        sample_cycles: u64,
        checker: &mut Checker,
    ) -> Option<ProfilePush> {
        let push = ProfilePush {
            otlp_endpoint: self.otlp.then(|| trace.endpoint.clone()),
            pyroscope_url: (!self.pyroscope_url.is_empty()).then(|| self.pyroscope_url.clone()),
            pyroscope_tenants: self.pyroscope_tenants,
            interval: INTERVAL,
            timeout: TIMEOUT,
        };
        if push.otlp_endpoint.as_ref().is_some_and(String::is_empty) {
            checker.note("profile_push.otlp", "needs trace.endpoint");
        }
        if let Some(url) = &push.pyroscope_url {
            checker.url("profile_push.pyroscope_url", url);
        }
        let is_on = push.otlp_endpoint.is_some() || push.pyroscope_url.is_some();
        if is_on && sample_cycles == 0 {
            checker.note("profile_push", "makes no sense where runner.sample_cycles is 0");
        }
        is_on.then_some(push)
    }
}
