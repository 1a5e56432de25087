//! Bearer tokens (JWT) against the keys of their issuer. Which algorithm a key is for is said by the key,
//! never by the token.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{dangerous::insecure_decode_claims, decode, decode_header, errors::ErrorKind};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::Value;
use strum::{IntoStaticStr, VariantNames};

use crate::key_set::KeySet;

/// Longest token, bytes.
pub(crate) const TOKEN_BYTES_MAX: usize = 12 << 10;

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", prefix = "TOKEN_")]
pub(crate) enum TokenError {
    /// No key says that it is genuine: who sent it is told no more.
    #[error("the token is not valid")]
    Invalid,
    /// Nobody looks at one that is so long.
    #[error("a token may have {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    /// Genuine, and too old.
    #[error("the token has expired")]
    Expired,
    /// Genuine, and not valid yet.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// Genuine, for others.
    #[error("the token is for others")]
    Audience,
    /// Genuine, by another issuer.
    #[error("the token is of another issuer")]
    Issuer,
    /// Genuine, and without a claim that is needed, or with one of another form.
    #[error("the token must have exp, iss, aud and sub")]
    Claims,
}

/// What is taken from a genuine token.
#[derive(Debug, Deserialize)]
pub(crate) struct Claims {
    pub(crate) sub: String,
    /// Whole seconds of a number that may have a fraction (RFC 7519, section 2).
    #[serde(deserialize_with = "whole")]
    pub(crate) exp: u64,
    /// One string: the library takes a list too, which RFC 7519 does not have.
    #[serde(rename = "iss")]
    _issuer: String,
    #[serde(flatten)]
    others: Value,
}

impl Claims {
    /// The texts of the claim `path`, a name or a JSON pointer: itself, the items of a list, the scopes between
    /// spaces (RFC 8693, section 4.2). What is no text fits no rule.
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
    // What is below zero or above the largest number becomes that; the library has a word on both.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as above")]
    f64::deserialize(deserializer).map(|seconds| seconds as u64)
}

/// Who a token speaks for, if one of `keys` has signed it.
pub(crate) fn check(keys: &KeySet, token: &str) -> Result<Claims, TokenError> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    let header = decode_header(token).map_err(|_| TokenError::Invalid)?;
    // No extension is known here, so none may be critical (RFC 7515, section 4.1.11).
    if has_critical(token) {
        return Err(TokenError::Invalid);
    }
    let mut found = Err(TokenError::Invalid);
    for key in keys.named(header.kid).iter().filter(|key| key.algorithm == header.alg) {
        found = match decode::<Claims>(token, &key.key, &key.validation) {
            Ok(token) => Ok(token.claims),
            Err(error) => Err(match error.kind() {
                ErrorKind::ExpiredSignature => TokenError::Expired,
                ErrorKind::ImmatureSignature => TokenError::NotYetValid,
                ErrorKind::InvalidAudience => TokenError::Audience,
                ErrorKind::InvalidIssuer => TokenError::Issuer,
                // Claims are read after the signature was found good, and the header was read above.
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

/// The `kid` of a token that may be genuine.
pub(crate) fn key_id(token: &str) -> Option<Option<String>> {
    let header = (token.len() <= TOKEN_BYTES_MAX).then(|| decode_header(token).ok()).flatten();
    header.map(|header| header.kid)
}

impl TokenError {
    /// Whom the token names that is refused for this, if a key has signed it.
    pub(crate) fn subject(self, token: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Subject {
            sub: String,
        }
        let is_signed = !matches!(self, Self::Invalid | Self::TooLong);
        let claims = is_signed.then(|| insecure_decode_claims::<Subject>(token).ok()).flatten();
        claims.map(|claims| claims.sub)
    }
}

/// Whether the header has the member `crit`, whatever it is (the library takes `null` for none), or one that
/// changes what is signed and which tokens must not have (RFC 7797, section 7).
fn has_critical(token: &str) -> bool {
    let header = token.split('.').next().unwrap_or_default();
    let header = URL_SAFE_NO_PAD.decode(header).ok();
    let members =
        header.and_then(|header| serde_json::from_slice::<HashMap<String, IgnoredAny>>(&header).ok());
    members.is_none_or(|members| ["crit", "b64"].iter().any(|name| members.contains_key(*name)))
}
