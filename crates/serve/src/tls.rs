//! How a listener speaks TLS, as its files say.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use antares_tls::pair;
pub(crate) use antares_tls::{ALPN, TlsError, authorities, items, provider, read};
use rustls::{
    ServerConfig,
    pki_types::CertificateRevocationListDer,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};

/// How a listener speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate and those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of clients; without it no client is asked for a certificate.
    pub client_ca: Option<PathBuf>,
    /// What these authorities have revoked.
    pub client_crl: Option<PathBuf>,
    /// Time that a handshake may take.
    pub handshake_time_max: Duration,
    /// Handshakes under way at once; half of them of one peer.
    pub handshakes_max: u64,
}

impl Tls {
    /// All files, for whoever watches them.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let always = [self.certificate.clone(), self.key.clone()];
        always.into_iter().chain(self.client_ca.clone()).chain(self.client_crl.clone()).collect()
    }

    /// What the files say now.
    pub(crate) fn load(&self) -> Result<ServerConfig, TlsError> {
        let (chain, key) = pair(&self.certificate, &self.key)?;
        let builder =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let builder = match &self.client_ca {
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let lists = self.client_crl.as_deref().map_or(Ok(Vec::new()), revocations)?;
                // Of certificates that no list speaks about nothing is known but that they are fine.
                let verifier = verifier.with_crls(lists).allow_unknown_revocation_status();
                builder.with_client_cert_verifier(verifier.build()?)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|source| TlsError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            source,
        })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A session that is taken up again would not show its certificate again, which may be revoked by
        // then.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    items(path, "revocation list")
}
