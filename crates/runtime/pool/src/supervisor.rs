//! The thread that owns the zygotes. It starts them, processes their news, and replaces lost ones. After many
//! workers or a long time, it replaces a zygote by one with another address space layout; the old one's workers
//! finish their jobs.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, mpsc::SyncSender},
    time::{Duration, Instant},
};

use antares_sandbox::{Layer, LayerStatus};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, WaitId, WaitIdOptions, waitid},
};

use crate::{
    PoolConfig, PoolError,
    ledger::{Count, Fate, Ledger, Link},
    reaper,
    text::printable,
    wire::{self, NEWS_BYTES_MAX, News},
    zygote::{LIMIT_BRANCHES, LIMIT_STORES, OWN_CORE, ZYGOTE_ARGUMENT},
};

/// Maximum time from a zygote's execution until it is ready. (LLVM is large, and a disk may be slow.)
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Initial and maximum pause before a zygote is replaced. It doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A zygote that lived this long resets the pause.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// Maximum age of a zygote, so that the time can be added to clocks.
const AGE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// A zygote that has not reported on a child for this long hangs.
const REPORT_WAIT_MAX: Duration = Duration::from_secs(60);
/// Interval of checks for that.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// Environment variables of a zygote; others may contain secrets.
const ENVIRONMENT: [&str; 3] = ["LD_LIBRARY_PATH", "PATH", "RUST_BACKTRACE"];

/// Runs until the pool is closed. Sends the first zygote's layers, or its error, to `started`.
///
/// Needs a thread of its own: a zygote receives its parent-death signal when the *thread* that created it
/// ends.
pub(crate) fn supervise(
    config: &PoolConfig,
    ledger: &Arc<Ledger>,
    started: &SyncSender<Result<Vec<LayerStatus>, PoolError>>,
) {
    let mut supervisor = match Supervisor::new(config, ledger) {
        Ok((supervisor, layers)) => {
            // Fails only if the receiver is gone.
            let _ = started.send(Ok(layers));
            supervisor
        }
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    while supervisor.attend() {}
    for zygote in supervisor.present.iter().chain(&supervisor.retired) {
        ledger.unlink(zygote.number);
    }
}

/// The zygotes and the schedule of their replacement.
struct Supervisor<'a> {
    config: &'a PoolConfig,
    ledger: &'a Ledger,
    /// The zygote that forks workers.
    present: Option<Zygote>,
    /// The previous one, until its last worker has ended.
    retired: Option<Zygote>,
    /// The next one, with its deadline for becoming ready.
    coming: Option<(Zygote, Instant)>,
    /// Latest time for starting another one.
    start_at: Instant,
    /// Time since when the present one forks workers.
    since: Instant,
    pause: Duration,
    zygotes: u64,
}

impl<'a> Supervisor<'a> {
    /// Starts the first zygote; returns its layers.
    fn new(config: &'a PoolConfig, ledger: &'a Ledger) -> Result<(Self, Vec<LayerStatus>), PoolError> {
        let mut zygote = Zygote::start(config, 1)?;
        let layers = zygote.wait_until_ready(config)?;
        let now = Instant::now();
        let (present, retired, coming) = (None, None, None);
        let mut supervisor = Self {
            config,
            ledger,
            present,
            retired,
            coming,
            start_at: now,
            since: now,
            pause: PAUSE_MIN,
            zygotes: 1,
        };
        supervisor.link(zygote);
        Ok((supervisor, layers))
    }

    /// Waits for an event and processes it. Returns false at the end.
    fn attend(&mut self) -> bool {
        self.retired.take_if(|zygote| self.ledger.is_idle(zygote.number));
        let is_silent = |zygote: &Zygote| self.ledger.is_overdue(zygote.number, REPORT_WAIT_MAX);
        if self.present.as_ref().is_some_and(is_silent) {
            tracing::error!(worker = %self.config.worker.display(), "zygote does not answer");
            self.lose();
        }
        if let Some(zygote) = self.retired.take_if(|zygote| is_silent(zygote)) {
            self.ledger.unlink(zygote.number);
        }
        if self.coming.is_none() && self.is_due() {
            self.start();
        }
        let Some([bell, present, retired, coming]) = self.wait() else { return false };
        if bell && !self.ledger.hear_bell() {
            return false;
        }
        if present && !self.present.as_mut().is_some_and(|zygote| zygote.hear(self.ledger)) {
            self.lose();
        }
        if retired && let Some(zygote) = self.retired.take_if(|zygote| !zygote.hear(self.ledger)) {
            self.ledger.unlink(zygote.number);
        }
        if let Some((_, until)) = &self.coming
            && (coming || Instant::now() >= *until)
        {
            self.welcome();
        }
        true
    }

    /// Whether to start another zygote now. At most two have workers.
    fn is_due(&self) -> bool {
        match &self.present {
            None => Instant::now() >= self.start_at,
            Some(present) => {
                self.retired.is_none()
                    && (Instant::now() >= self.start_at || present.forked >= self.config.renewal.workers_max)
            }
        }
    }

    /// Which of the bell, the present, the retired, and the coming zygote are readable. `None` if the kernel
    /// fails.
    fn wait(&self) -> Option<[bool; 4]> {
        let at = match &self.coming {
            Some((_, until)) => Some(*until),
            None if self.present.is_some() && self.retired.is_some() => None,
            None => Some(self.start_at),
        };
        let left = at.map_or(POLL_EVERY, |at| at.saturating_duration_since(Instant::now()));
        let left = Timespec::try_from(left.min(POLL_EVERY)).ok();
        let bell = self.ledger.bell();
        // The bell is a placeholder for missing zygotes.
        let coming = self.coming.as_ref().map(|(zygote, _)| zygote);
        let zygotes = [self.present.as_ref(), self.retired.as_ref(), coming];
        let socket = |index: usize| zygotes[index].map_or(bell, |zygote| zygote.socket.as_fd());
        let fds = [bell, socket(0), socket(1), socket(2)];
        let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "cannot wait for zygotes");
                return None;
            }
        }
        let is_ready = |index: usize| !polled[index].revents().is_empty();
        let speaks = |index: usize| zygotes[index - 1].is_some() && is_ready(index);
        Some([is_ready(0), speaks(1), speaks(2), speaks(3)])
    }

    /// Starts the next zygote.
    fn start(&mut self) {
        self.zygotes += 1;
        match Zygote::start(self.config, self.zygotes) {
            Ok(zygote) => self.coming = Some((zygote, Instant::now() + READY_WITHIN)),
            Err(error) => self.give_up(&error),
        }
    }

    /// Processes the coming zygote's first message, and uses it for new workers.
    fn welcome(&mut self) {
        let Some((mut zygote, _)) = self.coming.take() else { return };
        match zygote.ready(self.config) {
            Ok(_) => self.link(zygote),
            Err(error) => self.give_up(&error),
        }
    }

    fn link(&mut self, zygote: Zygote) {
        self.ledger.link(zygote.link());
        if let Some(before) = self.present.replace(zygote) {
            tracing::info!(worker = %self.config.worker.display(), "zygote renewed");
            self.ledger.count(Count::ZygoteRenewed);
            self.retired = Some(before);
        }
        self.since = Instant::now();
        self.start_at = self.since + self.config.renewal.age_max.min(AGE_MAX);
    }

    /// Handles a zygote that did not become ready: retries after a pause, which doubles.
    fn give_up(&mut self, error: &PoolError) {
        tracing::error!(worker = %self.config.worker.display(), %error, "zygote not replaced");
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.start_at = Instant::now() + self.pause;
        if let Some(present) = &mut self.present {
            // Postpone its renewal.
            present.forked = 0;
        }
    }

    /// Handles the end of the present zygote.
    fn lose(&mut self) {
        let Some(zygote) = self.present.take() else { return };
        self.ledger.count(Count::ZygoteLost);
        self.ledger.unlink(zygote.number);
        tracing::warn!(worker = %self.config.worker.display(), "zygote lost, replacing it");
        self.pause = if self.since.elapsed() > SETTLED_AFTER { PAUSE_MIN } else { self.pause };
        self.start_at = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// A zygote. Dropping it kills and reaps it.
struct Zygote {
    number: u64,
    process: Child,
    socket: Arc<OwnedFd>,
    /// Number of forked workers.
    forked: u64,
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // It may have ended already, and it cannot prevent its end.
        let _ = self.process.kill();
        let _ = self.reap();
    }
}

impl Zygote {
    /// Executes the worker binary.
    fn start(config: &PoolConfig, number: u64) -> Result<Self, PoolError> {
        let (ours, theirs) = wire::packet_pair().map_err(PoolError::io("make a socket for a zygote"))?;
        let environment = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        // Hold the lock until the owner is registered; otherwise the reaper would take an ended child.
        let mut own = reaper::own();
        let process = Command::new(&config.worker)
            .args([ZYGOTE_ARGUMENT, &std::process::id().to_string()])
            .args(config.speculation.limit_store_bypass.then_some(LIMIT_STORES))
            .args(config.speculation.limit_indirect_branches.then_some(LIMIT_BRANCHES))
            .args(config.speculation.own_core.then_some(OWN_CORE))
            .env_clear()
            .envs(environment)
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| PoolError::Start { path: config.worker.clone(), source })?;
        own.insert(process.id());
        drop(own);
        Ok(Self { number, process, socket: Arc::new(ours), forked: 0 })
    }

    fn link(&self) -> Link {
        Link { socket: Arc::clone(&self.socket), pid: self.process.id(), number: self.number }
    }

    /// Waits for its end. Its id leaves the list of our children before another process can have it.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        // Fails if it was reaped before.
        let _ = pid.map(|pid| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
        let mut own = reaper::own();
        own.remove(&self.process.id());
        self.process.wait()
    }

    /// Waits for the first message.
    fn wait_until_ready(&mut self, config: &PoolConfig) -> Result<Vec<LayerStatus>, PoolError> {
        let within = Timespec::try_from(READY_WITHIN).ok();
        // The next line reports errors.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], within.as_ref());
        self.ready(config)
    }

    /// The layers from its first message, if it has arrived.
    fn ready(&mut self, config: &PoolConfig) -> Result<Vec<LayerStatus>, PoolError> {
        let failed = |detail| PoolError::NotReady { path: config.worker.clone(), detail };
        let layers = self.first_word().map_err(failed)?;
        let missing = missing(&layers, &config.allow_degraded);
        if missing.is_empty() { Ok(layers) } else { Err(PoolError::LayersMissing { missing }) }
    }

    fn first_word(&mut self) -> Result<Vec<LayerStatus>, String> {
        let polled = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&Timespec::default()));
        if polled.map_err(|error| error.to_string())? == 0 {
            return Err(format!("no word from it within {} s", READY_WITHIN.as_secs()));
        }
        match wire::receive::<_, NEWS_BYTES_MAX>(self.socket.as_fd()).map_err(|error| error.to_string())? {
            Some((News::Ready { mut layers }, _)) => {
                layers.iter_mut().for_each(|layer| layer.detail = printable(&layer.detail));
                Ok(layers)
            }
            Some((News::Failed { detail }, _)) => Err(printable(&detail)),
            Some(_) => Err("its first word was not about itself".to_owned()),
            None => {
                let status = self.reap().map_err(|error| error.to_string())?;
                Err(format!("it ended with {status}"))
            }
        }
    }

    /// Processes one message of the zygote. Returns false if it has ended, or sends invalid news.
    fn hear(&mut self, ledger: &Ledger) -> bool {
        match wire::receive::<_, NEWS_BYTES_MAX>(self.socket.as_fd()) {
            Ok(Some((news, fds))) => {
                self.forked += u64::from(matches!(news, News::Spawned { .. }));
                let checked = ledger.check_news(&self.link(), &news, &fds);
                checked.map(|()| enter(ledger, news, fds)).map_err(io::Error::other)
            }
            Ok(None) => return false,
            Err(error) => Err(error),
        }
        .inspect_err(|error| {
            ledger.count(Count::FalseReport);
            tracing::error!(%error, "zygote not believed");
        })
        .is_ok()
    }
}

/// Applies checked news to the ledger.
fn enter(ledger: &Ledger, news: News, mut fds: Vec<OwnedFd>) {
    match news {
        News::Spawned { ticket } => {
            if let Some(handle) = fds.pop() {
                ledger.spawned(ticket, handle);
            }
        }
        News::NotSpawned { ticket, detail } => {
            let detail = printable(&detail);
            ledger.ended(ticket, Fate::NotSpawned { detail });
        }
        News::Ended { ticket, end } => ledger.ended(ticket, Fate::Ended(end)),
        News::Ready { .. } | News::Failed { .. } => {}
    }
}

/// The inactive required layers, except those that may be missing.
fn missing(layers: &[LayerStatus], accepted: &[Layer]) -> Vec<LayerStatus> {
    let required = Layer::ALL.into_iter().filter(|layer| layer.is_required() && !accepted.contains(layer));
    let status = required.map(|layer| {
        let found = layers.iter().find(|status| status.layer == layer);
        found.cloned().unwrap_or(LayerStatus { layer, active: false, detail: "not reported".to_owned() })
    });
    status.filter(|status| !status.active).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_layer_is_named_unless_accepted() {
        let mut layers: Vec<_> = Layer::ALL
            .into_iter()
            .map(|layer| LayerStatus { layer, active: layer.is_required(), detail: String::new() })
            .collect();
        assert!(missing(&layers, &[]).is_empty());
        for status in &mut layers {
            status.active = status.layer != Layer::Landlock;
        }
        assert_eq!(missing(&layers, &[])[0].layer, Layer::Landlock);
        assert!(missing(&layers, &[Layer::Landlock]).is_empty());
        layers.retain(|status| status.layer != Layer::Seccomp);
        assert_eq!(missing(&layers, &[Layer::Landlock])[0].layer, Layer::Seccomp);
    }
}
