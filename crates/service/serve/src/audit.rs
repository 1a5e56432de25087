//! The audit log: a line for each call that needs a role, that was refused, or that used something.
//!
//! A thread writes them, so that no call waits for a disk, or for whoever reads a pipe. Lines that find no
//! room are counted, and the log says how many there were; where it is required, calls are refused instead.

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

use crate::{metrics::Metrics, peer::Peer, status::chain, usage::Amounts};

/// Lines that wait for the disk.
const WAITING_MAX: usize = 8_192;

/// How often a file that cannot be written is tried again, and how often it is looked whether it was moved
/// away.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long the end of the process waits for the last lines.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// How long the start waits for the file to open; a file system that does not answer must not hold it up.
const OPEN_MAX: Duration = Duration::from_secs(5);

/// Bytes that go into a pipe at once or not at all (`PIPE_BUF`).
const PIECE_BYTES: usize = 4_096;

/// Bytes of what a caller may write into a line.
const TEXT_BYTES_MAX: usize = 256;

enum Message {
    Line(String),
    Flush(SyncSender<()>),
}

/// Takes lines.
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
    /// Lines lost that the log does not tell of yet.
    lost: AtomicU64,
}

/// What a service says of a call for the audit log.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditFields(Arc<Mutex<Fields>>);

#[derive(Debug, Default)]
struct Fields {
    subject: String,
    request_id: String,
}

impl AuditFields {
    /// What the call is about.
    pub(crate) fn set_subject(&self, subject: &impl ToString) {
        self.0.lock().subject = cut(subject.to_string());
    }

    /// The caller's own name for the call.
    pub(crate) fn set_request_id(&self, id: &str) {
        self.0.lock().request_id = cut(id.to_owned());
    }
}

/// What is known of a call when it begins; its line is written when it ends.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) auditor: Arc<Auditor>,
    pub(crate) method: Arc<str>,
    pub(crate) who: Option<Arc<str>>,
    pub(crate) tenant: Arc<str>,
    pub(crate) role: &'static str,
    pub(crate) peer: Peer,
    pub(crate) fields: AuditFields,
    pub(crate) started: Instant,
}

impl Entry {
    /// Writes what the call `used`, and how it ended; without an `outcome` what it used after its end.
    pub(crate) fn write(&self, used: &Amounts, outcome: Option<&str>, reason: Option<&str>) {
        let fields = self.fields.0.lock();
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
    /// Writes where `audit` says, if it says so.
    ///
    /// A pipe that nobody reads yet, and a file system that does not answer, are no reason not to start: the
    /// log is broken until then.
    ///
    /// # Errors
    /// The file cannot be had.
    pub(crate) fn start(audit: &Audit, metrics: &Metrics) -> io::Result<Option<Arc<Self>>> {
        let lost_total = metrics.counter(
            "antares_audit_lost_total",
            "Lines of the audit log that found no room; the log says how many.",
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

    /// Whether calls may be made: their lines can be written, or need not be.
    pub(crate) fn is_well(&self) -> bool {
        !self.is_required
            || !self.shared.is_broken.load(Ordering::Relaxed) && self.shared.lost.load(Ordering::Relaxed) == 0
    }

    fn write(&self, line: &Value) {
        if let Err(error) = self.sender.try_send(Message::Line(format!("{}\n", plain(&line.to_string())))) {
            // Whoever writes it has ended.
            if let TrySendError::Disconnected(_) = error {
                self.shared.is_broken.store(true, Ordering::Relaxed);
            }
            self.lost_total.inc();
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was written is in the file, but not for ever. Blocks.
    pub(crate) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        // A full queue means that the disk does not answer: its lines are lost with the process, and were
        // never promised.
        if self.sender.try_send(Message::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(FLUSH_MAX);
        }
    }
}

/// Where lines go.
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
        // A line that could not be written, or a part of one.
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
                Ok(Message::Line(line)) => rest = line.into_bytes(),
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

    /// Writes as much of `rest` as it can within a second, and takes that out of it; whether that was all.
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
                        // It is opened again when somebody reads.
                        self.file = None;
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Opens the file again if it was moved away.
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

/// Writes what goes into a pipe at once; nothing if whoever reads it does not make room for it within
/// [`POLL_INTERVAL`].
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

/// Names of callers are nobody else's business. Opening a pipe that nobody reads is an error (`ENXIO`), not a
/// wait.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().create(true).append(true).mode(0o600).custom_flags(flags).open(path)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// JSON in printable ASCII: what a terminal would obey or show in another order stands as `\u` escapes.
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

fn cut(mut text: String) -> String {
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
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
        let fields = AuditFields::default();
        fields.set_subject(&what);
        let entry = Entry {
            auditor: auditor.clone(),
            method: "S/M".into(),
            who: Some("me".into()),
            tenant: "t".into(),
            role: "upload",
            peer: Peer::UNKNOWN,
            fields,
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
        let end = Instant::now() + Duration::from_secs(60);
        while !path.exists() && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
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
        // Nobody reads it yet.
        let auditor = auditor(&path, true);
        assert!(!auditor.is_well());
        let open =
            || OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path);
        let reader = open().unwrap();
        until("the pipe is read", || auditor.is_well());
        // It is read no more, and filled.
        until("the reader stalls", || {
            (0..WAITING_MAX / 8).for_each(|_| say(&auditor, "more"));
            !auditor.is_well()
        });
        // It goes away, and another one comes.
        drop(reader);
        let reader = open().unwrap();
        let (mut file, mut read) = (reader, Vec::new());
        until("there is a reader again", || {
            // What has been written so far.
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
        let end = Instant::now() + Duration::from_secs(60);
        while auditor.is_well() && Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(!auditor.is_well());
        // Nobody waits for it.
        (0..2 * WAITING_MAX).for_each(|_| say(&auditor, "more"));
        assert!(auditor.lost_total.get() >= WAITING_MAX as u64);
    }
}
