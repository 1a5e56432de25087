//! Section `[trace]`.

use std::path::PathBuf;

use antares_tls::ClientFiles;

use crate::{check::Checker, section::section};

section! {
/// Traces.
"trace": RawTrace => Trace(
    /// The authorities of an `https://` endpoint, the certificate shown to it and its key.
    tls: ClientFiles,
) {
    /// OTLP over gRPC, such as `http://localhost:4317` or `https://collector:4317`; empty for
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, or no traces. `OTEL_EXPORTER_OTLP_CERTIFICATE`, `_CLIENT_CERTIFICATE` and
    /// `_CLIENT_KEY` name the files for TLS, `_HEADERS` what is sent along.
    endpoint: text;
    /// Share of calls that are traced where the caller has not decided, 0.0 to 1.0.
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
