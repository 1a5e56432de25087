//! Bearer tokens (JWT), verified with their issuer's keys. The key determines its algorithm, never the token.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{dangerous::insecure_decode_claims, decode, decode_header, errors::ErrorKind};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::Value;
use strum::{IntoStaticStr, VariantNames};

use crate::key_set::{KEYS_TRIED_MAX, KeySet};

/// Longest token, bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 12 << 10;

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", prefix = "TOKEN_")]
pub(crate) enum TokenError {
    /// No key verifies it: its sender learns nothing more.
    #[error("the token is not valid")]
    Invalid,
    /// Too long to parse.
    #[error("a token may have {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    /// Genuine, but expired.
    #[error("the token has expired")]
    Expired,
    /// Genuine, but not valid yet.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// Genuine, but for another audience.
    #[error("the token is for others")]
    Audience,
    /// Genuine, but from another issuer.
    #[error("the token is of another issuer")]
    Issuer,
    /// Genuine, but a required claim is missing or malformed.
    #[error("the token must have exp, iss, aud and sub")]
    Claims,
}

/// Claims of a genuine token.
#[derive(Debug, Deserialize)]
pub(crate) struct Claims {
    pub(crate) sub: String,
    /// Whole seconds of a number that may have a fraction (RFC 7519, section 2).
    #[serde(deserialize_with = "whole")]
    pub(crate) exp: u64,
    /// One string: the library also accepts a list, which RFC 7519 does not allow.
    #[serde(rename = "iss")]
    _issuer: String,
    #[serde(flatten)]
    others: Value,
}

impl Claims {
    /// The texts of the claim `path`, a name or a JSON pointer: itself, the items of a list, the scopes
    /// between spaces (RFC 8693, section 4.2). Other types match no rule.
    pub(crate) fn texts<'a>(&'a self, path: &str) -> Vec<&'a str> {
        let found = match path {
            "sub" => return vec![&self.sub],
            _ if path.starts_with('/') => self.others.pointer(path),
            _ => self.others.get(path),
        };
        match found {
            Some(Value::String(text)) if ["scope", "scp"].contains(&path) => text.split(' ').collect(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    // Values out of range saturate; the library checks both ends.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as above")]
    f64::deserialize(deserializer).map(|seconds| seconds as u64)
}

/// The claims of a token, if one of `keys` has signed it.
pub(crate) fn check(keys: &KeySet, token: &str) -> Result<Claims, TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    let header = decode_header(token).map_err(|_| TokenError::Invalid)?;
    // No extension is supported, so none may be critical (RFC 7515, section 4.1.11).
    if has_critical(token) {
        return Err(TokenError::Invalid);
    }
    let mut found = Err(TokenError::Invalid);
    let named = keys.named(header.kid.as_deref()).filter(|key| key.algorithm == header.alg);
    for key in named.take(KEYS_TRIED_MAX) {
        found = match decode::<Claims>(token, &key.key, &key.validation) {
            Ok(token) => Ok(token.claims),
            Err(error) => Err(match error.kind() {
                ErrorKind::ExpiredSignature => TokenError::Expired,
                ErrorKind::ImmatureSignature => TokenError::NotYetValid,
                ErrorKind::InvalidAudience => TokenError::Audience,
                ErrorKind::InvalidIssuer => TokenError::Issuer,
                // The signature was verified before the claims, and the header was parsed above.
                ErrorKind::MissingRequiredClaim(_)
                | ErrorKind::InvalidClaimFormat(_)
                | ErrorKind::Json(_) => TokenError::Claims,
                _ => TokenError::Invalid,
            }),
        };
        if !matches!(found, Err(TokenError::Invalid)) {
            break;
        }
    }
    found
}

/// The `kid` of a possibly genuine token.
pub(crate) fn key_id(token: &str) -> Option<Option<String>> {
    (token.len() <= TOKEN_BYTES_MAX).then(|| decode_header(token).ok()).flatten().map(|header| header.kid)
}

impl TokenError {
    /// The subject of a token refused with this error, if a key has signed it.
    pub(crate) fn subject(self, token: &str) -> Option<String> {
        let is_signed = !matches!(self, Self::Invalid | Self::TooLong);
        let claims = is_signed.then(|| insecure_decode_claims::<Value>(token).ok()).flatten();
        claims?["sub"].as_str().map(str::to_owned)
    }
}

/// Whether the header has the member `crit` with any value (the library ignores `null`), or one that changes
/// the signed text and is forbidden in tokens (RFC 7797, section 7).
fn has_critical(token: &str) -> bool {
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap_or_default()).ok();
    let members =
        header.and_then(|header| serde_json::from_slice::<HashMap<String, IgnoredAny>>(&header).ok());
    members.is_none_or(|members| ["crit", "b64"].iter().any(|name| members.contains_key(*name)))
}
