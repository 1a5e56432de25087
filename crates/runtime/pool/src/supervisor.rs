//! The thread that owns the zygotes: starts them, hears their news, replaces one that dies, and one that has
//! made enough workers or is old by one with another layout of its address space. The workers of that one
//! finish what they do.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc::SyncSender},
    time::{Duration, Instant},
};

use antares_sandbox::{Layer, LayerStatus};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{
    PoolConfig, PoolError,
    ledger::{Count, Fate, Ledger, Link},
    reaper,
    text::printable,
    wire::{self, NEWS_BYTES_MAX, News},
    zygote::{LIMIT_BRANCHES, LIMIT_STORES, OWN_CORE, ZYGOTE_ARGUMENT},
};

/// Time that a zygote has from its execution to ready. (LLVM is large, and a disk may be slow.)
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Pause before a zygote is replaced: the first time, and at most. It doubles.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A zygote that lived this long was not broken from the start; the pause begins anew.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// A zygote is never older: longer times cannot be added to clocks.
const AGE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// A zygote that has not said for so long what became of a child hangs.
const REPORT_WAIT_MAX: Duration = Duration::from_secs(60);
/// How often that is looked at.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// Environment that a zygote sees; the rest may hold secrets.
const ENVIRONMENT: [&str; 3] = ["LD_LIBRARY_PATH", "PATH", "RUST_BACKTRACE"];

/// Runs until the pool is closed. The first zygote's layers, or why there is none, go to `started`.
///
/// This must be a thread of its own: a zygote gets its parent-death signal when the *thread* ends that made
/// it.
pub(crate) fn supervise(
    config: &PoolConfig,
    ledger: &Arc<Ledger>,
    started: &SyncSender<Result<Vec<LayerStatus>, PoolError>>,
) {
    let mut supervisor = match Supervisor::new(config, ledger) {
        Ok((supervisor, layers)) => {
            // Nobody listens only if the caller is gone.
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

/// Who makes workers, and when that changes.
struct Supervisor<'a> {
    config: &'a PoolConfig,
    ledger: &'a Ledger,
    /// The zygote that makes workers.
    present: Option<Zygote>,
    /// The one before it, until its last worker has ended.
    retired: Option<Zygote>,
    /// The next one, which must be ready by then.
    coming: Option<(Zygote, Instant)>,
    /// When another one is to be started, whatever happens.
    start_at: Instant,
    /// When the present one became that.
    since: Instant,
    pause: Duration,
    zygotes: u64,
}

impl<'a> Supervisor<'a> {
    /// One with a zygote, and that one's layers.
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

    /// Waits for something to do, and does it. Answers whether there may be more.
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

    /// Whether another zygote is to be started now. There are two with workers at most.
    fn is_due(&self) -> bool {
        match &self.present {
            None => Instant::now() >= self.start_at,
            Some(present) => {
                self.retired.is_none()
                    && (Instant::now() >= self.start_at || present.forked >= self.config.renewal.workers_max)
            }
        }
    }

    /// Which of the bell, the present, the retired, and the coming zygote have something to say. None if the
    /// kernel fails.
    fn wait(&self) -> Option<[bool; 4]> {
        let at = match &self.coming {
            Some((_, until)) => Some(*until),
            None if self.present.is_some() && self.retired.is_some() => None,
            None => Some(self.start_at),
        };
        let left = at.map_or(POLL_EVERY, |at| at.saturating_duration_since(Instant::now()));
        let left = Timespec::try_from(left.min(POLL_EVERY)).ok();
        let bell = self.ledger.bell();
        // The bell stands in for who is not there.
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

    /// Hears the coming zygote's first word, and has it make workers from now on.
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

    /// The next zygote did not get ready. Another one is tried after a pause, which doubles.
    fn give_up(&mut self, error: &PoolError) {
        tracing::error!(worker = %self.config.worker.display(), %error, "zygote not replaced");
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.start_at = Instant::now() + self.pause;
        if let Some(present) = &mut self.present {
            // It is renewed later.
            present.forked = 0;
        }
    }

    /// The present zygote is gone.
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
    /// Workers that it made.
    forked: u64,
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // It may be dead already, and it cannot refuse to die.
        let _ = self.process.kill();
        let _ = self.process.wait();
        reaper::own().remove(&self.process.id());
    }
}

impl Zygote {
    /// Executes the worker binary.
    fn start(config: &PoolConfig, number: u64) -> Result<Self, PoolError> {
        let (ours, theirs) = wire::packet_pair().map_err(PoolError::io("make a socket for a zygote"))?;
        let environment = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        // Held until it is known whose it is: what has ended and is nobody's is reaped.
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

    /// Waits for the first news.
    fn wait_until_ready(&mut self, config: &PoolConfig) -> Result<Vec<LayerStatus>, PoolError> {
        let within = Timespec::try_from(READY_WITHIN).ok();
        // What went wrong shows when it is heard.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], within.as_ref());
        self.ready(config)
    }

    /// Its layers, from its first news, if that is there now.
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
                let status = self.process.wait().map_err(|error| error.to_string())?;
                Err(format!("it ended with {status}"))
            }
        }
    }

    /// Enters one piece of the zygote's news into the ledger. Answers whether there may be more: it may be
    /// gone, or talk nonsense.
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

/// Enters one piece of news, which was checked.
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

/// The required layers that do not stand, beside those whose absence is accepted.
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
