//! Validity of certificates and revocation lists: as gauges, so that operators notice before clients do, and
//! as a warning if a newly loaded one is not valid now.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use antares_config::Tls;
use antares_tls::items;
use prometheus::IntGaugeVec;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::{parse_x509_certificate, parse_x509_crl};

use crate::metrics::Metrics;

/// The gauges, by use of the file.
#[derive(Clone)]
pub(crate) struct Expiry {
    begins: IntGaugeVec,
    ends: IntGaugeVec,
}

/// The period in which all of a file is valid, seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Validity {
    begins: i64,
    ends: i64,
}

impl Expiry {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let begins = metrics.gauges(
            "antares_certificate_begin_timestamp_seconds",
            "When the last of a file's certificates or revocation lists begins to be valid, in seconds since 1970.",
            &["file"],
        );
        let ends = metrics.gauges(
            "antares_certificate_expiry_timestamp_seconds",
            "When the first of a file's certificates ends, or its revocation list wants to be renewed, in seconds since 1970.",
            &["file"],
        );
        Self { begins, ends }
    }

    /// Records a listener's files; call it after loading them.
    pub(crate) fn record_server(&self, tls: &Tls) {
        self.record("server", Some(&tls.certificate), certificates_end);
        self.record("client_ca", tls.client_ca.as_deref(), certificates_end);
        self.record("client_crl", tls.client_crl.as_deref(), lists_end);
    }

    /// Records the files of connections to another server.
    pub(crate) fn record_client(&self, ca: Option<&Path>, certificate: Option<&Path>) {
        self.record("server_ca", ca, certificates_end);
        self.record("client", certificate, certificates_end);
    }

    fn record(&self, file: &str, path: Option<&Path>, look: impl Fn(&Path) -> Option<Validity>) {
        let Some(path) = path else { return };
        match look(path) {
            Some(validity) => {
                self.begins.with_label_values(&[file]).set(validity.begins);
                self.ends.with_label_values(&[file]).set(validity.ends);
                let path = path.display();
                let Validity { begins, ends } = validity;
                if now() > ends {
                    tracing::warn!(file, %path, ended = ends, "takes force and has expired");
                } else if now() < begins {
                    tracing::warn!(file, %path, begins, "takes force and is not valid yet");
                }
            }
            // It was valid a moment ago, so it may change again; no number is better than an old one.
            None => {
                drop(self.begins.remove_label_values(&[file]));
                drop(self.ends.remove_label_values(&[file]));
            }
        }
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// The period in which all of `parts` are valid.
fn together(parts: impl Iterator<Item = Validity>) -> Option<Validity> {
    parts.reduce(|one, other| Validity {
        begins: one.begins.max(other.begins),
        ends: one.ends.min(other.ends),
    })
}

/// Validity of the certificates in `path`.
fn certificates_end(path: &Path) -> Option<Validity> {
    let chain: Vec<CertificateDer<'static>> = items(path, "certificate").ok()?;
    together(chain.iter().filter_map(|der| {
        let certificate = parse_x509_certificate(der).ok()?.1;
        let validity = certificate.validity();
        Some(Validity { begins: validity.not_before.timestamp(), ends: validity.not_after.timestamp() })
    }))
}

/// Validity of the lists in `path`, which end at their `nextUpdate`.
fn lists_end(path: &Path) -> Option<Validity> {
    let lists: Vec<CertificateRevocationListDer<'static>> = items(path, "revocation list").ok()?;
    together(lists.iter().filter_map(|der| {
        let list = parse_x509_crl(der).ok()?.1;
        Some(Validity { begins: list.last_update().timestamp(), ends: list.next_update()?.timestamp() })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_and_the_last_begin_count() {
        let parts = [Validity { begins: 10, ends: 90 }, Validity { begins: 20, ends: 80 }];
        let all = together(parts.into_iter()).unwrap();
        assert_eq!(all, Validity { begins: 20, ends: 80 });
        assert_eq!(together(std::iter::empty()), None);
    }
}
