//! The section `web` as it is written.

use serde::{Deserialize, Serialize};

/// Section `[web]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawWeb {
    /// Address and port for gRPC-web and JSON over HTTP/1.1 and HTTP/2; port 0 takes a free one; empty for
    /// none. `[tls]`, `[auth]` and the limits of `[listen]` hold for it.
    pub address: String,
    /// Whose pages may call, such as `https://app.example.com`; exact, and none by default.
    pub origins: Vec<String>,
}
