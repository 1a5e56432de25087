//! A head start for a verification: the interpreter in a sandboxed child of this process. If it finishes, no
//! worker or native code is needed; otherwise the workers start over from the same bytes. Only a normal end
//! counts: after any other end, the workers determine the result.

use std::{
    env,
    time::{Duration, Instant},
};

use antares_pool::{
    HostPipes, Hosted, LayerStatus,
    job::{Tier, VerifyReport},
};
use antares_transaction::Mock;
use antares_verifier::{
    Prepared, QuickInterpreter, StopHandle, TransactionLimits, TransactionReport, Verifier,
};

use crate::{
    input::verify_request::Request,
    limits::{CYCLES_MAX_DEFAULT, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX},
    output::verdict::Verdict,
};

/// Time for the interpreter, milliseconds; 0 disables the head start.
const KEY: &str = "ANTARES_HEAD_START_MS";
/// Roughly the start time of zygote and worker.
const MS_DEFAULT: u64 = 20;
/// The default limit of a verification.
const MS_MAX: u64 = DEADLINE_MS_DEFAULT;

/// The verdict, if the interpreter finishes in time.
pub(crate) fn verify(request: &Request, mock: &Mock) -> Option<Verdict> {
    let time = Duration::from_millis(milliseconds(env::var(KEY).ok().as_deref()));
    if request.tier == Tier::Native || request.code.full || time.is_zero() {
        return None;
    }
    let until = Instant::now() + request.deadline.map_or(time, |deadline| deadline.min(time));
    // Without a child, or if it is lost, the workers take over.
    let work = |pipes: HostPipes, missing: Vec<LayerStatus>| {
        // If a layer is missing, the workers report it, or may run without it.
        if missing.is_empty() {
            run(request, mock, &pipes);
        }
    };
    let mut child = Hosted::fork(work).ok()??;
    match child.verified_until(until, DEBUG_BYTES_MAX).ok()?? {
        VerifyReport::Done { outcome, cycles, groups, read_us, run_us, .. } => {
            Some(Verdict::of_worker(outcome, cycles, groups, (read_us, run_us)))
        }
        VerifyReport::Refused { .. } => None,
    }
}

/// The value of `text`; the default if it is invalid.
fn milliseconds(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(MS_DEFAULT).min(MS_MAX)
}

/// In the child: verifies and reports the outcome.
fn run(request: &Request, mock: &Mock, pipes: &HostPipes) {
    let start = Instant::now();
    let Ok(prepared) = Prepared::new(mock, &request.environment) else { return };
    let limits = TransactionLimits {
        cycles_max: request.cycles_max.unwrap_or(CYCLES_MAX_DEFAULT),
        debug_bytes_max: DEBUG_BYTES_MAX,
    };
    let read_us = micros(start);
    let start = Instant::now();
    let verified = Verifier::new(prepared, limits, QuickInterpreter, StopHandle::new()).verify(request.group);
    let Ok(TransactionReport { outcome, cycles, groups }) = verified else { return };
    let (run_us, (hot, seen, ran, samples)) = (micros(start), <_>::default());
    let report = VerifyReport::Done { outcome, cycles, groups, hot, seen, ran, samples, read_us, run_us };
    // Without the parent, nothing remains to do.
    let _ = pipes.send_verified(report);
}

fn micros(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_start_is_a_number_within_bounds() {
        assert_eq!([None, Some("x"), Some("-1")].map(milliseconds), [MS_DEFAULT; 3]);
        assert_eq!([Some("0"), Some("7"), Some("99999")].map(milliseconds), [0, 7, MS_MAX]);
    }
}
