//! When certificates and revocation lists end: as gauges, so that somebody hears of it before clients do.

use std::path::Path;

use prometheus::IntGaugeVec;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::{parse_x509_certificate, parse_x509_crl};

use crate::{
    metrics::Metrics,
    tls::{Tls, items},
};

/// The gauges, by the use of a file.
#[derive(Clone)]
pub(crate) struct Expiry(IntGaugeVec);

impl Expiry {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self(metrics.gauges(
            "antares_certificate_expiry_timestamp_seconds",
            "When the first of a file's certificates ends, or its revocation list wants to be renewed, in seconds since 1970.",
            &["file"],
        ))
    }

    /// Of what a listener uses; call it when the files have been taken into use.
    pub(crate) fn note_server(&self, tls: &Tls) {
        self.note("server", Some(&tls.certificate), certificates_end);
        self.note("client_ca", tls.client_ca.as_deref(), certificates_end);
        self.note("client_crl", tls.client_crl.as_deref(), lists_end);
    }

    /// Of what connections to another server use.
    pub(crate) fn note_client(&self, ca: Option<&Path>, certificate: Option<&Path>) {
        self.note("server_ca", ca, certificates_end);
        self.note("client", certificate, certificates_end);
    }

    fn note(&self, file: &str, path: Option<&Path>, end: impl Fn(&Path) -> Option<i64>) {
        let Some(path) = path else { return };
        match end(path) {
            Some(end) => self.0.with_label_values(&[file]).set(end),
            // It was of use a moment ago, so it may change again; no number is better than an old one.
            None => drop(self.0.remove_label_values(&[file])),
        }
    }
}

/// The earliest end of the certificates in `path`.
fn certificates_end(path: &Path) -> Option<i64> {
    let chain: Vec<CertificateDer<'static>> = items(path, "certificate").ok()?;
    let end =
        |der: &CertificateDer<'_>| Some(parse_x509_certificate(der).ok()?.1.validity().not_after.timestamp());
    chain.iter().filter_map(end).min()
}

/// The earliest moment at which a list in `path` says that there will be a newer one.
fn lists_end(path: &Path) -> Option<i64> {
    let lists: Vec<CertificateRevocationListDer<'static>> = items(path, "revocation list").ok()?;
    let end =
        |der: &CertificateRevocationListDer<'_>| Some(parse_x509_crl(der).ok()?.1.next_update()?.timestamp());
    lists.iter().filter_map(end).min()
}
