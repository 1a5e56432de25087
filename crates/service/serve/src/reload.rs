//! Files that are reread on changes: certificates, keys, authorities, token keys. A renewal swaps a symbolic
//! link or writes a new file. Comparing contents detects both, and SIGHUP triggers it at once.

use std::{path::PathBuf, sync::Arc, time::Duration};

use antares_tls::{ClientFiles, TlsClient, TlsError, read};
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    expiry::Expiry,
    metrics::Metrics,
    status::chain,
    tasks::{blocking, keep},
};

/// Interval of the checks.
const STEP: Duration = Duration::from_secs(1);

/// Results of a reload, for the metric.
const RESULTS: [&str; 2] = ["failed", "reloaded"];

/// All kinds of reloaded files.
const KINDS: [&str; 5] = ["client_tls", "jwks", "rules", "tls", "token"];

/// Rereads `files` on changes while the runtime lives. If `load` fails, the last valid state stays in force.
/// Call it within the runtime.
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

/// Follows a TLS client's files in the same way, and reports the end of their certificates. Call it within
/// the runtime.
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

/// Rereads the files, however it fails.
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
    // The contents read at the start may be older. If they are invalid, the next change reports it.
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

/// The counters, all present from the start as zeros.
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

/// Waits for the next check; returns whether a signal requested it.
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

/// Contents of the files, each none if unreadable; none at all if no thread is available.
async fn contents(files: &[PathBuf]) -> Option<Vec<Option<Vec<u8>>>> {
    let files = files.to_vec();
    let contents = move || files.iter().map(|path| read(path).ok()).collect();
    blocking(contents).await
}
