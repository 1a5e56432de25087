//! An issuer's keys (JWKS): usable keys are taken, the others are skipped and named.

use std::collections::HashMap;

use antares_config::{Jwt, KeySource};
use antares_tls::TlsError;
use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, Validation,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use prometheus::IntGaugeVec;
use serde_json::{Map, Value};

use crate::metrics::{Metrics, set_gauge};

/// Keys that are tried for a token.
pub(crate) const KEYS_TRIED_MAX: usize = 8;

/// Skipped keys that a log line names.
const NAMED_MAX: usize = 16;

/// Characters of a key's ID in a log line.
const ID_CHARS_MAX: usize = 64;

/// Bytes of an RSA modulus.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// States of a key, for the metric.
const STATES: [&str; 2] = ["skipped", "taken"];

/// Why a key set is unusable.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] TlsError),
    /// The key set at this place, and its problem.
    #[error("{0} {1}")]
    Unusable(String, String),
}

/// A key with its single algorithm.
#[derive(Debug)]
pub(crate) struct VerifyingKey {
    pub(crate) key: DecodingKey,
    pub(crate) algorithm: Algorithm,
    pub(crate) validation: Validation,
}

/// An issuer's keys, by ID.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: HashMap<Option<String>, Vec<VerifyingKey>>,
    /// Names of skipped keys, with reasons.
    pub(crate) skipped: Vec<String>,
}

impl KeySet {
    /// Parses `text`. It may have no usable key: an issuer may withdraw all of them.
    pub(crate) fn parse(jwt: &Jwt, text: &[u8]) -> Result<Self, JwksError> {
        let malformed = |problem: String| JwksError::Unusable(place(jwt), format!("is no JWKS: {problem}"));
        let set: Map<String, Value> =
            serde_json::from_slice(text).map_err(|error| malformed(error.to_string()))?;
        let Some(Value::Array(keys)) = set.get("keys") else {
            return Err(malformed("it has no list of keys".to_owned()));
        };
        let mut set = Self::default();
        for (index, key) in keys.iter().enumerate() {
            if let Err(why) = set.take(jwt, key) {
                let id = key.get("kid").and_then(Value::as_str);
                let name = id.map(|id| format!("{:?}", id.chars().take(ID_CHARS_MAX).collect::<String>()));
                set.skipped.push(format!("{} {why}", name.unwrap_or_else(|| format!("key {index}"))));
            }
        }
        Ok(set)
    }

    fn take(&mut self, jwt: &Jwt, key: &Value) -> Result<(), &'static str> {
        let jwk: Jwk = serde_json::from_value(key.clone()).map_err(|_| "is no JWK")?;
        let key = verifying(jwt, &jwk)?;
        let same = self.keys.entry(jwk.common.key_id).or_default();
        if same.len() >= KEYS_TRIED_MAX {
            return Err("has the id of too many others");
        }
        same.push(key);
        Ok(())
    }

    /// The keys for a token with this `kid`; any key for one without (RFC 7515, section 4.1.4).
    pub(crate) fn named<'a>(&'a self, id: Option<&'a str>) -> impl Iterator<Item = &'a VerifyingKey> {
        self.keys
            .iter()
            .filter(move |(own, _)| id.is_none() || own.as_deref() == id)
            .flat_map(|(_, keys)| keys)
    }

    /// Usable keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }

    /// Description of the skipped keys, for people.
    fn words(&self) -> String {
        let named: Vec<_> = self.skipped.iter().take(NAMED_MAX).map(String::as_str).collect();
        let more = self.skipped.len() - named.len();
        named.join("; ") + &if more > 0 { format!("; and {more} more") } else { String::new() }
    }
}

/// Location of the keys, for people.
fn place(jwt: &Jwt) -> String {
    match &jwt.keys {
        KeySource::File(path) => path.display().to_string(),
        KeySource::Uri { url, .. } => url.clone(),
    }
}

/// The key and its use, or why it is unusable. Unsupported keys are skipped (RFC 7517, section 5).
fn verifying(jwt: &Jwt, jwk: &Jwk) -> Result<VerifyingKey, &'static str> {
    if jwk.common.public_key_use.as_ref().is_some_and(|use_| *use_ != PublicKeyUse::Signature) {
        return Err("is not for signatures by its use");
    }
    if jwk.common.key_operations.as_ref().is_some_and(|all| !all.contains(&KeyOperations::Verify)) {
        return Err("is not for signatures by its key_ops");
    }
    let algorithm = algorithm_of(jwk)?;
    let key = DecodingKey::from_jwk(jwk).map_err(|_| "is broken")?;
    let is_whole = match (key.kind(), algorithm) {
        (DecodingKeyKind::RsaModulusExponent { n, .. }, _) => RSA_BYTES.contains(&n.len()),
        (DecodingKeyKind::SecretOrDer(point), Algorithm::ES256) => point.len() == 1 + 2 * 32,
        (DecodingKeyKind::SecretOrDer(point), Algorithm::ES384) => point.len() == 1 + 2 * 48,
        (DecodingKeyKind::SecretOrDer(point), _) => point.len() == 32,
    };
    if !is_whole {
        return Err("has a length that its kind does not have");
    }
    Ok(VerifyingKey { key, algorithm, validation: validation(jwt, algorithm) })
}

/// The single algorithm of a key: as declared, otherwise by its type. None for algorithms with which readers
/// of the file could sign.
fn algorithm_of(jwk: &Jwk) -> Result<Algorithm, &'static str> {
    const CURVE: Result<Algorithm, &str> = Err("is on a curve that is not supported");
    let of_kind = match &jwk.algorithm {
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => Algorithm::ES256,
            EllipticCurve::P384 => Algorithm::ES384,
            _ => return CURVE,
        },
        AlgorithmParameters::OctetKeyPair(key) => match key.curve {
            EllipticCurve::Ed25519 => Algorithm::EdDSA,
            _ => return CURVE,
        },
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::OctetKey(_) => return Err("is a shared secret"),
        _ => return Err("is of a kind or curve that is not supported, or incomplete"),
    };
    let Some(said) = jwk.common.key_algorithm else { return Ok(of_kind) };
    let said = Algorithm::try_from(said).ok().filter(|said| said.family() == of_kind.family());
    let fits = |said: &Algorithm| *said == of_kind || of_kind == Algorithm::RS256;
    said.filter(fits).ok_or("is for an algorithm that is not supported or not of its kind")
}

fn validation(jwt: &Jwt, algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.leeway = jwt.leeway.as_secs();
    validation.validate_nbf = true;
    validation.set_audience(&jwt.audiences);
    validation.set_issuer(&[&jwt.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation
}

/// The gauges, all present from the start as zeros.
pub(crate) fn gauges(metrics: &Metrics) -> IntGaugeVec {
    let help = "Keys in the token issuer's file, by result.";
    let keys = metrics.gauges("antares_jwks_keys", help, &["state"]);
    STATES.iter().for_each(|state| drop(keys.with_label_values(&[state])));
    keys
}

/// Parses successive sets, and logs skipped keys once.
pub(crate) struct Reader {
    jwt: Jwt,
    keys: IntGaugeVec,
    said: Option<String>,
}

impl Reader {
    pub(crate) fn new(jwt: &Jwt, metrics: &Metrics) -> Self {
        Self { jwt: jwt.clone(), keys: gauges(metrics), said: None }
    }

    /// Parses a set with at least one usable key.
    pub(crate) fn first(&mut self, text: &[u8]) -> Result<KeySet, JwksError> {
        let set = self.read(text)?;
        if set.len() == 0 {
            let problem = format!("has no key that verifies tokens: {}", set.words());
            return Err(JwksError::Unusable(place(&self.jwt), problem));
        }
        Ok(set)
    }

    /// Parses `text` unconditionally: removed keys no longer count.
    pub(crate) fn read(&mut self, text: &[u8]) -> Result<KeySet, JwksError> {
        let set = KeySet::parse(&self.jwt, text)?;
        self.report(&set);
        Ok(set)
    }

    /// Exports and logs the current set.
    pub(crate) fn report(&mut self, set: &KeySet) {
        for (state, number) in STATES.iter().zip([set.skipped.len(), set.len()]) {
            set_gauge(&self.keys.with_label_values(&[state]), number as u64);
        }
        let (taken, words) = (set.len(), set.words());
        let said = format!("{taken} {words}");
        if self.said.as_ref() != Some(&said) {
            let place = place(&self.jwt);
            if taken == 0 {
                tracing::error!(place, skipped = words, "no key verifies tokens any more: none is taken");
            } else if !words.is_empty() {
                tracing::warn!(place, taken, skipped = words, "keys that verify no tokens are skipped");
            }
            self.said = Some(said);
        }
    }
}
