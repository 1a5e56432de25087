//! Sections `[audit]`, `[metrics]`, `[log]`, `[trace]` and `[profile_push]`: observability of the services.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use antares_tls::ClientFiles;

use crate::{check::Checker, section::section};

section! {
/// The log of who did what.
"audit": RawAudit {
    /// File that gets a line of JSON for each call that needs a role; `stderr` for standard error; empty for
    /// none.
    target: text;
    /// Refuse calls while their audit lines cannot be written.
    required: flag;
}
}

/// Value of `audit.target` for standard error.
const STDERR: &str = "stderr";

/// Target of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// A file, or `Some(None)` for standard error; `None` for no log.
    pub target: Option<Option<PathBuf>>,
    /// Whether calls are refused while the log cannot be written.
    pub is_required: bool,
}

impl RawAudit {
    pub(crate) fn check(&self, checker: &mut Checker) -> Audit {
        if self.required && self.target.is_empty() {
            checker.record("audit.required", "makes no sense without audit.target");
        }
        let target = match self.target.as_str() {
            "" => None,
            STDERR => Some(None),
            path => Some(Some(PathBuf::from(path))),
        };
        Audit { target, is_required: self.required }
    }
}

section! {
/// The HTTP listener of `/metrics`, `/healthz` and profiles.
"metrics": RawMetrics {
    /// Address and port for HTTP; port 0 takes a free one; empty disables it.
    address: text = "127.0.0.1:9464".to_owned();
    /// Host names under which `/` and `/debug/*` answer, in addition to `localhost` and IP addresses.
    hosts: list;
}
}

/// Maximum length of a host name in bytes.
const HOST_BYTES_MAX: usize = 253;

impl RawMetrics {
    /// Address of the listener, if enabled. `listen` is the address of the gRPC listener.
    pub(crate) fn check(&self, listen: &str, checker: &mut Checker) -> Option<SocketAddr> {
        if self.address.is_empty() {
            return None;
        }
        let address = checker.address("metrics.address", &self.address);
        if address.port() != 0 && self.address == listen {
            checker.record("metrics.address", "is the same as listen.address");
        }
        Some(address)
    }

    /// Host names by which pages may be requested, in lower case.
    pub(crate) fn page_hosts(&self, checker: &mut Checker) -> Arc<[String]> {
        let is_name = |name: &String| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            (1..=HOST_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
        };
        for name in self.hosts.iter().filter(|name| !is_name(name)) {
            let problem = format!("{name:?} is no name of a host; leave out ports and schemes");
            checker.record("metrics.hosts", problem);
        }
        self.hosts.iter().map(|name| name.to_ascii_lowercase()).collect()
    }
}

section! {
/// Logs.
"log": RawLog => Log {
    /// `text` or `json`.
    format as json: log_format = "text".to_owned();
    /// Log level: `error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,antares_pool=debug`.
    filter: log_filter = "info,opentelemetry=warn".to_owned();
}
}

section! {
/// Traces.
"trace": RawTrace => Trace(
    /// The authorities of an `https://` endpoint, the certificate shown to it and its key.
    tls: ClientFiles,
) {
    /// OTLP over gRPC, such as `http://localhost:4317` or `https://collector:4317`; empty for
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, or no traces. `OTEL_EXPORTER_OTLP_CERTIFICATE`, `_CLIENT_CERTIFICATE`
    /// and `_CLIENT_KEY` name the files for TLS; `_HEADERS` adds headers.
    endpoint: text;
    /// Share of calls to trace if the caller does not decide, 0.0 to 1.0.
    sample_ratio: share = 1.0;
}
}

/// The standard variable `OTEL_EXPORTER_OTLP_{name}`, or its form for traces alone, which wins.
fn variable(name: &str, read: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
    names.iter().find_map(|name| read(name).filter(|text| !text.is_empty()))
}

impl RawTrace {
    /// `None` if traces are off. `read` reads a variable of the environment.
    pub(crate) fn section(
        &self,
        read: impl Fn(&str) -> Option<String>,
        checker: &mut Checker,
    ) -> Option<Trace> {
        let file = |name| variable(name, &read).map(PathBuf::from);
        let [ca, certificate, key] = ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"].map(file);
        if certificate.is_some() != key.is_some() {
            let problem =
                "needs both OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY";
            checker.record("trace.endpoint", problem);
        }
        let mut trace = self.check(checker, ClientFiles { ca, certificate, key });
        if trace.endpoint.is_empty() {
            trace.endpoint = variable("ENDPOINT", &read)?;
        }
        checker.url_of("trace.endpoint", &trace.endpoint, &["http", "https"]);
        Some(trace)
    }
}

section! {
/// Export of profiles: one for each script and tenant, with the runs since the last export.
"profile_push": RawProfilePush {
    /// Export profiles to `trace.endpoint` as OTLP profiles (v1development).
    otlp: flag;
}
}

/// Interval between pushes.
const INTERVAL: Duration = Duration::from_secs(15);

/// Timeout of one profile.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Receiver of profiles, and timing.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilePush {
    /// An OTLP receiver over gRPC.
    pub receiver: Trace,
    /// Interval between pushes.
    pub interval: Duration,
    /// Timeout of one profile.
    pub timeout: Duration,
}

impl RawProfilePush {
    /// `None` if no receiver is configured.
    pub(crate) fn check(
        &self,
        trace: Option<&Trace>,
        sample_cycles: u64,
        checker: &mut Checker,
    ) -> Option<ProfilePush> {
        if self.otlp && trace.is_none() {
            checker.record("profile_push.otlp", "needs trace.endpoint");
        }
        if self.otlp && sample_cycles == 0 {
            checker.record("profile_push", "makes no sense where runner.sample_cycles is 0");
        }
        let push = |receiver: &Trace| ProfilePush {
            receiver: receiver.clone(),
            interval: INTERVAL,
            timeout: TIMEOUT,
        };
        trace.filter(|_| self.otlp).map(push)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_stands_for_what_the_file_leaves_empty() {
        let section = |raw: &RawTrace, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, text)| (*text).to_owned())
            };
            let mut checker = Checker::default();
            let trace = raw.section(variable, &mut checker);
            checker.finish(trace).map_err(|error| error.to_string())
        };
        let [general, own] = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a:1"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:1"),
        ];
        let ca = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem");
        let raw = RawTrace::default();
        assert_eq!(section(&raw, &[]), Ok(None));
        let trace = section(&raw, &[general, ca]).unwrap().unwrap();
        assert_eq!((trace.endpoint.as_str(), trace.tls.ca), ("https://a:1", Some("ca.pem".into())));
        assert_eq!(section(&raw, &[general, own]).unwrap().unwrap().endpoint, "http://b:1");
        let raw = RawTrace { endpoint: "http://c:1".to_owned(), ..raw };
        assert_eq!(section(&raw, &[general, own]).unwrap().unwrap().endpoint, "http://c:1");
        let half = section(&raw, &[("OTEL_EXPORTER_OTLP_CLIENT_KEY", "key.pem")]);
        assert!(half.is_err_and(|error| error.contains("CLIENT_CERTIFICATE")));
        let raw = RawTrace { endpoint: "collector:4317".to_owned(), ..raw };
        assert!(section(&raw, &[]).is_err_and(|error| error.contains("trace.endpoint")));
    }
}
