//! Section `[profile_push]`.

use std::time::Duration;

use crate::{check::Checker, section::section, trace::Trace};

section! {
/// Profiles that are sent to others: what was run since the last time, one for each script and tenant.
"profile_push": RawProfilePush {
    /// Whether profiles go to `trace.endpoint`, as OTLP profiles (v1development).
    otlp: flag;
}
}

/// Interval between pushes.
const INTERVAL: Duration = Duration::from_secs(15);

/// Timeout of one profile.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Receiver of profiles, and timing.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilePush {
    /// An OTLP receiver over gRPC.
    pub receiver: Trace,
    /// Interval between pushes.
    pub interval: Duration,
    /// Timeout of one profile.
    pub timeout: Duration,
}

impl RawProfilePush {
    /// `None` if no receiver is configured.
    pub(crate) fn check(
        &self,
        trace: Option<&Trace>,
        sample_cycles: u64,
        checker: &mut Checker,
    ) -> Option<ProfilePush> {
        if self.otlp && trace.is_none() {
            checker.record("profile_push.otlp", "needs trace.endpoint");
        }
        if self.otlp && sample_cycles == 0 {
            checker.record("profile_push", "makes no sense where runner.sample_cycles is 0");
        }
        let push = |receiver: &Trace| ProfilePush {
            receiver: receiver.clone(),
            interval: INTERVAL,
            timeout: TIMEOUT,
        };
        trace.filter(|_| self.otlp).map(push)
    }
}
