//! Section `[tls]`, and the runner's TLS connection to its compiler.

use std::{path::PathBuf, time::Duration};

use antares_tls::ClientFiles;

use crate::{check::Checker, section::section, services::RawRunner};

section! {
/// Encryption of the gRPC listener.
"tls": RawTls {
    /// PEM file with the certificate chain of the gRPC listener; empty disables TLS.
    certificate: file;
    /// PEM file with its private key.
    key: file;
    /// PEM file with the certificate authorities of clients. If set, every client needs a certificate from
    /// one of them.
    client_ca: file;
    /// PEM file with the revocation lists of these authorities; empty for none.
    client_crl: file;
}
}

/// Maximum duration of a handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(5);

/// Maximum concurrent handshakes.
const HANDSHAKES_MAX: u64 = 256;

/// TLS settings of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities of clients; without it clients need no certificate.
    pub client_ca: Option<PathBuf>,
    /// Revocation list of these authorities.
    pub client_crl: Option<PathBuf>,
    /// Maximum duration of a handshake.
    pub handshake_time_max: Duration,
    /// Maximum concurrent handshakes; one peer may have half of them.
    pub handshakes_max: u64,
}

fn file(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

impl RawTls {
    /// `None` without encryption. Reading the files checks that they exist and are valid.
    pub(crate) fn check(&self, checker: &mut Checker) -> Option<Tls> {
        for (key, value, needs, needed) in [
            ("tls.certificate", &self.certificate, "tls.key", &self.key),
            ("tls.key", &self.key, "tls.certificate", &self.certificate),
            ("tls.client_ca", &self.client_ca, "tls.certificate", &self.certificate),
            ("tls.client_crl", &self.client_crl, "tls.client_ca", &self.client_ca),
        ] {
            if !value.is_empty() && needed.is_empty() {
                checker.record(key, format!("needs {needs}"));
            }
        }
        Some(Tls {
            certificate: file(&self.certificate)?,
            key: file(&self.key)?,
            client_ca: file(&self.client_ca),
            client_crl: file(&self.client_crl),
            handshake_time_max: HANDSHAKE_TIME_MAX,
            handshakes_max: HANDSHAKES_MAX,
        })
    }

    /// The runner's certificate and the trusted authorities for its compiler. Without a client certificate,
    /// the runner uses that of the listener.
    pub(crate) fn of_client(&self, runner: &RawRunner, checker: &mut Checker) -> ClientFiles {
        if runner.compiler_certificate.is_empty() != runner.compiler_key.is_empty() {
            let problem = "makes no sense without runner.compiler_certificate, nor that without it";
            checker.record("runner.compiler_key", problem);
        }
        let is_https = runner.compiler_url.starts_with("https://");
        for (key, value) in [
            ("runner.compiler_ca", &runner.compiler_ca),
            ("runner.compiler_certificate", &runner.compiler_certificate),
            ("runner.compiler_key", &runner.compiler_key),
            // Without TLS, a machine in between could read it.
            ("runner.compiler_token_file", &runner.compiler_token_file),
        ] {
            if !value.is_empty() && !is_https {
                checker.record(key, "makes no sense where runner.compiler_url is not https://");
            }
        }
        let (certificate, key) = match runner.compiler_certificate.is_empty() {
            true => (&self.certificate, &self.key),
            false => (&runner.compiler_certificate, &runner.compiler_key),
        };
        ClientFiles { ca: file(&runner.compiler_ca), certificate: file(certificate), key: file(key) }
    }
}
