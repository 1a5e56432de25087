//! Log lines on their way to standard output: a thread writes them, so that nothing waits for their reader.
//! Lines beyond the queue are counted, and the log reports their number once it is read again.

use std::{
    io::{self, IsTerminal as _, Write},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tracing_subscriber::fmt::{MakeWriter, format::Writer, time::FormatTime, time::SystemTime};

use crate::{
    log_rate,
    metrics::{MetricRow, Metrics},
};

/// Queued lines.
const LINES_MAX: usize = 8_192;

/// Their bytes.
const BYTES_MAX: usize = 8 << 20;

/// Longest wait for the last lines at the end of the process.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// Lines lost since the start.
static LOST: AtomicU64 = AtomicU64::new(0);

/// What the thread of a log gets.
pub(crate) enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Queues lines, without waiting. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter {
    sender: SyncSender<Message>,
    /// Queued bytes.
    waiting: Arc<AtomicUsize>,
}

/// The writer of this process, for its end.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

impl LogWriter {
    /// Writes to standard output.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(is_json: bool) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(LINES_MAX);
        let waiting = Arc::new(AtomicUsize::new(0));
        let drain = Drain {
            target: io::stdout(),
            waiting: waiting.clone(),
            is_json,
            lost: &LOST,
            left_out: log_rate::omitted,
            reported: Reported::default(),
        };
        thread::Builder::new().name("log".to_owned()).spawn(move || drain.run(&receiver))?;
        let writer = Self { sender, waiting };
        // A second one would need a second subscriber, which is refused.
        let _ = WRITER.set(writer.clone());
        Ok(writer)
    }

    /// Whether the output is a terminal.
    pub(crate) fn is_terminal() -> bool {
        io::stdout().is_terminal()
    }

    fn put(&self, line: &[u8], lost: &AtomicU64) {
        let has_room = self.waiting.fetch_add(line.len(), Ordering::Relaxed) < BYTES_MAX;
        if !has_room || self.sender.try_send(Message::Line(line.to_vec())).is_err() {
            self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Waits a bounded time until the queue of the log is written. Blocks.
pub(crate) fn flush() {
    WRITER.get().into_iter().for_each(|writer| flush_queue(&writer.sender));
}

/// The same for any queue.
pub(crate) fn flush_queue(queue: &SyncSender<Message>) {
    let (done, wait) = sync_channel(1);
    // A full queue means that there is no reader, or an unresponsive disk: its lines were never promised, and
    // are lost with the process.
    if queue.try_send(Message::Flush(done)).is_ok() {
        let _ = wait.recv_timeout(FLUSH_MAX);
    }
}

/// Exports the number of unwritten lines by reason.
pub(crate) fn watch(metrics: &Metrics) {
    let rows: [MetricRow<()>; 2] = [
        ("antares_log_lost_total", "Log lines dropped because standard output was not read.", |()| {
            LOST.load(Ordering::Relaxed)
        }),
        (
            "antares_log_left_out_total",
            "Lines of the log that were left out because there were too many of their kind.",
            |()| log_rate::omitted(),
        ),
    ];
    metrics.watch(rows, || ());
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// One line: the formatter writes each in one piece.
pub(crate) struct Line<'a>(&'a LogWriter);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.put(line, &LOST);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread's side.
struct Drain<'a, T> {
    target: T,
    waiting: Arc<AtomicUsize>,
    is_json: bool,
    lost: &'a AtomicU64,
    /// Lines omitted because of their rate.
    left_out: fn() -> u64,
    reported: Reported,
}

/// Missing lines that the log has reported.
#[derive(Debug, Default)]
struct Reported {
    lost: u64,
    left_out: u64,
    /// When it last reported omitted lines.
    at: Option<Instant>,
}

impl<T: AsFd> Drain<'_, T> {
    fn run(mut self, receiver: &Receiver<Message>) {
        loop {
            let message = match receiver.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    self.report_lost();
                    match receiver.recv_timeout(log_rate::PERIOD) {
                        Ok(message) => message,
                        Err(RecvTimeoutError::Timeout) => continue,
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            };
            match message {
                Message::Line(line) => {
                    if !write_all(self.target.as_fd(), &line) {
                        self.lost.fetch_add(1, Ordering::Relaxed);
                    }
                    self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
                }
                // The receiver may be gone.
                Message::Flush(done) => drop(done.send(())),
            }
        }
    }

    /// The queue is empty: reports missing lines.
    fn report_lost(&mut self) {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > self.reported.lost && self.say("lines of the log were lost", lost - self.reported.lost) {
            self.reported.lost = lost;
        }
        let left_out = (self.left_out)();
        if left_out > self.reported.left_out
            && self.reported.at.is_none_or(|at| at.elapsed() >= log_rate::PERIOD)
            && self.say("lines were left out: too many of their kind", left_out - self.reported.left_out)
        {
            self.reported = Reported { lost: self.reported.lost, left_out, at: Some(Instant::now()) };
        }
    }

    /// Writes a line of its own in the log's format.
    fn say(&self, message: &str, lines: u64) -> bool {
        let mut time = String::new();
        // Writing to a string does not fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let target = module_path!();
        let line = if self.is_json {
            let fields = serde_json::json!({
                "timestamp": time, "level": "WARN", "message": message, "lines": lines, "target": target,
            });
            format!("{fields}\n")
        } else {
            format!("{time}  WARN {target}: {message} lines={lines}\n")
        };
        write_all(self.target.as_fd(), line.as_bytes())
    }
}

/// Writes all of `bytes`, however long the reader stalls. False if that is impossible: a full disk, a missing
/// reader.
fn write_all(target: BorrowedFd<'_>, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(target, bytes) {
            Ok(0) => return false,
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Another user of the pipe made it nonblocking.
            Err(Errno::AGAIN) => {
                if poll(&mut [PollFd::from_borrowed_fd(target, PollFlags::OUT)], None).is_err() {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{BufRead as _, BufReader},
    };

    use super::*;

    #[test]
    fn nobody_waits_for_a_reader_and_what_is_lost_is_told_once() {
        let (reader, target) = rustix::pipe::pipe().unwrap();
        let (sender, receiver) = sync_channel(4);
        let waiting = Arc::new(AtomicUsize::new(0));
        let lost: &'static AtomicU64 = Box::leak(Box::default());
        let writer = LogWriter { sender, waiting: waiting.clone() };
        let line = [b"x".repeat(40_000), b"\n".to_vec()].concat();
        // No writer yet: four lines are queued, the rest is lost.
        (0..10).for_each(|_| writer.put(&line, lost));
        assert_eq!(lost.load(Ordering::Relaxed), 6);
        let drain = Drain {
            target,
            waiting: waiting.clone(),
            is_json: true,
            lost,
            left_out: || 0,
            reported: Reported::default(),
        };
        let thread = thread::spawn(move || drain.run(&receiver));
        let mut lines = BufReader::new(File::from(reader)).lines().map(Result::unwrap);
        assert_eq!(lines.by_ref().take(4).map(|line| line.len()).sum::<usize>(), 160_000);
        let told: serde_json::Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!((told["lines"].as_u64(), told["level"].as_str()), (Some(6), Some("WARN")));
        writer.put(b"again\n", lost);
        assert_eq!(lines.next().unwrap(), "again");
        drop(writer);
        thread.join().unwrap();
        // Exactly once.
        assert_eq!(lines.next(), None);
        assert_eq!(waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert!(!write_all(full.as_fd(), b"x"));
    }

    #[test]
    fn many_bytes_are_bounded_before_many_lines_are() {
        let (sender, _receiver) = sync_channel(LINES_MAX);
        let writer = LogWriter { sender, waiting: Arc::default() };
        let lost = AtomicU64::new(0);
        let line = vec![b'x'; 1 << 20];
        (0..20).for_each(|_| writer.put(&line, &lost));
        assert_eq!(lost.load(Ordering::Relaxed), 20 - (BYTES_MAX >> 20) as u64);
    }
}
