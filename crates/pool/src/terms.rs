//! What became of a job: what its worker's answer or end means, and whether the worker may do another one.

use std::{
    fmt::Write as _,
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::WILD_FAULT_CALL;
use antares_sandbox::call_name;
use serde::de::DeserializeOwned;

use crate::{
    PoolError, Verdict,
    cancel::Until,
    child::Reply,
    frame,
    job::{DEBUG_LINES_MAX, Lines},
    ledger::{Count, FIRST_TURN, Fate, Ledger},
    line::Line,
    reuse::{Kind, Warm},
    talk::Heard,
    wire::End,
};

/// Time for a child to end after its report came. The kernel needs microseconds to milliseconds.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of a child's standard error that are kept.
const LAST_WORDS_BYTES_MAX: usize = 4 << 10;

/// On what terms a job is done.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) ledger: Arc<Ledger>,
    /// Whether the child's standard error is worth keeping, and its end worth waiting for.
    pub(crate) compiles: bool,
    pub(crate) reply_bytes_max: usize,
    pub(crate) until: Until,
    /// What other jobs must have in common with this one to share a worker, if they may.
    pub(crate) kind: Option<Kind>,
    /// Bytes of debug output that a worker for it must have memory for, and that a new one takes memory for.
    pub(crate) debug_bytes: (u64, u64),
}

/// A child, from its slot to its end or its rest; whatever happens in between, it does not outlive this without.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) ticket: u64,
    pub(crate) line: Arc<Line>,
    pub(crate) last_words: Option<OwnedFd>,
    /// What it was, if it has done a job before.
    pub(crate) warm: Option<Warm>,
    /// Whether it rests, and is not to be ended.
    pub(crate) rests: bool,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if !self.rests {
            self.ledger.forget(self.ticket);
        }
    }
}

/// What a report says about the worker that made it.
pub(crate) trait Judged {
    /// Whether everything went as it should, so that the worker may do another job.
    fn is_clean(&self) -> bool;

    /// The debug output in it.
    fn debug(&self) -> impl Iterator<Item = &Lines>;

    /// Whether it has more debug output than `bytes_max`. A worker stops before that, as long as it is its own master.
    fn talks_too_much(&self, bytes_max: u64) -> bool {
        let bytes = self.debug().map(Lines::bytes).fold(0, u64::saturating_add);
        bytes > bytes_max || self.debug().map(Lines::count).sum::<usize>() > DEBUG_LINES_MAX
    }
}

/// What is said of a worker whose answer [`Judged::talks_too_much`].
pub(crate) const TALKS_TOO_MUCH: &str = "it answered with more debug output than it may";

/// A job that was given to a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    /// When.
    pub(crate) since: Instant,
    /// Where it begins in the line.
    pub(crate) place: u32,
}

impl Given {
    /// Now, to this child.
    pub(crate) fn to(admitted: &Admitted) -> Self {
        Self { since: Instant::now(), place: admitted.line.place() }
    }

    /// Whether the child died before it heard of this job, or does not read it.
    pub(crate) fn was_not_heard(self, admitted: &Admitted, heard: &Heard) -> bool {
        matches!(heard, Heard::Closed | Heard::NotTaken) && admitted.line.is_untouched_since(self.place)
    }
}

/// A worker's answer, and whether it can do another job.
struct Answer<R> {
    verdict: Verdict<R>,
    stays: bool,
}

impl Terms {
    /// What `heard` means. The child is let go: to rest if it may, or to its end. `parts` is how many parts came before, and
    /// whether all of them were clean.
    pub(crate) fn conclude<R: DeserializeOwned + Judged>(
        &self,
        admitted: Admitted,
        given: Given,
        heard: Heard,
        parts: (u64, bool),
    ) -> Result<Verdict<R>, PoolError> {
        let (runs, is_clean) = parts;
        let Answer { verdict, stays } = self.judge::<R>(&admitted, heard);
        let is_wild = admitted.line.named_call() == Some(WILD_FAULT_CALL);
        let count = match &verdict {
            Verdict::Done(report) => {
                if stays && is_clean && report.is_clean() {
                    self.rest(admitted, runs.max(1), given.since);
                }
                return Ok(verdict);
            }
            _ if self.until.is_cancelled() => return Err(PoolError::Cancelled),
            Verdict::DeadlineExceeded => Count::Deadline,
            Verdict::SandboxViolation { .. } if is_wild => Count::WildFault,
            Verdict::SandboxViolation { .. } => Count::Violation,
            Verdict::WorkerLost { .. } => Count::Lost,
        };
        self.ledger.count(count);
        Ok(verdict.with_detail(|| said(admitted)))
    }

    /// Lets the child wait for another job, if it may.
    fn rest(&self, mut admitted: Admitted, runs: u64, since: Instant) {
        let Some(kind) = &self.kind else { return };
        let mut warm = admitted.warm.clone().unwrap_or_else(|| Warm {
            ticket: admitted.ticket,
            turn: FIRST_TURN,
            line: Arc::clone(&admitted.line),
            kind: kind.clone(),
            debug_bytes_max: self.debug_bytes.1,
            runs: 0,
            busy: Duration::ZERO,
        });
        if warm.note(runs, since, self.ledger.reuse()) {
            admitted.rests = true;
            self.ledger.rest(warm);
        }
    }

    fn judge<R: DeserializeOwned + Judged>(&self, admitted: &Admitted, heard: Heard) -> Answer<R> {
        let ends = |verdict| Answer { verdict, stays: false };
        let lost = |detail| ends(Verdict::WorkerLost { detail });
        let content = match heard {
            Heard::Reply(content) => content,
            Heard::TimedOut => return ends(Verdict::DeadlineExceeded),
            Heard::Malformed { detail } => return lost(detail),
            Heard::NotTaken => return lost("it did not take its job".to_owned()),
            Heard::Closed => {
                let fate = self.ledger.fate(admitted.ticket, Instant::now() + END_WITHIN);
                return ends(meaning(fate.as_ref(), &admitted.line));
            }
        };
        let (report, stays) = match frame::decode(&content) {
            Ok(Reply::Done(report)) => (report, false),
            Ok(Reply::Resting(report)) => (report, true),
            Ok(Reply::Failed { detail }) => return lost(detail),
            Ok(Reply::Part(_)) => return lost("it answered with more parts than asked for".to_owned()),
            Err(error) => return lost(error.to_string()),
        };
        if R::talks_too_much(&report, self.debug_bytes.0) {
            return lost(TALKS_TOO_MUCH.to_owned());
        }
        if self.compiles {
            // Its output may only be looked at when nobody can change it any more.
            let fate = self.ledger.fate(admitted.ticket, Instant::now() + END_WITHIN);
            if fate != Some(Fate::Ended(End::Exit(0))) {
                return ends(meaning(fate.as_ref(), &admitted.line));
            }
        }
        Answer { verdict: Verdict::Done(report), stays }
    }
}

/// What the end of a child without a report, or after an unusable one, means.
fn meaning<R>(fate: Option<&Fate>, line: &Line) -> Verdict<R> {
    let detail = match fate {
        Some(Fate::Ended(End::Signal(libc::SIGSYS))) => {
            return Verdict::SandboxViolation { detail: violation(line.named_call()) };
        }
        Some(Fate::Ended(End::Signal(signal))) => format!("killed by {}", signal_name(*signal)),
        Some(Fate::Ended(End::Exit(status))) => format!("exited with status {status} without a report"),
        Some(Fate::OutOfMemory) => "it took more memory than its control group has".to_owned(),
        Some(Fate::NotSpawned { detail }) => detail.clone(),
        Some(Fate::ZygoteLost) => "its zygote died".to_owned(),
        None => format!("did not end within {} s", END_WITHIN.as_secs()),
    };
    Verdict::WorkerLost { detail }
}

/// What is known about a call outside of the policy.
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
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// The end of what a child wrote to standard error, if it did. The pipe bounds it, and nobody waits for more.
fn said(mut admitted: Admitted) -> Option<String> {
    let last_words = admitted.last_words.take()?;
    drop(admitted);
    let mut bytes = Vec::new();
    // The error is the end of what is there now; what was read before it is kept.
    let _ = File::from(last_words).read_to_end(&mut bytes);
    let tail = &bytes[bytes.len().saturating_sub(LAST_WORDS_BYTES_MAX)..];
    let text = String::from_utf8_lossy(tail).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

impl<T> Verdict<T> {
    /// Adds to the detail, if the verdict has one.
    fn with_detail(mut self, more: impl FnOnce() -> Option<String>) -> Self {
        if let Self::SandboxViolation { detail } | Self::WorkerLost { detail } = &mut self
            && let Some(more) = more()
        {
            // Writing to a string does not fail.
            let _ = write!(detail, ": {more}");
        }
        self
    }
}
