//! Arguments for a server that encrypts and authenticates.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use crate::failure::Failure;

/// Whom to believe to be the server, and what to show it.
#[derive(Clone, Debug, Default, Args)]
pub struct CredentialArgs {
    /// Certificate authorities, PEM [default: ANTARES_TLS_CA, else the system's]
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Client certificate, PEM [default: ANTARES_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key, PEM [default: ANTARES_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// File with a bearer token [default: ANTARES_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl CredentialArgs {
    /// Refuses options that need a server if there is none.
    pub fn without_server(&self, recheck: bool) -> Result<(), Failure> {
        let all = [
            ("--tls-ca", self.tls_ca.is_some()),
            ("--tls-cert", self.tls_cert.is_some()),
            ("--tls-key", self.tls_key.is_some()),
            ("--token-file", self.token_file.is_some()),
            ("--recheck", recheck),
        ];
        match all.into_iter().find(|&(_, is_given)| is_given) {
            Some((name, _)) => Err(Failure::Usage(anyhow!("{name} makes no sense without --server"))),
            None => Ok(()),
        }
    }
}
