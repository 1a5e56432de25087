//! TLS from PEM files, for listeners and clients, and connections to TLS servers. Supports TLS 1.2 and 1.3
//! only.

mod client;
mod pem;

pub use client::{ClientFiles, ConnectError, TlsClient, bare, endpoint};
pub use pem::{ALPN, TlsError, authorities, items, pair, provider, read};
