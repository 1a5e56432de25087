//! Kinds of store failures, for metrics and operators: each kind has its own remedy.

use std::{
    error::Error as _,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use object_store::client::{HttpError, HttpErrorKind};
use parking_lot::Mutex;
use strum::{IntoStaticStr, VariantNames};

/// Minimum time between two log lines of one kind of failure.
const LINE_STEP: Duration = Duration::from_secs(60);

/// Maximum characters of a store's message in the log.
const DETAIL_MAX: usize = 300;

/// Why a store failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FailureKind {
    /// The credentials are invalid, expired or lack a permission.
    Refused,
    /// Our clock or the store's is wrong.
    ClockSkew,
    /// The bucket is in another region.
    OtherRegion,
    /// The bucket or container does not exist.
    NoBucket,
    /// The store demands fewer requests.
    Throttled,
    /// The address is unreachable, or the connection breaks.
    Unreachable,
    /// The request exceeded its deadline.
    Late,
    /// The store reported a server error.
    ServerError,
    /// The store is full.
    Full,
    /// The server is not an object store.
    NoStore,
    /// Anything else.
    Other,
}

/// Why a tier gave no answer. A missing entry is not an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// The circuit is open after too many failures.
    #[error("the tier failed too often and is left alone for a while")]
    LeftAlone,
    /// The request exceeded its deadline.
    #[error("the tier took more than {0} ms")]
    Deadline(u64),
    /// Too many concurrent requests.
    #[error("{0} requests wait for the tier already")]
    Busy(usize),
    /// Reads in progress hold all of their memory budget.
    #[error("reads under way hold {0} bytes already")]
    NoMemory(usize),
    /// The store reported an error or is unreachable.
    #[error("{}", .0.detail)]
    Failed(Failure),
    /// The tier is full, or the entry is too large for it.
    #[error("{0}")]
    NoRoom(String),
}

/// A failure of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// The store's message, on one line.
    pub detail: String,
}

/// Parts of stores' messages that identify a kind. The first match counts.
const SIGNATURES: &[(FailureKind, &[&str])] = &[
    (FailureKind::NoStore, &["<html", "<HTML", "<!doctype html", "<!DOCTYPE html"]),
    (FailureKind::NoBucket, &["<Code>NoSuchBucket<", "<Code>ContainerNotFound<", "<Code>InvalidBucketName<"]),
    (FailureKind::ClockSkew, &["<Code>RequestTimeTooSkewed<", "Request date header too old"]),
    (
        FailureKind::OtherRegion,
        &[
            "<Code>PermanentRedirect<",
            "<Code>TemporaryRedirect<",
            "<Code>AuthorizationHeaderMalformed<",
            "<Code>IllegalLocationConstraintException<",
            "incorrectly configured region",
        ],
    ),
    (
        FailureKind::Throttled,
        &["<Code>SlowDown<", "<Code>ServerBusy<", "<Code>TooManyRequests<", "status code: 429"],
    ),
    (
        FailureKind::Refused,
        &[
            "<Code>ExpiredToken<",
            "<Code>InvalidToken<",
            "<Code>TokenRefreshRequired<",
            "<Code>InvalidAccessKeyId<",
            "<Code>SignatureDoesNotMatch<",
            "<Code>AccessDenied<",
            "<Code>AuthenticationFailed<",
            "status code: 401",
            "status code: 403",
        ],
    ),
    (FailureKind::Full, &["status code: 507", "<Code>QuotaExceeded<"]),
    (FailureKind::ServerError, &["status code: 5"]),
];

/// Codes for a missing object, as opposed to a missing bucket.
const ABSENT: &[&str] =
    &["<Code>NoSuchKey<", "<Code>BlobNotFound<", "<Code>NoSuchVersion<", "<Code>NoSuchObject<"];

fn one_line(text: &str) -> String {
    let plain = text.chars().map(|each| if each.is_control() { ' ' } else { each });
    plain.take(DETAIL_MAX).collect()
}

/// Kind of the failed connection in the error chain of `error`, if a connection failed.
fn of_connection(error: &object_store::Error) -> Option<FailureKind> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<HttpError>() {
            return Some(match error.kind() {
                HttpErrorKind::Timeout => FailureKind::Late,
                HttpErrorKind::Decode => FailureKind::NoStore,
                _ => FailureKind::Unreachable,
            });
        }
        cause = error.source();
    }
    None
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, detail: &str) -> Self {
        Self { kind, detail: one_line(detail) }
    }

    /// Classifies an error of the object store client; `None` if it means that the object does not exist.
    pub(crate) fn of(error: &object_store::Error) -> Option<Self> {
        let text = error.to_string();
        let is_said = |parts: &&[&str]| parts.iter().any(|part| text.contains(part));
        let reported = SIGNATURES.iter().find(|(_, parts)| is_said(parts)).map(|(kind, _)| *kind);
        let is_absent = matches!(error, object_store::Error::NotFound { .. });
        if is_absent && reported.is_none() && (is_said(&ABSENT) || !text.contains("<Code>")) {
            return None;
        }
        let kind = reported.or_else(|| of_connection(error)).unwrap_or(match error {
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                FailureKind::Refused
            }
            _ => FailureKind::Other,
        });
        Some(Self::new(kind, &text))
    }
}

#[derive(Debug, Default)]
struct Lines {
    last: Option<Instant>,
    left_out: u64,
}

/// Counts failures by kind, and logs each kind at a limited rate.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    lines: [Mutex<Lines>; FailureKind::VARIANTS.len()],
    damaged: Mutex<Lines>,
    given_up: Mutex<Lines>,
    is_reported: AtomicBool,
}

/// Number of lines suppressed since the last one; `None` if this line is to be suppressed too.
fn turn(lines: &Mutex<Lines>) -> Option<u64> {
    let mut lines = lines.lock();
    if lines.last.is_some_and(|last| last.elapsed() < LINE_STEP) {
        lines.left_out += 1;
        return None;
    }
    lines.last = Some(Instant::now());
    Some(std::mem::take(&mut lines.left_out))
}

impl Failures {
    pub(crate) fn record(&self, url: &str, operation: &'static str, failure: &Failure) {
        if let Some(left_out) = turn(&self.lines[failure.kind as usize]) {
            self.is_reported.store(true, Relaxed);
            let (kind, detail) = (failure.kind.into_str(), &failure.detail);
            tracing::warn!(kind, operation, url, detail, left_out, "the shared tier fails");
        }
    }

    /// Records a successful request.
    pub(crate) fn record_success(&self, url: &str) {
        if self.is_reported.load(Relaxed) && self.is_reported.swap(false, Relaxed) {
            tracing::info!(url, "the shared tier answers again");
        }
    }

    pub(crate) fn record_damaged(&self, path: &str, problem: &str) {
        if let Some(left_out) = turn(&self.damaged) {
            tracing::error!(path, problem, left_out, "an object of the shared tier is damaged");
        }
    }

    pub(crate) fn record_given_up(&self, path: &str, error: &str) {
        if let Some(left_out) = turn(&self.given_up) {
            tracing::warn!(path, error, left_out, "an entry did not reach the shared tier");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(is_404: bool, text: &str) -> Option<FailureKind> {
        let source = text.to_owned().into();
        let error = match is_404 {
            true => object_store::Error::NotFound { path: "p".into(), source },
            false => object_store::Error::Generic { store: "S3", source },
        };
        Failure::of(&error).map(|failure| failure.kind)
    }

    #[test]
    fn what_stores_say_has_a_kind() {
        use FailureKind::OtherRegion;

        for (is_404, text, kind) in [
            (true, "404 Not Found: <Error><Code>NoSuchKey</Code></Error>", None),
            (true, "404 Not Found: ", None),
            (true, "404: <Error><Code>NoSuchBucket</Code></Error>", Some(FailureKind::NoBucket)),
            (true, "404: <Error><Code>SomethingNew</Code></Error>", Some(FailureKind::Other)),
            (true, "404 Not Found: <!DOCTYPE html><title>", Some(FailureKind::NoStore)),
            (false, "400: <Error><Code>ExpiredToken</Code></Error>", Some(FailureKind::Refused)),
            (false, "403: <Code>RequestTimeTooSkewed</Code>", Some(FailureKind::ClockSkew)),
            (false, "400: <Code>AuthorizationHeaderMalformed</Code>", Some(OtherRegion)),
            (false, "this normally indicates an incorrectly configured region", Some(OtherRegion)),
            (false, "non-2xx status code: 503: <Code>SlowDown</Code>", Some(FailureKind::Throttled)),
            (false, "non-2xx status code: 500: oh", Some(FailureKind::ServerError)),
            (false, "whatever", Some(FailureKind::Other)),
        ] {
            assert_eq!(said(is_404, text), kind, "{text}");
        }
        let detail = Failure::new(FailureKind::Other, &format!("a\nb\u{1b}{}", "é".repeat(400))).detail;
        assert!(detail.starts_with("a b é") && detail.chars().count() == DETAIL_MAX);
    }

    #[test]
    fn a_kind_has_one_line_in_a_while() {
        let lines = Mutex::default();
        assert_eq!((turn(&lines), turn(&lines), turn(&lines)), (Some(0), None, None));
        lines.lock().last = Instant::now().checked_sub(LINE_STEP);
        assert_eq!(turn(&lines), Some(2));
    }
}
