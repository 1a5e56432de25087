//! The section `auth` as it is written.

use serde::{Deserialize, Serialize};

/// Section `[auth]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawAuth {
    /// JWKS file with the keys of whoever issues tokens; empty for no tokens.
    pub jwks: String,
    /// Issuer (`iss`) that tokens must name.
    pub issuer: String,
    /// Audience (`aud`) that tokens must be for.
    pub audience: String,
    /// How far the clocks of issuer and server may be apart, milliseconds.
    pub leeway_ms: u64,
    /// Who is which tenant with which roles; the first rule that fits counts.
    pub rules: Vec<RawRule>,
}

impl Default for RawAuth {
    fn default() -> Self {
        Self {
            jwks: String::new(),
            issuer: String::new(),
            audience: String::new(),
            leeway_ms: 60_000,
            rules: Vec::new(),
        }
    }
}

/// `[[auth.rules]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawRule {
    /// Fits certificates with such a name: a URI or DNS name, in which one `*` stands for anything.
    pub certificate: String,
    /// Fits tokens with such a subject (`sub`).
    pub token: String,
    /// The tenant; `*` for what the `*` above met.
    pub tenant: String,
    /// Some of `upload`, `compile`, `execute`, `profile`, `admin`.
    pub roles: Vec<String>,
    /// Whether `antares-tenant` may name another tenant.
    pub any_tenant: bool,
}
