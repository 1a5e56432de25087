//! TLS from PEM files: reading them, for listeners and clients, and connections to servers that speak it. TLS
//! 1.2 and 1.3; the library has nothing older.
#![forbid(unsafe_code)]

mod client;
mod pem;

pub use client::{ClientFiles, ConnectError, TlsClient, endpoint_at};
pub use pem::{ALPN, TlsError, authorities, items, pair, provider, read};
