//! Bearer tokens (JWT) against keys from a JWKS file. Which algorithm a key is for is said by the key, never by the token.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet},
};
use serde::Deserialize;

use crate::tls::{TlsError, read};

/// Whose tokens are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// File with the keys of the issuer (JWKS).
    pub jwks: PathBuf,
    /// `iss` that a token must have.
    pub issuer: String,
    /// `aud` that a token must have among its.
    pub audience: String,
    /// How far clocks may be apart.
    pub leeway: Duration,
}

/// Why a JWKS file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] TlsError),
    /// It is no JWKS.
    #[error("{path} is no JWKS: {problem}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// No key says that it is genuine: who sent it is told no more.
    Invalid,
    /// Genuine, and too old.
    Expired,
    /// Genuine, and not valid yet.
    Early,
    /// Genuine, for others.
    Audience,
    /// Genuine, by another issuer.
    Issuer,
    /// Genuine, and without a claim that is needed.
    Claims,
}

/// What is taken from a genuine token.
#[derive(Debug, Deserialize)]
pub(crate) struct Claims {
    pub(crate) sub: String,
    pub(crate) exp: u64,
}

/// The keys of an issuer, by their ids.
#[derive(Debug)]
pub(crate) struct Keys(HashMap<String, (DecodingKey, Validation)>);

impl Keys {
    /// What the file says now.
    pub(crate) fn load(jwt: &Jwt) -> Result<Self, JwksError> {
        let malformed = |problem: String| JwksError::Malformed { path: jwt.jwks.clone(), problem };
        let set: JwkSet =
            serde_json::from_slice(&read(&jwt.jwks)?).map_err(|error| malformed(error.to_string()))?;
        if set.keys.is_empty() {
            return Err(malformed("it has no keys".to_owned()));
        }
        let mut keys = HashMap::new();
        for (index, jwk) in set.keys.iter().enumerate() {
            let wrong = |problem: &str| malformed(format!("key {index} {problem}"));
            let id = jwk.common.key_id.clone().ok_or_else(|| wrong("has no kid"))?;
            let algorithm =
                algorithm_of(jwk).ok_or_else(|| wrong("is not for a signature by a private key"))?;
            let key = DecodingKey::from_jwk(jwk).map_err(|error| wrong(&format!("is broken: {error}")))?;
            if keys.insert(id, (key, validation(jwt, algorithm))).is_some() {
                return Err(wrong("has the kid of another one"));
            }
        }
        Ok(Self(keys))
    }

    /// Who a token speaks for.
    pub(crate) fn check(&self, token: &str) -> Result<Claims, TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::Invalid)?;
        let (key, validation) = header.kid.and_then(|id| self.0.get(&id)).ok_or(TokenError::Invalid)?;
        match decode::<Claims>(token, key, validation) {
            Ok(token) => Ok(token.claims),
            Err(error) => Err(match error.kind() {
                ErrorKind::ExpiredSignature => TokenError::Expired,
                ErrorKind::ImmatureSignature => TokenError::Early,
                ErrorKind::InvalidAudience => TokenError::Audience,
                ErrorKind::InvalidIssuer => TokenError::Issuer,
                // Claims are read after the signature was found good, and the header was read above.
                ErrorKind::MissingRequiredClaim(_)
                | ErrorKind::InvalidClaimFormat(_)
                | ErrorKind::Json(_) => TokenError::Claims,
                _ => TokenError::Invalid,
            }),
        }
    }
}

fn validation(jwt: &Jwt, algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.leeway = jwt.leeway.as_secs();
    validation.validate_nbf = true;
    validation.set_audience(&[&jwt.audience]);
    validation.set_issuer(&[&jwt.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation
}

/// The one algorithm of a key: as it says, else as its kind has it. None for what holders of the file could sign with themselves.
fn algorithm_of(jwk: &Jwk) -> Option<Algorithm> {
    let of_kind = match &jwk.algorithm {
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => Algorithm::ES256,
            EllipticCurve::P384 => Algorithm::ES384,
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(_) => Algorithm::EdDSA,
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        // Shared secrets among them.
        _ => return None,
    };
    let Some(said) = jwk.common.key_algorithm else { return Some(of_kind) };
    let said = Algorithm::try_from(said).ok()?;
    let is_rsa = |algorithm| {
        use Algorithm::{PS256, PS384, PS512, RS256, RS384, RS512};
        matches!(algorithm, RS256 | RS384 | RS512 | PS256 | PS384 | PS512)
    };
    (said == of_kind || is_rsa(said) && is_rsa(of_kind)).then_some(said)
}
