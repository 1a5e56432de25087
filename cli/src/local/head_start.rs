//! A head start: the interpreter in a sandboxed child of this process. If it ends first, no worker or native code
//! is needed; otherwise the workers start over from the same bytes. If the child is lost, the workers determine
//! the result.

use std::{
    env, io,
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};

use antares_pool::{
    Cancel, HostPipes, Hosted, LayerStatus, Sealed,
    job::{RunJob, RunReport, RunWorkerReport, Tier, VerifyReport},
    kill_zygotes,
};
use antares_transaction::Mock;
use antares_verifier::{
    Prepared, QuickInterpreter, StopHandle, TransactionLimits, TransactionReport, Verifier,
};
use antares_vm::{Limits, Machine, RunScript};
use bytes::Bytes;

use crate::{
    input::{run_request, verify_request::Request},
    limits::{CYCLES_MAX_DEFAULT, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX},
    output::verdict::Verdict,
};

/// Time in which only the interpreter runs, milliseconds; 0 disables the head start.
const KEY: &str = "ANTARES_HEAD_START_MS";
/// Roughly half of the start time of zygote and worker.
const MS_DEFAULT: u64 = 4;
/// The default limit of a verification.
const MS_MAX: u64 = DEADLINE_MS_DEFAULT;
/// Roughly the time in which small programs have native code.
const NATIVE_IN: Duration = Duration::from_millis(20);
/// Interval of checks whether native code is ready.
const CHECKED_EVERY: Duration = Duration::from_millis(1);

/// Waits for the child's report until the given time.
type Wait<'a, T> = Box<dyn FnMut(Instant) -> io::Result<Option<T>> + 'a>;

/// A child that interprets a script or a transaction.
pub(crate) struct HeadStart<'a, T> {
    wait: Wait<'a, T>,
    /// End of the time in which only the child runs.
    alone_until: Instant,
}

impl<'a, T> HeadStart<'a, T> {
    fn start<F>(
        work: impl FnOnce(&HostPipes),
        wait: impl FnOnce(Hosted) -> F,
        deadline: Option<Duration>,
    ) -> Option<Self>
    where
        F: FnMut(Instant) -> io::Result<Option<T>> + 'a,
    {
        let alone = Duration::from_millis(milliseconds(env::var(KEY).ok().as_deref()));
        if alone.is_zero() {
            return None;
        }
        let alone_until = Instant::now() + deadline.map_or(alone, |deadline| deadline.min(alone));
        let child = Hosted::fork(|pipes: HostPipes, missing: Vec<LayerStatus>| {
            // If a layer is missing, the workers report it, or may run without it.
            if missing.is_empty() {
                work(&pipes);
            }
        });
        Some(Self { wait: Box::new(wait(child.ok()??)), alone_until })
    }

    /// The report, if the child ends before `until`.
    pub(crate) fn report(&mut self, until: Instant) -> Option<T> {
        (self.wait)(until).ok()?
    }
}

/// The first to finish.
pub(crate) enum First<T, U> {
    /// The child.
    Interpreted(T),
    /// The preparation of native code.
    Prepared(U),
}

/// Lets `child` run alone for at least `alone`, then next to `prepare` until `until`. If the child ends first,
/// `cancel` stops `prepare`, and nothing waits for it: its workers are killed, its thread ends with this process.
pub(crate) fn race<T, U: Send + 'static>(
    child: Option<&mut HeadStart<'_, T>>,
    alone: Duration,
    until: Instant,
    cancel: &Cancel,
    prepare: impl FnOnce() -> U + Send + 'static,
) -> First<T, U> {
    let Some(child) = child else { return First::Prepared(prepare()) };
    if let Some(report) = child.report(child.alone_until.max(Instant::now() + alone)) {
        return First::Interpreted(report);
    }
    let preparing = thread::spawn(prepare);
    while !preparing.is_finished() && Instant::now() < until {
        match (child.wait)(Instant::now() + CHECKED_EVERY) {
            Ok(None) => {}
            Ok(Some(report)) => {
                cancel.cancel();
                kill_zygotes();
                return First::Interpreted(report);
            }
            Err(_) => break,
        }
    }
    First::Prepared(preparing.join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// The end of a run within `deadline` that is about to start, if it is too short to need native code.
pub(crate) fn is_short_until(deadline: Option<Duration>) -> Instant {
    Instant::now() + deadline.map_or(NATIVE_IN, |deadline| deadline.min(NATIVE_IN))
}

/// Starts to run `elf` by `job`.
pub(crate) fn run<'a>(
    request: &run_request::Request,
    job: &'a RunJob,
    elf: &'a Sealed,
) -> Option<HeadStart<'a, RunReport>> {
    if request.tier == Tier::Native || request.code.full {
        return None;
    }
    let work = |pipes: &HostPipes| run_in_child(&request.elf, job, pipes);
    HeadStart::start(work, |mut child| move |until| child.ran_until(until, job, elf), request.deadline)
}

/// Starts to verify the transaction `mock`.
pub(crate) fn verify(request: &Request, mock: &Mock) -> Option<HeadStart<'static, Verdict>> {
    if request.tier == Tier::Native || request.code.full {
        return None;
    }
    let job = request.job();
    let wait = |mut child: Hosted| move |until| Ok(child.verified_until(until, &job)?.and_then(verdict));
    HeadStart::start(|pipes| verify_in_child(request, mock, pipes), wait, request.deadline)
}

fn verdict(report: VerifyReport) -> Option<Verdict> {
    let VerifyReport::Done { outcome, cycles, groups, read_us, run_us, .. } = report else { return None };
    Some(Verdict::of_worker(outcome, cycles, groups, (read_us, run_us)))
}

/// The value of `text`; the default if it is invalid.
fn milliseconds(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(MS_DEFAULT).min(MS_MAX)
}

fn run_in_child(elf: &[u8], job: &RunJob, pipes: &HostPipes) {
    let elf = Bytes::copy_from_slice(elf);
    let args: Vec<Bytes> = job.args.iter().map(|arg| Bytes::copy_from_slice(arg)).collect();
    let (vm_version, isa) = (job.options.vm_version, job.options.isa.0);
    let script = RunScript { elf: &elf, args: &args, vm_version, isa };
    let limits = Limits { cycles_max: job.cycles_max, debug_bytes_max: job.debug_bytes_max };
    let ran = Machine::new().and_then(|mut machine| machine.run(&script, &limits, Tier::Interpreter, None));
    if let Ok(report) = ran {
        // Without the parent, nothing remains to do.
        let _ = pipes.send_report(&RunWorkerReport::Run(report));
    }
}

fn verify_in_child(request: &Request, mock: &Mock, pipes: &HostPipes) {
    let start = Instant::now();
    let Ok(prepared) = Prepared::new(mock, &request.environment) else { return };
    let limits = TransactionLimits {
        cycles_max: request.cycles_max.unwrap_or(CYCLES_MAX_DEFAULT),
        debug_bytes_max: DEBUG_BYTES_MAX,
    };
    let read_us = micros(start);
    let start = Instant::now();
    let verified =
        Verifier::new(prepared, limits, QuickInterpreter, StopHandle::default()).verify(request.group);
    let Ok(TransactionReport { outcome, cycles, groups }) = verified else { return };
    let (run_us, (hot, seen, ran, samples)) = (micros(start), <_>::default());
    let report = VerifyReport::Done { outcome, cycles, groups, hot, seen, ran, samples, read_us, run_us };
    // Without the parent, nothing remains to do.
    let _ = pipes.send_report(&RunWorkerReport::Verify(report));
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
