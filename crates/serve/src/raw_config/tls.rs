//! The section `tls` as it is written.

use serde::{Deserialize, Serialize};

/// Section `[tls]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawTls {
    /// PEM file with the certificate of the gRPC listener, and with those between it and its authority; empty
    /// for no TLS.
    pub certificate: String,
    /// PEM file with its private key.
    pub key: String,
    /// PEM file with the authorities of clients. With it every client needs a certificate of one of them.
    pub client_ca: String,
    /// PEM file with certificates that these authorities have revoked; empty for none.
    pub client_crl: String,
    /// How long a handshake may take, milliseconds.
    pub handshake_ms_max: u64,
    /// Handshakes under way at once, half of them of one peer; further connections are closed.
    pub handshakes_max: u64,
}

impl Default for RawTls {
    fn default() -> Self {
        Self {
            certificate: String::new(),
            key: String::new(),
            client_ca: String::new(),
            client_crl: String::new(),
            handshake_ms_max: 5_000,
            handshakes_max: 256,
        }
    }
}
