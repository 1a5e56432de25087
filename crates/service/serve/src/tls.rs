//! TLS of a listener, from its files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use antares_config::Tls;
use antares_tls::pair;
pub(crate) use antares_tls::{ALPN, TlsError, authorities, items, provider, read};
use rustls::{
    ServerConfig,
    pki_types::CertificateRevocationListDer,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};

/// All files, for watching.
pub(crate) fn files(tls: &Tls) -> Vec<PathBuf> {
    let always = [tls.certificate.clone(), tls.key.clone()];
    always.into_iter().chain(tls.client_ca.clone()).chain(tls.client_crl.clone()).collect()
}

/// The current contents of the files.
pub(crate) fn load(tls: &Tls) -> Result<ServerConfig, TlsError> {
    let (chain, key) = pair(&tls.certificate, &tls.key)?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match &tls.client_ca {
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let lists = tls.client_crl.as_deref().map_or(Ok(Vec::new()), revocations)?;
            // A certificate that no list covers counts as valid.
            let verifier = verifier.with_crls(lists).allow_unknown_revocation_status();
            builder.with_client_cert_verifier(verifier.build()?)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|source| TlsError::Pair {
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        source,
    })?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A resumed session would not show its certificate again, which may have been revoked.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    items(path, "revocation list")
}
