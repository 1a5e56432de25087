//! Section `[trace]`.

use std::path::PathBuf;

use crate::{check::Checker, section::section};

section! {
/// Traces.
"trace": RawTrace => Trace {
    /// OTLP over gRPC, such as `http://localhost:4317` or `https://collector:4317`; empty for
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, or no traces.
    endpoint: text;
    /// PEM file with the authorities of an `https://` endpoint; empty for those of the system.
    ca: file;
    /// PEM file with the certificate shown to it.
    certificate: file;
    /// PEM file with the key of that certificate.
    key: file;
    /// Share of calls that are traced where the caller has not decided, 0.0 to 1.0.
    sample_ratio: share = 1.0;
}
}

/// Variables that stand for an empty key, the more specific first.
const VARIABLES: [[&str; 2]; 4] = [
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"],
    ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"],
    ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"],
    ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"],
];

impl RawTrace {
    /// `None` if traces are off. `variable` reads the environment.
    pub(crate) fn section(
        &self,
        variable: impl Fn(&str) -> Option<String>,
        checker: &mut Checker,
    ) -> Option<Trace> {
        let mut trace = self.check(checker);
        let said = |name: &&str| variable(name).filter(|text| !text.is_empty());
        let [endpoint, ca, certificate, key] = VARIABLES.map(|names| names.iter().find_map(said));
        if trace.endpoint.is_empty() {
            trace.endpoint = endpoint.unwrap_or_default();
        }
        for (file, named) in
            [(&mut trace.ca, ca), (&mut trace.certificate, certificate), (&mut trace.key, key)]
        {
            *file = file.take().or(named.map(PathBuf::from));
        }
        let files =
            [("trace.ca", &self.ca), ("trace.certificate", &self.certificate), ("trace.key", &self.key)];
        let is_https = trace.endpoint.starts_with("https://");
        for (name, _) in files.into_iter().filter(|(_, file)| !file.is_empty() && !is_https) {
            checker.record(name, "makes no sense where trace.endpoint is not https://");
        }
        if trace.certificate.is_some() != trace.key.is_some() {
            checker.record("trace.certificate", "needs trace.key, and the other way around");
        }
        if trace.endpoint.is_empty() {
            return None;
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
        assert_eq!((trace.endpoint.as_str(), trace.ca), ("https://a:1", Some("ca.pem".into())));
        assert_eq!(section(&raw, &[general, own]).unwrap().unwrap().endpoint, "http://b:1");
        let raw = RawTrace { endpoint: "http://c:1".to_owned(), ..raw };
        assert_eq!(section(&raw, &[general, own]).unwrap().unwrap().endpoint, "http://c:1");
        for (raw, key) in [
            (RawTrace { ca: "x".to_owned(), ..raw.clone() }, "trace.ca"),
            (
                RawTrace { key: "x".to_owned(), endpoint: "https://c:1".to_owned(), ..raw.clone() },
                "trace.certificate",
            ),
            (RawTrace { endpoint: "collector:4317".to_owned(), ..raw }, "trace.endpoint"),
        ] {
            assert!(section(&raw, &[]).is_err_and(|error| error.contains(key)), "{key}");
        }
    }
}
