//! The audit log: a line for each call that needs a role, and for each that was refused for who made it.
//!
//! A thread writes them, so that no call waits for a disk. Lines that find no room are counted, and the log says how many there
//! were; where it is required, calls are refused instead.

use std::{
    fmt::Write as _,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use prometheus::IntCounter;
use serde_json::{Value, json};

use crate::{audit_section::Audit, metrics::Metrics, peer::Peer, status::chain};

/// Lines that wait for the disk.
const WAITING_MAX: usize = 8_192;

/// How often a file that cannot be written is tried again, and how often it is looked whether it was moved away.
const LOOK: Duration = Duration::from_secs(1);

/// How long the end of the process waits for the last lines.
const FLUSH_MAX: Duration = Duration::from_secs(2);

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

/// What a service says of a call for the audit log. An extension of every request.
#[derive(Clone, Debug, Default)]
pub struct CallNotes(Arc<Mutex<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    what: String,
    request_id: String,
}

impl CallNotes {
    /// Those of `request`.
    #[must_use]
    pub fn of<T>(request: &tonic::Request<T>) -> Self {
        request.extensions().get().cloned().unwrap_or_default()
    }

    /// What the call is about: a digest, a key.
    pub fn what(&self, what: impl ToString) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).what = cut(what.to_string());
    }

    /// The caller's own name for the call.
    pub fn request_id(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).request_id = cut(id.to_owned());
    }
}

/// What is known of a call when it begins; its line is written when it ends.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) auditor: Arc<Auditor>,
    pub(crate) who: Option<Arc<str>>,
    pub(crate) tenant: Arc<str>,
    pub(crate) role: &'static str,
    pub(crate) peer: Peer,
    pub(crate) notes: CallNotes,
}

impl Entry {
    /// Writes how the call of `method` ended.
    pub(crate) fn end(self, method: &str, code: &str, reason: Option<&str>, elapsed: Duration) {
        let notes = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = json!({
            "time_ms": now_ms(),
            "call": method,
            "who": self.who.as_deref().map(|who| cut(who.to_owned())),
            "peer": self.peer.to_string(),
            "tenant": &*self.tenant,
            "role": self.role,
            "what": notes.what,
            "outcome": code,
            "reason": reason,
            "request_id": notes.request_id,
            "elapsed_us": u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        });
        self.auditor.write(&line);
    }
}

impl Auditor {
    /// Writes where `audit` says, if it says so.
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
        let mut sink = Sink::open(target)?;
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let shared = Arc::new(Shared::default());
        let state = shared.clone();
        thread::Builder::new().name("audit".to_owned()).spawn(move || sink.run(&receiver, &state))?;
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
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.sender.try_send(Message::Line(format!("{}\n", plain(&line.to_string()))))
        {
            self.lost_total.inc();
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was written is in the file, but not for ever. Blocks.
    pub(crate) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        // A full queue means that the disk does not answer: its lines are lost with the process, and were never promised.
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
    fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let file = path.as_deref().map(open).transpose()?;
        Ok(Self { path, file })
    }

    fn run(&mut self, receiver: &Receiver<Message>, shared: &Shared) {
        // A line that could not be written, or a part of one.
        let mut rest = Vec::new();
        loop {
            let is_written = self.put(&mut rest);
            if is_written == shared.is_broken.swap(!is_written, Ordering::Relaxed) {
                tracing::warn!(is_written, "the audit log");
            }
            let message = match is_written {
                true => receiver.recv_timeout(LOOK),
                false => {
                    thread::sleep(LOOK);
                    Err(RecvTimeoutError::Timeout)
                }
            };
            match message {
                Ok(Message::Line(line)) => rest = line.into_bytes(),
                Ok(Message::Flush(done)) => drop(done.send(())),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let lost = if is_written { shared.lost.swap(0, Ordering::Relaxed) } else { 0 };
            if lost > 0 {
                let line = json!({ "time_ms": now_ms(), "lost": lost });
                rest.extend_from_slice(format!("{line}\n").as_bytes());
            }
        }
    }

    /// Writes as much of `rest` as it can, and takes that out of it; whether that was all.
    fn put(&mut self, rest: &mut Vec<u8>) -> bool {
        while !rest.is_empty() {
            let written = match (&mut self.file, &self.path) {
                (Some(file), _) => file.write(rest),
                (None, None) => io::stderr().write(rest),
                (None, Some(_)) => return false,
            };
            match written {
                Ok(0) => return false,
                Ok(written) => drop(rest.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::error!(error = chain(&error), "the audit log cannot be written");
                    return false;
                }
            }
        }
        true
    }

    /// Opens the file again if it was moved away.
    fn look(&mut self) {
        let Some(path) = &self.path else { return };
        let number =
            |found: io::Result<std::fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
        let is_there = number(std::fs::metadata(path));
        if is_there.is_none() || is_there != self.file.as_ref().and_then(|file| number(file.metadata())) {
            match open(path) {
                Ok(file) => self.file = Some(file),
                Err(error) => tracing::error!(error = chain(&error), "the audit log cannot be opened"),
            }
        }
    }
}

/// Names of callers are nobody else's business.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
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
        let notes = CallNotes::default();
        notes.what(what);
        let entry = Entry {
            auditor: auditor.clone(),
            who: Some("me".into()),
            tenant: "t".into(),
            role: "upload",
            peer: Peer::UNKNOWN,
            notes,
        };
        entry.end("S/M", "OK", None, Duration::ZERO);
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
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while !path.exists() && std::time::Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        say(&auditor, "three");
        auditor.flush();
        assert_eq!(lines(&path)[0]["what"], "three");
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
    fn what_cannot_be_written_is_told_and_stops_calls_where_it_must() {
        // A disk that is always full.
        let auditor = auditor(Path::new("/dev/full"), true);
        assert!(auditor.is_well());
        say(&auditor, "lost");
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while auditor.is_well() && std::time::Instant::now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(!auditor.is_well());
        // Nobody waits for it.
        (0..2 * WAITING_MAX).for_each(|_| say(&auditor, "more"));
        assert!(auditor.lost_total.get() >= WAITING_MAX as u64);
    }
}
