//! HTTP requests with limits, timeouts and retries. Uses no proxy, and no other host than the configured one.

use std::{
    error::Error,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::Uri;
use reqwest::{Client, header, redirect::Policy};
use tokio::time::{sleep, timeout};

use crate::{error::NodeError, options::NodeOptions};

/// The HTTP client of a node.
#[derive(Clone)]
pub(crate) struct Transport {
    url: String,
    /// The address in messages: without its path, which may be secret.
    name: String,
    client: Client,
    options: NodeOptions,
}

impl Transport {
    pub(crate) fn new(text: &str, options: NodeOptions) -> Result<Self, NodeError> {
        let uri = parse_url(text)?;
        let client = Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(options.connect_time)
            .user_agent(concat!("antares/", env!("CARGO_PKG_VERSION")));
        // Without encryption, no root certificates are needed.
        let client = if uri.scheme_str() == Some("http") { client.tls_certs_only([]) } else { client };
        let client = client.build().map_err(|_| NodeError::NoAuthorities)?;
        Ok(Self { url: text.to_owned(), name: public(text), client, options })
    }

    /// The node's name for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Retries for a new request.
    pub(crate) fn retries(&self) -> Retries {
        let NodeOptions { attempts, backoff, backoff_max, .. } = self.options;
        Retries { attempts, wait: backoff, wait_max: backoff_max }
    }

    /// The error for an answer that has the wrong structure.
    pub(crate) fn senseless(&self, method: &'static str, detail: impl ToString) -> NodeError {
        NodeError::Senseless { url: self.name.clone(), method, detail: detail.to_string() }
    }

    /// Sends `body`, a JSON request of `method`, and returns the answer.
    pub(crate) async fn post(&self, method: &'static str, body: Bytes) -> Result<Bytes, NodeError> {
        let seconds = self.options.call_time.as_secs();
        let late = || NodeError::TooSlow { url: self.name.clone(), seconds };
        let answer = timeout(self.options.call_time, self.read(method, body)).await;
        let answer = answer.unwrap_or_else(|_| Err(late()))?;
        match answer.trim_ascii_start().first() {
            Some(b'{' | b'[') => Ok(answer),
            _ => Err(NodeError::NoJson { url: self.name.clone(), method }),
        }
    }

    async fn read(&self, method: &'static str, body: Bytes) -> Result<Bytes, NodeError> {
        let broken = |error: reqwest::Error| NodeError::Unreachable {
            url: self.name.clone(),
            detail: chain(&error.without_url()),
        };
        let request = self.client.post(&self.url).header(header::CONTENT_TYPE, "application/json");
        let mut answer = request.body(body).send().await.map_err(broken)?;
        if !answer.status().is_success() {
            let wait = answer.headers().get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok());
            let (status, wait_s) =
                (answer.status().as_u16(), wait.and_then(|wait| seconds_of(wait, SystemTime::now())));
            return Err(NodeError::Status { url: self.name.clone(), status, wait_s });
        }
        let (mut bytes, bytes_max) = (Vec::new(), self.options.answer_bytes_max);
        while let Some(chunk) = answer.chunk().await.map_err(broken)? {
            if bytes.len() + chunk.len() > bytes_max {
                return Err(NodeError::TooLong { url: self.name.clone(), method, bytes_max });
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.into())
    }
}

/// The remaining attempts of a request.
pub(crate) struct Retries {
    attempts: u32,
    wait: Duration,
    wait_max: Duration,
}

impl Retries {
    /// Waits and returns true if the request should be repeated after `error`.
    pub(crate) async fn is_left(&mut self, error: Option<&NodeError>) -> bool {
        self.attempts = self.attempts.saturating_sub(1);
        let Some(error) = error.filter(|error| error.is_passing() && self.attempts > 0) else { return false };
        sleep(error.retry_after().unwrap_or(self.wait).min(self.wait_max)).await;
        self.wait = (self.wait * 2).min(self.wait_max);
        true
    }
}

/// Seconds that `Retry-After` names: a number of them, or a date of HTTP.
fn seconds_of(retry_after: &str, now: SystemTime) -> Option<u64> {
    retry_after.parse().ok().or_else(|| {
        let date = httpdate::parse_http_date(retry_after).ok()?;
        // A date that has passed asks for no wait.
        let wait = date.duration_since(now).unwrap_or_default();
        Some(u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX))
    })
}

/// An error and what is behind it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reported = error.to_string();
        if !text.ends_with(&reported) {
            text += ": ";
            text += &reported;
        }
        cause = error.source();
    }
    text
}

/// The non-secret part of `url`: its scheme and host.
pub(crate) fn public(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

/// Parses and checks the address.
///
/// # Errors
/// It does not have the form `http[s]://HOST[:PORT][/PATH]`.
fn parse_url(url: &str) -> Result<Uri, NodeError> {
    let wrong = |problem| NodeError::Address { url: public(url), problem };
    let uri: Uri = url.parse().map_err(|_| wrong("it must be http://HOST:PORT"))?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return Err(wrong("only http:// and https:// are spoken")),
        None => return Err(wrong("it must begin with http:// or https://")),
    }
    let Some(authority) = uri.authority() else { return Err(wrong("it has no host")) };
    if authority.as_str().contains('@') {
        return Err(wrong("user names and passwords are not sent"));
    }
    if authority.host().is_empty() {
        return Err(wrong("it has no host"));
    }
    let rest = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    if !rest.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
        return Err(wrong("its port is no number from 1 to 65535"));
    }
    if url.contains('#') {
        return Err(wrong("it has a part behind #, which is not sent"));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn a_wait_is_a_number_of_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(37)),
            ("Sun, 06 Nov 1994 08:48:59 GMT", Some(0)),
            ("-7", None),
            ("soon", None),
        ] {
            assert_eq!(seconds_of(text, now), seconds, "{text}");
        }
    }

    #[test]
    fn secrets_are_not_reported() {
        for (url, reported) in [
            ("https://host:1/v2/KEY?key=KEY#KEY", "https://host:1"),
            ("http://user:KEY@host", "http://host"),
            ("host/KEY", "host"),
            ("ftp://host/KEY", "ftp://host"),
        ] {
            assert_eq!(public(url), reported);
        }
    }

    #[test]
    fn addresses_are_understood_or_refused() {
        for url in
            ["http://127.0.0.1:8114", "http://[::1]:8114/", "https://node.example/rpc?key=1", "http://host"]
        {
            assert!(parse_url(url).unwrap().host().is_some(), "{url}");
        }
        let wrong = "127.0.0.1:8114 localhost /path ftp://host http:// http://user:word@host http://host: \
                     http://host:0 http://host:99999 http://host/#part";
        for url in wrong.split(' ').chain([""]) {
            assert!(matches!(parse_url(url), Err(NodeError::Address { .. })), "{url}");
        }
    }
}
