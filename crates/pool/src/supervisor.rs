//! The thread that owns a zygote: starts it, hears its news, replaces it when it dies.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc::SyncSender},
    time::{Duration, Instant},
};

use antares_sandbox::{Layer, LayerStatus};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    PoolConfig, PoolError,
    ledger::{Fate, Ledger, Link},
    wire::{self, NEWS_BYTES_MAX, News},
    zygote::ZYGOTE_ARGUMENT,
};

/// Time that a zygote has from its execution to ready. (LLVM is large, and a disk may be slow.)
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Pause before a zygote is replaced: the first time, and at most. It doubles.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A zygote that lived this long was not broken from the start; the pause begins anew.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// Environment that a zygote sees; the rest may hold secrets.
const ENVIRONMENT: [&str; 3] = ["LD_LIBRARY_PATH", "PATH", "RUST_BACKTRACE"];

/// Runs until the pool is closed. The first zygote's layers, or why there is none, go to `started`.
///
/// This must be a thread of its own: a zygote gets its parent-death signal when the *thread* ends that made it.
pub(crate) fn supervise(
    config: &PoolConfig,
    ledger: &Arc<Ledger>,
    started: &SyncSender<Result<Vec<LayerStatus>, PoolError>>,
) {
    let (mut zygote, layers) = match Zygote::start(config) {
        Ok(zygote) => zygote,
        Err(error) => {
            // Nobody listens only if the caller is gone.
            let _ = started.send(Err(error));
            return;
        }
    };
    let wanted = ledger.link(zygote.link());
    let _ = started.send(Ok(layers));
    if !wanted {
        return;
    }
    let mut pause = PAUSE_MIN;
    loop {
        let since = Instant::now();
        zygote.hear(ledger);
        let wanted = ledger.unlink();
        drop(zygote);
        if !wanted {
            return;
        }
        tracing::warn!(worker = %config.worker.display(), "zygote lost, replacing it");
        if since.elapsed() > SETTLED_AFTER {
            pause = PAUSE_MIN;
        }
        zygote = loop {
            if !ledger.pause(pause) {
                return;
            }
            pause = (pause * 2).min(PAUSE_MAX);
            match Zygote::start(config) {
                Ok((zygote, _)) => break zygote,
                Err(error) => {
                    tracing::error!(worker = %config.worker.display(), %error, "zygote not replaced")
                }
            }
        };
        if !ledger.link(zygote.link()) {
            return;
        }
    }
}

/// A zygote that is ready. Dropping it kills and reaps it.
struct Zygote {
    process: Child,
    socket: Arc<OwnedFd>,
}

impl Drop for Zygote {
    fn drop(&mut self) {
        // It may be dead already, and it cannot refuse to die.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Zygote {
    fn start(config: &PoolConfig) -> Result<(Self, Vec<LayerStatus>), PoolError> {
        let path = || config.worker.clone();
        let (ours, theirs) = wire::packet_pair().map_err(PoolError::io("make a socket for a zygote"))?;
        let environment = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let process = Command::new(&config.worker)
            .args([ZYGOTE_ARGUMENT, &std::process::id().to_string()])
            .env_clear()
            .envs(environment)
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| PoolError::Start { path: path(), source })?;
        let mut zygote = Self { process, socket: Arc::new(ours) };
        let layers = zygote.ready().map_err(|detail| PoolError::NotReady { path: path(), detail })?;
        let missing = missing(&layers, &config.allow_degraded);
        if missing.is_empty() { Ok((zygote, layers)) } else { Err(PoolError::LayersMissing { missing }) }
    }

    fn link(&self) -> Link {
        Link { socket: Arc::clone(&self.socket), pid: self.process.id() }
    }

    /// Waits for the first news.
    fn ready(&mut self) -> Result<Vec<LayerStatus>, String> {
        let within = Timespec::try_from(READY_WITHIN).map_err(|error| error.to_string())?;
        let polled = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&within));
        if polled.map_err(|error| error.to_string())? == 0 {
            return Err(format!("no word from it within {} s", READY_WITHIN.as_secs()));
        }
        match wire::receive::<_, NEWS_BYTES_MAX>(self.socket.as_fd()).map_err(|error| error.to_string())? {
            Some((News::Ready { layers }, _)) => Ok(layers),
            Some((News::Failed { detail }, _)) => Err(detail),
            Some(_) => Err("its first word was not about itself".to_owned()),
            None => {
                let status = self.process.wait().map_err(|error| error.to_string())?;
                Err(format!("it ended with {status}"))
            }
        }
    }

    /// Enters the zygote's news into the ledger, until it is gone or talks nonsense.
    fn hear(&self, ledger: &Ledger) {
        loop {
            match wire::receive::<_, NEWS_BYTES_MAX>(self.socket.as_fd()).and_then(|news| enter(ledger, news))
            {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::error!(%error, "zygote not understood");
                    return;
                }
            }
        }
    }
}

/// Enters one piece of news; answers whether there may be more.
fn enter(ledger: &Ledger, news: Option<(News, Vec<OwnedFd>)>) -> io::Result<bool> {
    let Some((news, mut fds)) = news else { return Ok(false) };
    match news {
        News::Spawned { ticket } => {
            let handle = fds.pop().ok_or(io::ErrorKind::InvalidData)?;
            ledger.spawned(ticket, handle);
        }
        News::NotSpawned { ticket, detail } => ledger.ended(ticket, Fate::NotSpawned { detail }),
        News::Ended { ticket, end } => ledger.ended(ticket, Fate::Ended(end)),
        News::Ready { .. } | News::Failed { .. } => return Err(io::ErrorKind::InvalidData.into()),
    }
    Ok(true)
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
