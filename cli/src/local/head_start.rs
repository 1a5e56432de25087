//! The first moments of a verification: the interpreter in a child of this process, behind its fence. What it
//! ends takes no worker and no native code; what it does not end begins again elsewhere, from the same bytes.
//! Only a plain end counts: whatever else becomes of the child, the workers find out what is to be said.

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

/// How long the interpreter has, milliseconds; 0: it does not begin.
const KEY: &str = "ANTARES_HEAD_START_MS";
/// About as long as zygote and worker take to be there.
const MS_DEFAULT: u64 = 20;
/// As long as a verification may take by default.
const MS_MAX: u64 = DEADLINE_MS_DEFAULT;

/// The verdict, if the interpreter has it by then.
pub(crate) fn verify(request: &Request, mock: &Mock) -> Option<Verdict> {
    let time = Duration::from_millis(milliseconds(env::var(KEY).ok().as_deref()));
    if request.tier == Tier::Native || request.code.full || time.is_zero() {
        return None;
    }
    let until = Instant::now() + request.deadline.map_or(time, |deadline| deadline.min(time));
    // Without a child, or with one that is lost, there are the workers.
    let work = |pipes: HostPipes, missing: Vec<LayerStatus>| {
        // Where a layer is missing the workers say so, or are allowed to be without it.
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

/// What `text` asks for; without sense, the default.
fn milliseconds(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(MS_DEFAULT).min(MS_MAX)
}

/// In the child: verifies, and tells how that ended.
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
    // Without the parent there is nothing left to do.
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
