//! Tokens and key sets: the published examples of RFC 7515 to 7520, 7797 and 8037, issuers' real sets, and a
//! table of attacks.

use std::time::Duration;

use antares_config::{Jwt, KeySource};
use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    jwt::{TOKEN_BYTES_MAX, TokenError, check},
    key_set::{JwksError, KeySet},
};

#[derive(Deserialize)]
struct Vectors {
    sets: Vec<Set>,
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
struct Set {
    section: String,
    keys: Value,
    taken: usize,
    skipped: Vec<String>,
}

#[derive(Deserialize)]
struct Token {
    section: String,
    what: String,
    keys: Value,
    token: String,
    genuine: bool,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../vectors/jose.json")).unwrap()
}

/// An issuer's tokens, with keys from `keys`.
pub(crate) fn jwt(keys: KeySource) -> Jwt {
    Jwt { keys, issuer: "i".to_owned(), audiences: vec!["a".to_owned()], leeway: Duration::from_secs(1) }
}

fn parsed(text: &str) -> Result<KeySet, JwksError> {
    KeySet::parse(&jwt(KeySource::File("jwks.json".into())), text.as_bytes())
}

fn set(keys: &Value) -> KeySet {
    parsed(&json!({ "keys": keys }).to_string()).unwrap()
}

#[test]
fn published_tokens_count_where_their_kind_is_taken() {
    let vectors = vectors();
    for token in &vectors.tokens {
        let found = check(&set(&token.keys), &token.token).map(|_| ());
        // An error about claims implies a valid signature; none of these has the required claims.
        let wanted = if token.genuine { TokenError::Claims } else { TokenError::Invalid };
        assert_eq!(found, Err(wanted), "{}: {}", token.section, token.what);
        let broken = format!("{}A", token.token);
        let found = check(&set(&token.keys), &broken).map(|_| ());
        assert_eq!(found, Err(TokenError::Invalid), "{}", token.section);
    }
    assert!(vectors.tokens.len() >= 25);
}

#[test]
fn published_sets_give_what_signs() {
    for one in vectors().sets {
        let set = set(&one.keys);
        assert_eq!(set.len(), one.taken, "{}", one.section);
        assert_eq!(set.skipped.len(), one.skipped.len(), "{}: {:?}", one.section, set.skipped);
        for (why, said) in one.skipped.iter().zip(&set.skipped) {
            assert!(said.contains(why.as_str()), "{said}");
        }
    }
}

/// `object` with the members of `more`.
pub(super) fn with(mut object: Value, more: &Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// Our own key: its signing half, and its public half as a JWK with `more`.
struct Key {
    der: Vec<u8>,
    x: String,
    y: String,
}

impl Key {
    fn new() -> Self {
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let der = EcdsaKeyPair::generate_pkcs8(kind, &SystemRandom::new()).unwrap().as_ref().to_vec();
        let point = EcdsaKeyPair::from_pkcs8(kind, &der).unwrap().public_key().as_ref().to_vec();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        Self { der, x, y }
    }

    fn jwk(&self, more: &Value) -> Value {
        with(json!({ "kty": "EC", "crv": "P-256", "x": self.x, "y": self.y }), more)
    }

    fn sign(&self, header: &str, claims: &str) -> String {
        signed(header, claims, &EncodingKey::from_ec_der(&self.der), Algorithm::ES256)
    }
}

fn signed(header: &str, claims: &str, key: &EncodingKey, algorithm: Algorithm) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

const GOOD: &str = r#"{"iss":"i","aud":"a","sub":"s","exp":9999999999}"#;

const HEADER: &str = r#"{"alg":"ES256","kid":"k"}"#;

#[test]
fn sets_as_issuers_publish_them_give_every_key_that_signs() {
    let (ours, other) = (Key::new(), Key::new());
    let rsa =
        vectors().tokens.into_iter().find(|token| token.section == "RFC 7520 4.1").unwrap().keys[0].clone();
    let rsa = |more: Value| with(rsa.clone(), &more);
    let taken = ours.jwk(&json!({ "kid": "k", "use": "sig", "alg": "ES256", "key_ops": ["verify"] }));
    let okp = |curve| json!({ "kty": "OKP", "crv": curve, "kid": "o", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
    let beside = [
        rsa(json!({ "kid": "enc", "use": "enc", "alg": "RSA-OAEP" })),
        rsa(json!({ "kid": "enc", "alg": "RSA-OAEP-256" })),
        rsa(json!({ "kid": "short", "n": "AQAB" })),
        rsa(json!({ "kid": "broken", "n": "=" })),
        rsa(json!({ "kid": "mixed", "alg": "ES256" })),
        rsa(json!({ "kid": "secret", "alg": "HS256" })),
        rsa(json!({ "kid": 5 })),
        other.jwk(&json!({ "kid": "k", "use": "enc" })),
        other.jwk(&json!({ "kid": "k", "key_ops": ["deriveKey"] })),
        other.jwk(&json!({ "kid": "k", "key_ops": [] })),
        other.jwk(&json!({ "kid": "k", "use": "tls" })),
        other.jwk(&json!({ "kid": "k", "alg": "ECDH-ES" })),
        other.jwk(&json!({ "kid": "k", "alg": "ES384" })),
        other.jwk(&json!({ "kid": "k", "x": "AAAA" })),
        other.jwk(&json!({ "kid": "k", "crv": "P-521" })),
        other.jwk(&json!({ "kid": "k", "crv": "secp256k1" })),
        json!({ "kty": "EC", "crv": "P-256", "kid": "half", "x": ours.x }),
        okp("X25519"),
        okp("Ed448"),
        json!({ "kty": "AKP", "alg": "ML-DSA-44", "kid": "q", "pub": "AAAA", "use": "sig" }),
        json!({ "kty": "RSA", "kid": "x", "use": "sig", "x5c": ["MIID"] }),
        json!({ "kty": "oct", "kid": "k", "k": "AAAA", "alg": "HS256" }),
        json!({ "kid": "nothing" }),
        json!("key"),
        json!(null),
        json!([]),
    ];
    let good = ours.sign(HEADER, GOOD);
    for one in &beside {
        // Before and after it.
        for keys in [json!([one, taken]), json!([taken, one])] {
            let set = set(&keys);
            assert_eq!((set.len(), set.skipped.len()), (1, 1), "{one}: {:?}", set.skipped);
            assert!(check(&set, &good).is_ok(), "{one}");
            assert!(check(&set, &other.sign(HEADER, GOOD)).is_err(), "{one}");
        }
    }
    // With two keys of one ID, each works; a token without an ID may be of any key.
    let set = set(&json!([taken, other.jwk(&json!({ "kid": "k" })), rsa(json!({ "kid": "k" })), taken]));
    assert!(check(&set, &good).is_ok() && check(&set, &other.sign(HEADER, GOOD)).is_ok());
    let nameless = other.sign(r#"{"alg":"ES256"}"#, GOOD);
    assert!(check(&set, &nameless).is_ok());
    let set = self::set(&json!([taken, other.jwk(&json!({}))]));
    assert!(check(&set, &nameless).is_ok() && check(&set, &good).is_ok());
    assert!(check(&set, &other.sign(HEADER, GOOD)).is_err());
}

#[test]
fn what_is_no_set_differs_from_an_empty_one() {
    for text in ["", "{", "{}", "[]", r#"{"keys":{}}"#, r#"{"keys":null}"#, r#"{"keys":[}"#, "null"] {
        assert!(parsed(text).is_err(), "{text}");
    }
    assert_eq!(parsed(r#"{"keys":[], "more": 1}"#).unwrap().len(), 0);
}

/// Headers that only a forger would write, all properly signed.
const HEADERS: [&str; 29] = [
    r#"{"alg":"none","kid":"k"}"#,
    r#"{"alg":"None","kid":"k"}"#,
    r#"{"alg":"HS256","kid":"k"}"#,
    r#"{"alg":"ES384","kid":"k"}"#,
    r#"{"alg":"RS256","kid":"k"}"#,
    r#"{"alg":"PS256","kid":"k"}"#,
    r#"{"alg":"EdDSA","kid":"k"}"#,
    r#"{"alg":"es256","kid":"k"}"#,
    r#"{"alg":["ES256"],"kid":"k"}"#,
    r#"{"alg":null,"kid":"k"}"#,
    r#"{"kid":"k"}"#,
    r#"{"alg":"ES256","kid":""}"#,
    r#"{"alg":"ES256","kid":"K"}"#,
    r#"{"alg":"ES256","kid":" k"}"#,
    r#"{"alg":"ES256","kid":"k\u0000"}"#,
    r#"{"alg":"ES256","kid":"../../../../dev/null"}"#,
    r#"{"alg":"ES256","kid":"k' OR '1'='1"}"#,
    r#"{"alg":"ES256","kid":["k"]}"#,
    r#"{"alg":"ES256","kid":"k","kid":"k"}"#,
    r#"{"alg":"none","kid":"k","alg":"ES256"}"#,
    r#"{"alg":"ES256","kid":"k","crit":["exp"],"exp":1}"#,
    r#"{"alg":"ES256","kid":"k","crit":[]}"#,
    r#"{"alg":"ES256","kid":"k","crit":null}"#,
    r#"{"alg":"ES256","kid":"k","crit":"alg"}"#,
    r#"{"alg":"ES256","kid":"k","crit":["alg"]}"#,
    r#"{"alg":"ES256","kid":"k","crit":["b64"],"b64":false}"#,
    r#"{"alg":"ES256","kid":"k","b64":false}"#,
    r#"["alg","ES256"]"#,
    "",
];

/// Signed but invalid claims.
const CLAIMS: [(&str, TokenError); 38] = {
    use TokenError::{Audience, Claims, Expired, Issuer, NotYetValid};
    [
        (r#"{"iss":["i"],"aud":"a","sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":["i","j"],"aud":"a","sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":{"i":1},"aud":"a","sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":null,"aud":"a","sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":"I","aud":"a","sub":"s","exp":9999999999}"#, Issuer),
        (r#"{"iss":"i/","aud":"a","sub":"s","exp":9999999999}"#, Issuer),
        (r#"{"iss":"","aud":"a","sub":"s","exp":9999999999}"#, Issuer),
        (r#"{"iss":"j","iss":"i","aud":"a","sub":"s","exp":9999999999}"#, Claims),
        (r#"{"aud":"a","sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":"b","sub":"s","exp":9999999999}"#, Audience),
        (r#"{"iss":"i","aud":"A","sub":"s","exp":9999999999}"#, Audience),
        (r#"{"iss":"i","aud":"ab","sub":"s","exp":9999999999}"#, Audience),
        (r#"{"iss":"i","aud":[],"sub":"s","exp":9999999999}"#, Audience),
        (r#"{"iss":"i","aud":["b","c"],"sub":"s","exp":9999999999}"#, Audience),
        (r#"{"iss":"i","aud":["a",1],"sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":{"a":"a"},"sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":null,"sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":"b","aud":"a","sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":"i","sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":"a","exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":1,"exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":["s"],"exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":null,"exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":"t","sub":"s","exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":"s"}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":"s","exp":1.5}"#, Expired),
        (r#"{"iss":"i","aud":"a","sub":"s","exp":0}"#, Expired),
        (r#"{"iss":"i","aud":"a","sub":"s","exp":-1}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":"s","exp":"9999999999"}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":"s","exp":null}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":"s","exp":1e300}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":"s","exp":1,"exp":9999999999}"#, Claims),
        (r#"{"iss":"i","aud":"a","sub":"s","exp":9999999999,"nbf":9999999998.5}"#, NotYetValid),
        (r#"{"iss":"i","aud":"a","sub":"s","exp":9999999999,"nbf":"1"}"#, Claims),
        (r#""s""#, Claims),
        ("[]", Claims),
        ("null", Claims),
        ("It's a dangerous business", Claims),
    ]
};

/// What RFC 7515 and 7519 allow, and header members to ignore.
const TAKEN: [(&str, &str); 10] = [
    (HEADER, GOOD),
    (r#"{"alg":"ES256","kid":"k","typ":"at+jwt"}"#, GOOD),
    (r#"{"alg":"ES256","kid":"k","jku":"https://evil.test/","x5u":"https://evil.test/"}"#, GOOD),
    (r#"{"alg":"ES256","kid":"k","x5c":["AAAA"],"x5t":"AAAA","url":"u","own":{"deep":[1,{}]}}"#, GOOD),
    (HEADER, r#"{"iss":"i","aud":["b","a"],"sub":"s","exp":9999999999}"#),
    (HEADER, r#"{"iss":"i","aud":"a","sub":"s","exp":9999999999.75}"#),
    (HEADER, r#"{"iss":"i","aud":"a","sub":"s","exp":1e11}"#),
    (HEADER, r#"{"iss":"i","aud":"a","sub":"s","exp":18446744073709549568}"#),
    (HEADER, r#"{"iss":"i","aud":"a","sub":"s","exp":9999999999,"nbf":1.5,"iat":9999999999.9}"#),
    (HEADER, r#"{"iss":"i","aud":"a","sub":"s","exp":9999999999,"groups":[["b"],{"c":{}}]}"#),
];

#[test]
fn tokens_count_as_their_makers_meant_and_forgeries_never() {
    let (ours, other) = (Key::new(), Key::new());
    let public = ours.jwk(&json!({ "kid": "k" }));
    let set = set(&json!([public, other.jwk(&json!({ "kid": "x", "use": "enc" }))]));
    let found = |token: &str| check(&set, token).map(|_| ());
    for (header, claims) in TAKEN {
        assert_eq!(found(&ours.sign(header, claims)), Ok(()), "{header} {claims}");
        assert_eq!(found(&other.sign(header, claims)), Err(TokenError::Invalid), "{header}");
    }
    for header in HEADERS {
        assert_eq!(found(&ours.sign(header, GOOD)), Err(TokenError::Invalid), "{header}");
    }
    for (claims, wanted) in CLAIMS {
        assert_eq!(found(&ours.sign(HEADER, claims)), Err(wanted), "{claims}");
        // A forger learns nothing about its own claims.
        assert_eq!(found(&other.sign(HEADER, claims)), Err(TokenError::Invalid), "{claims}");
    }
    let embedded = format!(r#"{{"alg":"ES256","kid":"k","jwk":{}}}"#, other.jwk(&json!({})));
    let secrets = [public.to_string(), ours.x.clone(), format!("{}{}", ours.x, ours.y), String::new()];
    let secret = |secret: &String| {
        let header = r#"{"alg":"HS256","kid":"k"}"#;
        signed(header, GOOD, &EncodingKey::from_secret(secret.as_bytes()), Algorithm::HS256)
    };
    let good = ours.sign(HEADER, GOOD);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let last = message.len() + 1 + signature.len();
    let deep = format!(r#"{{"alg":"ES256","kid":"k","x":{}1{}}}"#, "[".repeat(4_000), "]".repeat(4_000));
    let mut forged = vec![
        other.sign(&embedded, GOOD),
        other.sign(r#"{"alg":"ES256","kid":"x"}"#, GOOD),
        ours.sign(&deep, GOOD),
        format!("{message}."),
        message.to_owned(),
        format!("{good}."),
        format!("{good}=="),
        format!("{good} "),
        format!("{good}\n"),
        format!(" {good}"),
        format!(".{good}"),
        format!("{good}.x.y"),
        format!("{message}.{}", URL_SAFE_NO_PAD.encode([0; 64])),
        format!("{message}.{}", URL_SAFE_NO_PAD.encode([0x30, 6, 2, 1, 1, 2, 1, 1])),
        good[..last - 2].to_owned(),
        good.replace('.', "%2e"),
        String::new(),
        "..".to_owned(),
        "a.b.c".to_owned(),
        "\u{202e}..".to_owned(),
    ];
    forged.extend(secrets.iter().map(secret));
    for token in &forged {
        assert_eq!(found(token), Err(TokenError::Invalid), "{token}");
    }
    let long = format!(
        r#"{{"iss":"i","aud":"a","sub":"s","exp":9999999999,"x":"{}"}}"#,
        "x".repeat(TOKEN_BYTES_MAX)
    );
    assert_eq!(found(&ours.sign(HEADER, &long)), Err(TokenError::TooLong));
}
