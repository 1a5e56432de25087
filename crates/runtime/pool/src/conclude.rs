//! Interprets the end of a job: an answer, or how its worker ended.

use std::{
    fmt::Write as _,
    fs::File,
    io::Read,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::WILD_FAULT_CALL;
use antares_sandbox::call_name;
use serde::de::DeserializeOwned;

use crate::{
    PoolError,
    call::{Call, Lease, Parts},
    channel::Channel,
    checks::Judged,
    child::Reply,
    exchange::Heard,
    frame,
    job::DEBUG_BYTES_LEAST,
    ledger::{Count, FIRST_TURN, Fate},
    reuse::Warm,
    text::printable,
    verdict::Verdict,
    wire::End,
};

/// Maximum time for a child to end after its report. The kernel needs microseconds to milliseconds.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Retained bytes of a child's standard error.
const LAST_WORDS_BYTES_MAX: usize = 4 << 10;

impl Call {
    /// Interprets `heard` after these `parts`. Releases the worker: it becomes idle or ends.
    pub(crate) fn conclude<R: DeserializeOwned + Judged>(
        &self,
        lease: Lease,
        heard: Heard,
        parts: &Parts,
    ) -> Result<Verdict<R>, PoolError> {
        if let Heard::Closed = heard
            && let Some(Fate::NotSpawned { detail }) =
                self.ledger.fate(lease.ticket, Instant::now() + END_WITHIN)
        {
            self.ledger.count(Count::NotForked);
            return Err(PoolError::NotForked { detail });
        }
        let (verdict, stays) = self.judge::<R>(&lease, heard, parts);
        let is_wild = lease.channel.named_call() == Some(WILD_FAULT_CALL);
        let count = match &verdict {
            Verdict::Done(report) => {
                if stays && parts.are_clean && report.is_clean() {
                    self.idle(lease, (parts.progress.runs as u64).max(1));
                }
                return Ok(verdict);
            }
            _ if self.until.is_cancelled() => return Err(PoolError::Cancelled),
            Verdict::DeadlineExceeded => Count::Deadline,
            Verdict::SandboxViolation { .. } if is_wild => Count::WildFault,
            Verdict::SandboxViolation { .. } => Count::Violation,
            Verdict::WorkerLost { .. } => Count::Lost,
            Verdict::FalseReport { .. } => Count::FalseReport,
        };
        self.ledger.count(count);
        Ok(verdict.with_detail(|| said(lease)))
    }

    /// Makes the worker wait for another job, if permitted.
    fn idle(&self, mut lease: Lease, runs: u64) {
        let Some(kind) = &self.kind else { return };
        let mut warm = lease.warm.clone().unwrap_or_else(|| Warm {
            ticket: lease.ticket,
            turn: FIRST_TURN,
            channel: Arc::clone(&lease.channel),
            kind: kind.clone(),
            debug_bytes_max: self.debug_bytes_max.max(DEBUG_BYTES_LEAST),
            runs: 0,
            busy: Duration::ZERO,
        });
        if warm.record(runs, lease.since, self.ledger.reuse()) {
            lease.rests = true;
            self.ledger.idle(warm);
        }
    }

    /// Interprets `heard`, and returns whether the worker can do another job.
    fn judge<R: DeserializeOwned + Judged>(
        &self,
        lease: &Lease,
        heard: Heard,
        parts: &Parts,
    ) -> (Verdict<R>, bool) {
        let lost = |detail: String| (Verdict::WorkerLost { detail }, false);
        let falsely = |detail: String| (Verdict::FalseReport { detail }, false);
        let ended = || self.ledger.fate(lease.ticket, Instant::now() + END_WITHIN);
        let content = match heard {
            Heard::Reply(content) => content,
            Heard::TimedOut => return (Verdict::DeadlineExceeded, false),
            Heard::Malformed { detail } => return falsely(detail),
            Heard::NotTaken => return lost("it did not take its job".to_owned()),
            Heard::Closed => return (meaning(ended().as_ref(), &lease.channel), false),
        };
        let (report, stays) = match frame::decode(&content) {
            Ok(Reply::Done(report)) => (report, false),
            Ok(Reply::Resting(report)) => (report, true),
            Ok(Reply::Failed { detail }) => return lost(printable(&detail)),
            Ok(Reply::Part(_)) => return falsely("a part of an answer that it cannot have".to_owned()),
            Err(error) => return falsely(error.to_string()),
        };
        if let Err(why) = self.check::<R>(&report, &parts.progress, lease.since) {
            return falsely(why.to_owned());
        }
        if self.compiles {
            // Do not use the output before the child's end, because it could still change.
            let fate = ended();
            if fate != Some(Fate::Ended(End::Exit(0))) {
                return (meaning(fate.as_ref(), &lease.channel), false);
            }
        }
        (Verdict::Done(report), stays)
    }
}

/// Interprets the end of a child without a usable report.
fn meaning<R>(fate: Option<&Fate>, channel: &Channel) -> Verdict<R> {
    let detail = match fate {
        Some(Fate::Ended(End::Signal(libc::SIGSYS))) => {
            return Verdict::SandboxViolation { detail: violation(channel.named_call()) };
        }
        Some(Fate::Ended(End::Signal(libc::SIGXCPU))) => return Verdict::DeadlineExceeded,
        Some(Fate::Ended(End::Signal(signal))) => format!("killed by {}", signal_name(*signal)),
        Some(Fate::Ended(End::Exit(status))) => format!("exited with status {status} without a report"),
        Some(Fate::OutOfMemory) => "it took more memory than its control group has".to_owned(),
        Some(Fate::NotSpawned { detail }) => detail.clone(),
        Some(Fate::ZygoteLost) => "its zygote died".to_owned(),
        None => format!("did not end within {} s", END_WITHIN.as_secs()),
    };
    Verdict::WorkerLost { detail }
}

/// Describes a call outside of the policy.
fn violation(call: Option<u32>) -> String {
    if call == Some(WILD_FAULT_CALL) {
        return "native code touched memory that no guest address can mean, or went where no code of it is"
            .to_owned();
    }
    let call = match call.map(|number| (number, call_name(number))) {
        Some((number, Some(name))) => format!("system call {number} ({name})"),
        Some((number, None)) => format!("system call {number}"),
        None => "a system call".to_owned(),
    };
    format!("{call} outside of the policy (SIGSYS)")
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// The end of a child's standard error, if not empty. The pipe bounds it, and this does not wait for more.
fn said(mut lease: Lease) -> Option<String> {
    let last_words = lease.last_words.take()?;
    drop(lease);
    let mut bytes = Vec::new();
    // The error marks the end of the available bytes; those before it are retained.
    let _ = File::from(last_words).read_to_end(&mut bytes);
    let tail = &bytes[bytes.len().saturating_sub(LAST_WORDS_BYTES_MAX)..];
    let text = printable(String::from_utf8_lossy(tail).trim());
    (!text.is_empty()).then_some(text)
}

impl<T> Verdict<T> {
    /// Adds to the detail, if the verdict has one.
    fn with_detail(mut self, more: impl FnOnce() -> Option<String>) -> Self {
        if let Self::SandboxViolation { detail } | Self::WorkerLost { detail } | Self::FalseReport { detail } =
            &mut self
            && let Some(more) = more()
        {
            // Writing to a string does not fail.
            let _ = write!(detail, ": {more}");
        }
        self
    }
}
