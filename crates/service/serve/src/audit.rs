//! The audit log: a line for each call that needs a role, is refused, or uses resources.
//!
//! A thread writes them, so that no call waits for a disk or a pipe's reader. Lines beyond the queue are
//! counted, and the log reports their number. If the log is required, calls are refused instead.

use std::{
    fmt::Write as _,
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use antares_config::Audit;
use parking_lot::Mutex;
use prometheus::IntCounter;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
    io::Errno,
};
use serde_json::{Value, json};

use crate::{
    log_writer::{Message, flush_queue},
    metrics::Metrics,
    peer::Peer,
    status::chain,
    usage::Amounts,
};

/// Queued lines.
const WAITING_MAX: usize = 8_192;

/// Interval for retrying an unwritable file, and for checking whether it was moved.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the file to open at the start: an unresponsive file system must not block it.
const OPEN_MAX: Duration = Duration::from_secs(5);

/// Bytes that a pipe takes atomically (`PIPE_BUF`).
const PIECE_BYTES: usize = 4_096;

/// Bytes of caller-provided text in a line.
const TEXT_BYTES_MAX: usize = 256;

/// Accepts lines.
#[derive(Debug)]
pub(crate) struct Auditor {
    sender: SyncSender<Message>,
    is_required: bool,
    shared: Arc<Shared>,
    lost_total: IntCounter,
}

#[derive(Debug, Default)]
struct Shared {
    is_broken: AtomicBool,
    /// Lost lines that the log has not reported yet.
    lost: AtomicU64,
}

/// A service's details of a call for the audit log.
#[derive(Debug, Default)]
pub(crate) struct AuditFields {
    pub(crate) subject: String,
    /// The caller's ID of the call.
    pub(crate) request_id: String,
}

/// Details of a call at its start; its line is written at its end.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) auditor: Arc<Auditor>,
    pub(crate) method: Arc<str>,
    pub(crate) who: Option<Arc<str>>,
    pub(crate) tenant: Arc<str>,
    pub(crate) role: &'static str,
    pub(crate) peer: Peer,
    pub(crate) fields: Arc<Mutex<AuditFields>>,
    pub(crate) started: Instant,
}

impl Entry {
    /// Writes the call's usage and how it ended; without an `outcome`, its usage after its end.
    pub(crate) fn write(&self, used: &Amounts, outcome: Option<&str>, reason: Option<&str>) {
        let fields = self.fields.lock();
        let line = json!({
            "time_ms": now_ms(),
            "call": &*self.method,
            "who": self.who.as_deref().map(|who| cut(who.to_owned())),
            "peer": self.peer.to_string(),
            "tenant": &*self.tenant,
            "role": self.role,
            "what": fields.subject,
            "outcome": outcome,
            "reason": reason,
            "request_id": fields.request_id,
            "elapsed_us": u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX),
            "refused_calls": used.refused_calls,
            "runs": used.runs,
            "guest_cycles": used.guest_cycles,
            "run_us": used.run_us,
            "compiles": used.compiles,
            "compile_us": used.compile_us,
            "stored_bytes": used.stored_bytes,
        });
        self.auditor.write(&line);
    }
}

impl Auditor {
    /// Opens the target of `audit`, if any.
    ///
    /// A pipe without a reader or an unresponsive file system does not prevent the start: the log is broken
    /// until then.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn start(audit: &Audit, metrics: &Metrics) -> io::Result<Option<Arc<Self>>> {
        let lost_total = metrics.counter(
            "antares_audit_lost_total",
            "Audit lines dropped because the queue was full; the log has their number.",
        );
        let gauge = metrics.gauge("antares_audit_broken", "1 while the audit log cannot be written.");
        let Some(target) = audit.target.clone() else { return Ok(None) };
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let shared = Arc::new(Shared::default());
        // Until the file is open.
        shared.is_broken.store(true, Ordering::Relaxed);
        let state = shared.clone();
        let (opened, opening) = sync_channel(1);
        thread::Builder::new().name("audit".to_owned()).spawn(move || {
            let (mut sink, result) = Sink::open(target);
            state.is_broken.store(result.is_err(), Ordering::Relaxed);
            let is_reported = opened.send(result).is_ok();
            drop(opened);
            if is_reported {
                sink.run(&receiver, &state);
            }
        })?;
        match opening.recv_timeout(OPEN_MAX) {
            Ok(Ok(())) => {}
            Ok(Err(error)) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                tracing::warn!("nobody reads the pipe of the audit log yet");
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => tracing::error!("the file of the audit log does not open"),
        }
        let watched = shared.clone();
        metrics.before_scrape(move || gauge.set(watched.is_broken.load(Ordering::Relaxed).into()));
        Ok(Some(Arc::new(Self { sender, is_required: audit.is_required, shared, lost_total })))
    }

    /// Whether calls are allowed: their lines can be written, or need not be.
    pub(crate) fn is_well(&self) -> bool {
        !self.is_required
            || !self.shared.is_broken.load(Ordering::Relaxed) && self.shared.lost.load(Ordering::Relaxed) == 0
    }

    fn write(&self, line: &Value) {
        let line = format!("{}\n", plain(&line.to_string()));
        if let Err(error) = self.sender.try_send(Message::Line(line.into_bytes())) {
            // The writer thread has ended.
            if let TrySendError::Disconnected(_) = error {
                self.shared.is_broken.store(true, Ordering::Relaxed);
            }
            self.lost_total.inc();
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits a bounded time until the queue is in the file. Blocks.
    pub(crate) fn flush(&self) {
        flush_queue(&self.sender);
    }
}

/// The target of lines.
struct Sink {
    path: Option<PathBuf>,
    file: Option<File>,
}

impl Sink {
    /// The sink, and why it has no file yet.
    fn open(path: Option<PathBuf>) -> (Self, io::Result<()>) {
        let (file, result) = match path.as_deref().map(open).transpose() {
            Ok(file) => (file, Ok(())),
            Err(error) => (None, Err(error)),
        };
        (Self { path, file }, result)
    }

    fn run(&mut self, receiver: &Receiver<Message>, shared: &Shared) {
        // A line, or a part of one, that could not be written.
        let mut rest = Vec::new();
        loop {
            let is_written = self.put(&mut rest) && (self.file.is_some() || self.path.is_none());
            if is_written == shared.is_broken.swap(!is_written, Ordering::Relaxed) {
                tracing::warn!(is_written, "the audit log");
            }
            let message = match is_written {
                true => receiver.recv_timeout(POLL_INTERVAL),
                false => {
                    thread::sleep(POLL_INTERVAL);
                    Err(RecvTimeoutError::Timeout)
                }
            };
            match message {
                Ok(Message::Line(line)) => rest = line,
                Ok(Message::Flush(done)) => drop(done.send(())),
                Err(RecvTimeoutError::Timeout) => self.poll(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let lost = if is_written { shared.lost.swap(0, Ordering::Relaxed) } else { 0 };
            if lost > 0 {
                let line = json!({ "time_ms": now_ms(), "lost": lost });
                rest.extend_from_slice(format!("{line}\n").as_bytes());
            }
        }
    }

    /// Writes what it can of `rest` within a second, and removes that; returns whether it was all.
    fn put(&mut self, rest: &mut Vec<u8>) -> bool {
        while !rest.is_empty() {
            let stderr = io::stderr();
            let target = match (&self.file, &self.path) {
                (Some(file), _) => file.as_fd(),
                (None, None) => stderr.as_fd(),
                (None, Some(_)) => return false,
            };
            match write_piece(target, rest) {
                Ok(0) => return false,
                Ok(written) => drop(rest.drain(..written)),
                Err(Errno::INTR) => {}
                Err(error) => {
                    let error = io::Error::from(error);
                    tracing::error!(error = chain(&error), "the audit log cannot be written");
                    if error.kind() == io::ErrorKind::BrokenPipe {
                        // It is reopened once it has a reader.
                        self.file = None;
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Reopens the file if it was moved.
    fn poll(&mut self) {
        let Some(path) = &self.path else { return };
        let number =
            |found: io::Result<std::fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
        let is_there = number(std::fs::metadata(path));
        if is_there.is_none() || is_there != self.file.as_ref().and_then(|file| number(file.metadata())) {
            match open(path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {}
                Err(error) => tracing::error!(error = chain(&error), "the audit log cannot be opened"),
            }
        }
    }
}

/// Writes an atomic piece to a pipe; nothing if its reader does not free space within [`POLL_INTERVAL`].
fn write_piece(target: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let within = Timespec { tv_sec: POLL_INTERVAL.as_secs().cast_signed(), tv_nsec: 0 };
    if poll(&mut [PollFd::from_borrowed_fd(target, PollFlags::OUT)], Some(&within))? == 0 {
        return Ok(0);
    }
    match rustix::io::write(target, bytes.get(..PIECE_BYTES).unwrap_or(bytes)) {
        Err(Errno::AGAIN) => Ok(0),
        written => written,
    }
}

/// Only the owner may read callers' names. Opening a pipe without a reader is an error (`ENXIO`), not a wait.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(flags).open(path)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// JSON in printable ASCII: `\u` escapes replace what a terminal would interpret or reorder.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    for letter in line.chars() {
        match letter {
            ' '..='~' => plain.push(letter),
            _ => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                // Writing to a string does not fail.
                let _ = write!(plain, "\\u{unit:04x}");
            }),
        }
    }
    plain
}

/// Bounds text from callers.
pub(crate) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auditor(target: &Path, is_required: bool) -> Arc<Auditor> {
        let audit = Audit { target: Some(Some(target.to_owned())), is_required };
        Auditor::start(&audit, &Metrics::new()).unwrap().unwrap()
    }

    fn say(auditor: &Arc<Auditor>, what: &str) {
        let fields = AuditFields { subject: what.to_owned(), ..AuditFields::default() };
        let entry = Entry {
            auditor: auditor.clone(),
            method: "S/M".into(),
            who: Some("me".into()),
            tenant: "t".into(),
            role: "upload",
            peer: Peer::UNKNOWN,
            fields: Arc::new(Mutex::new(fields)),
            started: Instant::now(),
        };
        entry.write(&Amounts::default(), Some("OK"), None);
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn lines_follow_a_file_that_is_moved_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let auditor = auditor(&path, true);
        say(&auditor, "one\n\"two\"");
        auditor.flush();
        assert_eq!(lines(&path)[0]["what"], "one\n\"two\"");
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        until("there is a new file", || path.exists());
        say(&auditor, "three");
        auditor.flush();
        assert_eq!(lines(&path)[0]["what"], "three");
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end, "waited until {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_pipe_is_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        // It has no reader yet.
        let auditor = auditor(&path, true);
        assert!(!auditor.is_well());
        let open =
            || OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path);
        let reader = open().unwrap();
        until("the pipe is read", || auditor.is_well());
        // Its reader stalls, and it fills up.
        until("the reader stalls", || {
            (0..WAITING_MAX / 8).for_each(|_| say(&auditor, "more"));
            !auditor.is_well()
        });
        // The reader goes away, and another one opens it.
        drop(reader);
        let reader = open().unwrap();
        let (mut file, mut read) = (reader, Vec::new());
        until("there is a reader again", || {
            // Drains it so far.
            let _ = io::Read::read_to_end(&mut file, &mut read);
            auditor.is_well()
        });
    }

    #[test]
    fn a_line_has_nothing_that_a_terminal_obeys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let auditor = auditor(&path, true);
        let what = "x\n{\"who\":\"root\"}\u{1b}[2J\u{7f}\u{9b}31m\u{85}\u{2028}\u{202e}\u{2066}\u{200f}\u{feff}\u{e0041}\u{1f600}e";
        say(&auditor, what);
        auditor.flush();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.trim_end().bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{text}");
        assert_eq!((lines(&path).len(), lines(&path)[0]["what"].as_str()), (1, Some(what)));
    }

    #[test]
    fn what_cannot_be_written_is_reported_and_stops_calls_where_it_must() {
        // A disk that is always full.
        let auditor = auditor(Path::new("/dev/full"), true);
        assert!(auditor.is_well());
        say(&auditor, "lost");
        until("the loss is reported", || !auditor.is_well());
        // No call waits for it.
        (0..2 * WAITING_MAX).for_each(|_| say(&auditor, "more"));
        assert!(auditor.lost_total.get() >= WAITING_MAX as u64);
    }
}
