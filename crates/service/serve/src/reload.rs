//! Files that are read again when they change: certificates, keys, authorities, tokens' keys. Whoever renews
//! them swaps a symbolic link or writes a new file; both are found by looking at what the files say, and at
//! once after SIGHUP.

use std::{path::PathBuf, sync::Arc, time::Duration};

use antares_tls::{ClientFiles, TlsClient, TlsError};
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    expiry::Expiry,
    metrics::Metrics,
    status::chain,
    tasks::{blocking, keep},
};

/// How often the files are looked at.
const STEP: Duration = Duration::from_secs(1);

/// Results of a reload, as the metric has them.
const RESULTS: [&str; 2] = ["failed", "reloaded"];

/// Everything of which files are read again.
const KINDS: [&str; 5] = ["client_tls", "jwks", "rules", "tls", "token"];

/// Reads `files` again whenever they change, for as long as the runtime lives. Where `load` fails, nothing
/// changes: what was good stays in force. Call it within the runtime.
pub fn watch<E: std::error::Error + 'static>(
    kind: &'static str,
    files: Vec<PathBuf>,
    metrics: &Metrics,
    mut load: impl FnMut() -> Result<(), E> + Send + 'static,
) {
    let reloads = counters(metrics);
    let load = Arc::new(Mutex::new(move || load().map_err(|error| chain(&error))));
    keep(kind, move || poll(kind, files.clone(), reloads.clone(), load.clone()));
}

/// Has the files of a client of TLS followed in the same way, and tells when their certificates end. Call it
/// within the runtime.
pub fn watch_client(client: &TlsClient, metrics: &Metrics) {
    let (client, expiry) = (client.clone(), Expiry::new(metrics));
    let note =
        move |files: &ClientFiles| expiry.record_client(files.ca.as_deref(), files.certificate.as_deref());
    note(client.files());
    watch("client_tls", client.files().all(), metrics, move || {
        client.reload()?;
        note(client.files());
        Ok::<_, TlsError>(())
    });
}

/// Reads again what `load` reads, in what way ever it fails.
type Load<F> = Arc<Mutex<F>>;

async fn poll<F: FnMut() -> Result<(), String> + Send>(
    kind: &'static str,
    files: Vec<PathBuf>,
    reloads: IntCounterVec,
    load: Load<F>,
) {
    let mut hangup = signal(SignalKind::hangup()).ok();
    let load = || load.lock()();
    let mut seen = contents(&files).await;
    // What was read at the start may have been older than that. If it is of no use, the next change tells.
    let _ = load();
    loop {
        let is_asked = next(&mut hangup).await;
        let now = contents(&files).await;
        if now.is_none() || now == seen && !is_asked {
            continue;
        }
        seen = now;
        let result = match load() {
            Ok(()) => {
                tracing::info!(kind, "files were read again");
                RESULTS[1]
            }
            Err(error) => {
                tracing::error!(kind, error, "changed files are invalid; the old ones stay in force");
                RESULTS[0]
            }
        };
        reloads.with_label_values(&[kind, result]).inc();
    }
}

/// The counters, all there from the start as zeros.
pub(crate) fn counters(metrics: &Metrics) -> IntCounterVec {
    let reloads = metrics.counters(
        "antares_reloads_total",
        "Times that changed files of certificates and keys were read again.",
        &["kind", "result"],
    );
    for kind in KINDS {
        RESULTS.iter().for_each(|result| drop(reloads.with_label_values(&[kind, result])));
    }
    reloads
}

/// Until it is time to look; whether somebody asked for it.
async fn next(hangup: &mut Option<Signal>) -> bool {
    let Some(hangup) = hangup else {
        tokio::time::sleep(STEP).await;
        return false;
    };
    tokio::select! {
        () = tokio::time::sleep(STEP) => false,
        _ = hangup.recv() => true,
    }
}

/// What the files say, none where one cannot be read; none at all where there is no thread to look.
async fn contents(files: &[PathBuf]) -> Option<Vec<Option<Vec<u8>>>> {
    let files = files.to_vec();
    let read = move || files.iter().map(|path| crate::tls::read(path).ok()).collect();
    blocking(read).await
}
