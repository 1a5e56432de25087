//! Deadlines of calls: the response starts in time, or the caller gets an error.

use std::time::{Duration, Instant};

use http::{HeaderMap, Request};
use tokio::{sync::watch, time::timeout_at};
use tonic::{Status, body::Body};

use crate::{
    layers::{
        around::{Answering, Around},
        context::CallContext,
    },
    status::{Fault, closing},
};

/// Refuses an invalid timeout: its sender would expect another behavior.
pub(crate) fn check_timeout(headers: &HeaderMap) -> Result<(), Fault> {
    let mut values = headers.get_all("grpc-timeout").iter();
    let is_good = match (values.next(), values.next()) {
        (None, _) => true,
        (Some(value), None) => value.to_str().is_ok_and(|text| parse_timeout(text).is_some()),
        _ => false,
    };
    let problem = "grpc-timeout must be once, 1 to 8 digits and one of H, M, S, m, u and n";
    if is_good { Ok(()) } else { Err(Fault::invalid("TIMEOUT_MALFORMED", problem)) }
}

/// Ends a call at its deadline or at the end of the process.
#[derive(Clone, Debug)]
pub(crate) struct Deadline(pub(crate) Stopping);

impl Around for Deadline {
    fn around(&self, mut request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering {
        let deadline = CallContext::in_request(&mut request).deadline;
        let (rest, stopping) = (rest(request), self.0.clone());
        Box::pin(async move {
            let Some(deadline) = deadline else { return rest.await };
            // tonic has the same deadline but reports CANCELLED; this one started a moment earlier.
            let late = |_| Ok(Status::from(Fault::call_deadline()).into_http());
            tokio::select! {
                biased;
                answered = timeout_at(deadline.into(), rest) => answered.unwrap_or_else(late),
                () = stopping.ends() => Ok(closing().into_http()),
            }
        })
    }
}

/// The deadline in `headers`, from now, at most `longest` away.
pub(crate) fn deadline_of(headers: &HeaderMap, longest: Duration) -> Instant {
    let asked = headers.get("grpc-timeout").and_then(|value| parse_timeout(value.to_str().ok()?));
    Instant::now() + asked.map_or(longest, |asked| asked.min(longest))
}

/// `TimeoutValue TimeoutUnit` of the gRPC protocol: at most 8 digits and one of H M S m u n.
fn parse_timeout(text: &str) -> Option<Duration> {
    let unit_at = text.len().checked_sub(1).filter(|&digits| (1..=8).contains(&digits))?;
    let (digits, unit) = text.split_at_checked(unit_at)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    let timeout = match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    Some(timeout)
}

/// Shared by all calls of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopping(watch::Sender<bool>);

impl Stopping {
    /// Ends all calls.
    pub(crate) fn end_calls(&self) {
        self.0.send_replace(true);
    }

    /// Waits until calls are ended.
    pub(crate) async fn ends(self) {
        // `self` keeps the sender alive.
        let _ = self.0.subscribe().wait_for(|ends| *ends).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_has_them() {
        assert_eq!(parse_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse_timeout("99999999u"), Some(Duration::from_micros(99_999_999)));
        assert_eq!(parse_timeout("1H"), Some(Duration::from_secs(3_600)));
        for wrong in ["", "m", "1", "1x", "-1S", "+1S", "123456789m", "1 m", "1ä"] {
            assert_eq!(parse_timeout(wrong), None, "{wrong:?}");
        }
    }
}
