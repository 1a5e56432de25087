//! Pyroscope's `POST /ingest`: a profile as `pprof` has it, in a form of several parts over HTTP/1.1.

use std::fmt::Write;

use antares_profile_view::Format;
use bytes::Bytes;
use http::{Method, header};
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::{
    grpc::profile_service::Named,
    limits::PUSH_BYTES_MAX,
    profiles::push::window::{PushError, Window, since_epoch},
};

/// What the profiles are called there.
const APPLICATION: &str = "antares.guest";
/// Stands between the parts; no compressed profile has it by chance.
const BOUNDARY: &str = "antares-7d1c3f58a9e24b06-profile";
/// What the values of a sample are: without it only the kinds that Go has are taken.
const SAMPLE_TYPES: &str = r#"{"cycles":{"units":"count","aggregation":"sum","display-name":"cycles"},"instructions":{"units":"count","aggregation":"sum","display-name":"instructions"}}"#;

/// What is sent.
pub(crate) struct Request {
    path: String,
    tenant: Option<String>,
    body: Bytes,
}

/// A Pyroscope, or what takes the same.
pub(crate) struct Pyroscope {
    url: String,
    has_tenants: bool,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Pyroscope {
    pub(crate) fn new(url: &str, has_tenants: bool) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { url: url.trim_end_matches('/').to_owned(), has_tenants, client }
    }

    /// What to send of `named`; none if it is too big.
    pub(crate) fn request(&self, named: &Named, window: Window) -> Option<Request> {
        let profile = Format::Pprof.write(&named.view(), &named.labels, None).ok()?;
        (profile.len() <= PUSH_BYTES_MAX).then(|| Request {
            path: path(named, window),
            tenant: named.labels.get("tenant").filter(|_| self.has_tenants).cloned(),
            body: form(&profile).into(),
        })
    }

    pub(crate) async fn send(&self, request: Request) -> Result<(), PushError> {
        let mut sent = http::Request::builder()
            .method(Method::POST)
            .uri(format!("{}{}", self.url, request.path))
            .header(header::CONTENT_TYPE, format!("multipart/form-data; boundary={BOUNDARY}"));
        if let Some(tenant) = request.tenant {
            sent = sent.header("x-scope-orgid", tenant);
        }
        let sent = sent.body(Full::new(request.body)).map_err(|_| PushError::Unwritten)?;
        let answer = self.client.request(sent).await;
        let answer = answer.map_err(|error| PushError::Unreachable(error.to_string()))?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(PushError::Refused(status.to_string())),
        }
    }
}

/// Path and query. Labels are plain letters: names of tenants and digests.
fn path(named: &Named, window: Window) -> String {
    let labels = named.labels.iter().filter(|(key, _)| key.as_str() != "service");
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    let name = format!("{APPLICATION}{{{}}}", labels.join(","));
    let (start, end) = (since_epoch(window.start), since_epoch(window.end));
    format!("/ingest?name={}&from={}&until={}&format=pprof", escaped(&name), start.as_secs(), end.as_secs())
}

/// As in a query.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a text does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
        escaped
    })
}

/// The parts `profile` and `sample_type_config`.
fn form(profile: &[u8]) -> Vec<u8> {
    let mut form = Vec::with_capacity(profile.len() + 1024);
    for (name, file, content) in [
        ("profile", "profile.pprof", profile),
        ("sample_type_config", "sample_type_config.json", SAMPLE_TYPES.as_bytes()),
    ] {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
        );
        form.extend(head.into_bytes());
        form.extend(content);
        form.extend(b"\r\n");
    }
    form.extend(format!("--{BOUNDARY}--\r\n").into_bytes());
    form
}
