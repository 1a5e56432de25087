//! An issuer's keys from its `jwks_uri`: refetched every few minutes, and when a token names an unknown key.
//! While the issuer is unreachable, the last set stays in force for a limited time.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use antares_config::{Jwt, KeySource};
use antares_tls::read;
use prometheus::IntCounterVec;
use reqwest::{Certificate, Client, redirect::Policy};
use tokio::{
    sync::{Mutex, Notify, Semaphore, watch},
    time::{sleep, timeout},
};

use crate::{
    key_set::{JwksError, KeySet, Reader},
    metrics::Metrics,
    reload,
    status::chain,
    tasks::keep,
};

/// Interval between fetches, after a success and after a failure.
const REFRESH: Duration = Duration::from_secs(300);
const RETRY: Duration = Duration::from_secs(10);

/// Interval between fetches for unknown keys: strangers cannot cause more.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(1);

/// Timeout and maximum length of a response.
const FETCH_TIME_MAX: Duration = Duration::from_secs(5);
const BYTES_MAX: usize = 1 << 20;

/// How long the last keys are in force while their URL fails.
const KEY_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// How long a call waits for its token's key, and how many calls wait.
const CALL_WAIT_MAX: Duration = Duration::from_secs(7);
const CALLS_WAITING_MAX: usize = 256;

/// Lets calls wait for keys.
#[derive(Debug)]
pub(crate) struct KeyFetches {
    wanted: Notify,
    /// Started fetches.
    begun: AtomicU64,
    /// Ended fetches.
    ended: watch::Sender<u64>,
    places: Semaphore,
}

impl KeyFetches {
    /// Waits for the end of a fetch that starts after this call, or until `is_enough`.
    pub(crate) async fn next(&self, is_enough: impl Fn() -> bool) {
        let Ok(_place) = self.places.try_acquire() else { return };
        let mut ended = self.ended.subscribe();
        let last = self.begun.load(Ordering::Acquire) + 1;
        self.wanted.notify_one();
        let fetched = ended.wait_for(|number| *number >= last || is_enough());
        // A call that waits in vain is refused.
        let _ = timeout(CALL_WAIT_MAX, pin!(fetched)).await;
    }
}

/// Polls `jwks_uri`, and passes each new set to `store`; none when the last one is too old. Call it within
/// the runtime.
pub(crate) fn follow(
    jwt: &Jwt,
    metrics: &Metrics,
    store: impl Fn(Option<KeySet>) + Send + Sync + 'static,
) -> Arc<KeyFetches> {
    let fetches = Arc::new(KeyFetches {
        wanted: Notify::new(),
        begun: AtomicU64::new(0),
        ended: watch::Sender::new(0),
        places: Semaphore::new(CALLS_WAITING_MAX),
    });
    let follower = Follower {
        source: jwt.keys.clone(),
        reader: Reader::new(jwt, metrics),
        good_since: None,
        reloads: reload::counters(metrics),
        store: Box::new(store),
    };
    let (follower, shared) = (Arc::new(Mutex::new(follower)), fetches.clone());
    keep("jwks", move || {
        let (follower, fetches) = (follower.clone(), shared.clone());
        async move { follower.lock().await.run(&fetches).await }
    });
    fetches
}

struct Follower {
    source: KeySource,
    reader: Reader,
    /// When the current set was fetched.
    good_since: Option<Instant>,
    reloads: IntCounterVec,
    store: Box<dyn Fn(Option<KeySet>) + Send + Sync>,
}

impl Follower {
    async fn run(&mut self, fetches: &KeyFetches) {
        loop {
            fetches.begun.fetch_add(1, Ordering::AcqRel);
            let is_good = self.step().await;
            fetches.ended.send_modify(|number| *number += 1);
            sleep(UNKNOWN_PAUSE).await;
            let pause = if is_good { REFRESH } else { RETRY };
            tokio::select! {
                () = sleep(pause) => {}
                () = fetches.wanted.notified() => {}
            }
        }
    }

    /// Fetches once; returns whether it succeeded.
    async fn step(&mut self) -> bool {
        let KeySource::Uri { url, ca } = &self.source else { return true };
        let fetched = fetch(url, ca.as_deref()).await.and_then(|text| self.reader.read(&text));
        let (result, is_good) = match fetched {
            Ok(set) => {
                self.good_since = Some(Instant::now());
                (self.store)(Some(set));
                ("reloaded", true)
            }
            Err(error) => {
                let is_old = self.good_since.is_none_or(|since| since.elapsed() > KEY_AGE_MAX);
                tracing::error!(error = chain(&error), is_old, "the issuer's keys were not fetched");
                if is_old {
                    self.reader.report(&KeySet::default());
                    (self.store)(None);
                }
                ("failed", false)
            }
        };
        self.reloads.with_label_values(&["jwks", result]).inc();
        is_good
    }
}

/// Fetches `url`. A new connection each time follows changes of names and authorities.
async fn fetch(url: &str, ca: Option<&std::path::Path>) -> Result<Vec<u8>, JwksError> {
    let unusable = |problem: String| JwksError::Unusable(url.to_owned(), problem);
    let away = |error: reqwest::Error| unusable(format!("does not answer: {}", chain(&error.without_url())));
    let client = Client::builder().redirect(Policy::none()).timeout(FETCH_TIME_MAX);
    let client = match ca {
        Some(ca) => client.tls_certs_only(Certificate::from_pem_bundle(&read(ca)?).map_err(away)?),
        // Plain HTTP needs no authorities.
        None if url.starts_with("http:") => client.tls_certs_only([]).no_proxy(),
        None => client,
    };
    let client = client.build().map_err(away)?;
    let mut answer = client.get(url).header("accept", "application/json").send().await.map_err(away)?;
    let status = answer.status();
    if status != reqwest::StatusCode::OK {
        return Err(unusable(format!("answers {}", status.as_u16())));
    }
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(away)? {
        if text.len() + chunk.len() > BYTES_MAX {
            return Err(unusable(format!("is no JWKS: it has more than {BYTES_MAX} bytes")));
        }
        text.extend_from_slice(&chunk);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        sync::Mutex as Lock,
        thread,
    };

    use super::*;
    use crate::tests::jose_vectors::jwt;

    const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    /// A server that answers each request with the shared text; returns its URL.
    fn issuer() -> (String, Arc<Lock<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let answer = Arc::new(Lock::new(String::new()));
        let shared = answer.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let text = shared.lock().unwrap().clone();
                let _ = stream.write_all(text.as_bytes());
            }
        });
        (url, answer)
    }

    fn http(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn what_is_no_answer_leaves_the_last_keys_in_force_for_a_while() {
        let (url, answer) = issuer();
        let source = KeySource::Uri { url: url.clone(), ca: None };
        let (metrics, stored) = (Metrics::new(), Arc::new(Lock::new(Vec::new())));
        let store = stored.clone();
        let mut follower = Follower {
            reader: Reader::new(&jwt(source.clone()), &metrics),
            source,
            good_since: None,
            reloads: reload::counters(&metrics),
            store: Box::new(move |set| store.lock().unwrap().push(set.map(|set| set.len()))),
        };
        let stored = || std::mem::take(&mut *stored.lock().unwrap());
        *answer.lock().unwrap() = http("503 Unavailable", KEYS);
        assert!(!follower.step().await);
        assert_eq!(stored(), [None], "there never were keys");
        *answer.lock().unwrap() = http("200 OK", KEYS);
        assert!(follower.step().await);
        assert_eq!(stored(), [Some(1)]);
        for bad in [
            String::new(),
            http("404 Not Found", KEYS),
            http(&format!("302 Found\r\nlocation: {url}"), ""),
            http("204 No Content", ""),
            http("200 OK", "<html>"),
            http("200 OK", "{}"),
            http("200 OK", &format!("{KEYS}{}", " ".repeat(BYTES_MAX))),
        ] {
            *answer.lock().unwrap() = bad;
            assert!(!follower.step().await);
            assert!(stored().is_empty(), "the last keys are in force");
        }
        *answer.lock().unwrap() = http("200 OK", r#"{"keys":[]}"#);
        assert!(follower.step().await);
        assert_eq!(stored(), [Some(0)], "the issuer took them back");
        follower.good_since = Instant::now().checked_sub(KEY_AGE_MAX + Duration::from_secs(1));
        *answer.lock().unwrap() = String::new();
        assert!(!follower.step().await);
        assert_eq!(stored(), [None], "they are too old");
    }
}
