//! Requests over HTTP: bounded, timed, and sent again where that may help.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::time::{sleep, timeout};

use crate::{connect::Connector, error::NodeError, options::NodeOptions, url};

/// A node that can be asked.
#[derive(Clone)]
pub(crate) struct Transport {
    uri: Uri,
    /// As people are told of it: without what stands behind the path, which may be a secret.
    name: String,
    client: Client<Connector, Full<Bytes>>,
    options: NodeOptions,
}

impl Transport {
    pub(crate) fn new(text: &str, options: NodeOptions) -> Result<Self, NodeError> {
        let uri = url::parse(text)?;
        let connector = Connector::new(&uri, options.connect_time)?;
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let name = text.split('?').next().unwrap_or_default().to_owned();
        Ok(Self { uri, name, client, options })
    }

    /// The node, for people.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The answer to `body`, a request about `method`.
    pub(crate) async fn post(&self, method: &'static str, body: Bytes) -> Result<Bytes, NodeError> {
        let mut wait = self.options.backoff;
        let mut attempt = 1;
        loop {
            let seconds = self.options.call_time.as_secs();
            let answer = timeout(self.options.call_time, self.post_once(method, body.clone())).await;
            let late = || NodeError::TooSlow { url: self.name.clone(), seconds };
            match answer.unwrap_or_else(|_| Err(late())) {
                Err(error) if error.is_passing() && attempt < self.options.attempts => {
                    sleep(retry_after(&error).unwrap_or(wait).min(self.options.backoff_max)).await;
                    wait = (wait * 2).min(self.options.backoff_max);
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn post_once(&self, method: &'static str, body: Bytes) -> Result<Bytes, NodeError> {
        let broken = |detail: String| NodeError::Unreachable { url: self.name.clone(), detail };
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("antares/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))
            .map_err(|error| broken(error.to_string()))?;
        let answer = self.client.request(request).await.map_err(|error| broken(chain(&error)))?;
        if !answer.status().is_success() {
            let wait = answer.headers().get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok());
            let (status, wait_s) = (answer.status().as_u16(), wait.and_then(|wait| wait.parse().ok()));
            return Err(NodeError::Status { url: self.name.clone(), status, wait_s });
        }
        let bytes_max = self.options.answer_bytes_max;
        let body = Limited::new(answer.into_body(), bytes_max).collect().await.map_err(|error| {
            match error.downcast_ref::<LengthLimitError>() {
                Some(_) => NodeError::TooLong { url: self.name.clone(), method, bytes_max },
                None => broken(format!("the answer broke off: {error}")),
            }
        })?;
        Ok(body.to_bytes())
    }
}

/// How long the node asks to wait.
fn retry_after(error: &NodeError) -> Option<Duration> {
    match error {
        NodeError::Status { wait_s, .. } => wait_s.map(Duration::from_secs),
        _ => None,
    }
}

/// An error and what is behind it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.ends_with(&told) {
            text += ": ";
            text += &told;
        }
        cause = error.source();
    }
    text
}
