//! Tokens that are no good: forged, unfit or for somebody else, each with the status and reason that its
//! sender gets.

use antares_tests::authorities::token_key;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tonic::Code;

use crate::{
    client::reason,
    identity::{Issuer, bearer, call, claims, now, plain, public, sign, without},
    server::Server,
};

/// The parts of a token, changed.
fn parts(token: &str, change: impl FnOnce(&mut Vec<String>)) -> String {
    let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
    change(&mut parts);
    parts.join(".")
}

/// A token whose header says what it likes, signed by `key` of HMAC, or by nobody.
fn forged(header: &Value, claims: &Value, key: Option<&[u8]>) -> String {
    let body = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", body(header), body(claims));
    let signature = key.map_or_else(String::new, |key| {
        jsonwebtoken::crypto::sign(message.as_bytes(), &EncodingKey::from_secret(key), Algorithm::HS256)
            .unwrap()
    });
    format!("{message}.{signature}")
}

type Refusal = (&'static str, Vec<String>, Code, &'static str);

/// Credentials that nobody has signed who may: their senders learn no more than that.
fn forgeries(issuer: &Issuer) -> Vec<Refusal> {
    let user = || claims("user/x", |_| {});
    let good = issuer.sign(&user());
    let other = token_key();
    let header = |algorithm: &str| json!({ "alg": algorithm, "typ": "JWT", "kid": "first" });
    let public = public("first", &issuer.keys["first"]).to_string();
    let invalid = |name, token: &str| (name, bearer(token), Code::Unauthenticated, "TOKEN_INVALID");
    let raw = |name, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        (name, values, Code::Unauthenticated, "TOKEN_INVALID")
    };
    vec![
        ("no credentials", vec![], Code::Unauthenticated, "CREDENTIALS_MISSING"),
        invalid("algorithm none", &forged(&header("none"), &user(), None)),
        invalid("algorithm None", &forged(&header("None"), &user(), None)),
        invalid("no signature", &forged(&header("ES256"), &user(), None)),
        invalid("public key as secret", &forged(&header("HS256"), &user(), Some(public.as_bytes()))),
        invalid("empty secret", &forged(&header("HS256"), &user(), Some(b""))),
        invalid("secret under ES256", &forged(&header("ES256"), &user(), Some(b"secret"))),
        invalid(
            "algorithm RS256",
            &parts(&good, |parts| {
                parts[0] = BASE64_URL_SAFE_NO_PAD.encode(header("RS256").to_string().as_bytes())
            }),
        ),
        invalid(
            "algorithm ES384",
            &parts(&good, |parts| {
                parts[0] = BASE64_URL_SAFE_NO_PAD.encode(header("ES384").to_string().as_bytes())
            }),
        ),
        invalid("algorithm unknown", &forged(&header("XX"), &user(), None)),
        invalid("no algorithm", &forged(&json!({ "kid": "first" }), &user(), None)),
        invalid("kid unknown", &sign("second", &issuer.keys["first"], &user())),
        invalid("kid empty", &sign("", &issuer.keys["first"], &user())),
        invalid(
            "no kid",
            &encode(
                &Header::new(Algorithm::ES256),
                &user(),
                &EncodingKey::from_ec_der(&issuer.keys["first"]),
            )
            .unwrap(),
        ),
        invalid("key of another", &sign("first", &other, &user())),
        invalid(
            "other claims",
            &parts(&good, |parts| {
                parts[1] = BASE64_URL_SAFE_NO_PAD.encode(claims("gateway", |_| {}).to_string().as_bytes())
            }),
        ),
        invalid("signature cut", &good[..good.len() - 2]),
        invalid("signature missing", &parts(&good, |parts| parts.truncate(2))),
        invalid("part too many", &format!("{good}.x")),
        invalid("no token", ""),
        invalid("no base64", "a.b!.c"),
        invalid("words", "let me in"),
        (
            "too long",
            bearer(&format!("{good}{}", "x".repeat(13_000))),
            Code::Unauthenticated,
            "TOKEN_TOO_LONG",
        ),
        raw("scheme alone", &["Bearer"]),
        raw("scheme basic", &["Basic dXNlcjp3b3Jk"]),
        raw("two tokens", &[&format!("Bearer {good}"), &format!("Bearer {good}")]),
        raw("no scheme", &[&good]),
    ]
}

/// Credentials that are genuine and no good here: their owners learn why.
fn unfit(issuer: &Issuer) -> Vec<Refusal> {
    let genuine = |name, reason, change: Box<dyn FnOnce(&mut Value)>| {
        (name, bearer(&issuer.sign(&claims("user/x", change))), Code::Unauthenticated, reason)
    };
    let denied = |name, reason, subject: &str| {
        (name, bearer(&issuer.sign(&claims(subject, |_| {}))), Code::PermissionDenied, reason)
    };
    vec![
        genuine("expired", "TOKEN_EXPIRED", Box::new(|claims| claims["exp"] = json!(now() - 600))),
        genuine("not yet", "TOKEN_NOT_YET_VALID", Box::new(|claims| claims["nbf"] = json!(now() + 600))),
        genuine("audience of others", "TOKEN_AUDIENCE", Box::new(|claims| claims["aud"] = json!("others"))),
        genuine(
            "audiences of others",
            "TOKEN_AUDIENCE",
            Box::new(|claims| claims["aud"] = json!(["a", "b"])),
        ),
        genuine("no audience", "TOKEN_CLAIMS", Box::new(without("aud"))),
        genuine(
            "issuer of others",
            "TOKEN_ISSUER",
            Box::new(|claims| claims["iss"] = json!("https://others")),
        ),
        genuine("no issuer", "TOKEN_CLAIMS", Box::new(without("iss"))),
        genuine("no expiry", "TOKEN_CLAIMS", Box::new(without("exp"))),
        denied("subject without a rule", "CALLER_UNKNOWN", "somebody"),
        denied("subject that begins like a rule", "CALLER_UNKNOWN", "gateway2"),
        denied("subject with a tenant that cannot be", "CALLER_UNKNOWN", "user/a/b"),
        denied("subject with another role", "ROLE_MISSING", "role/upload"),
        denied("administrator without the role", "ROLE_MISSING", "role/admin"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_good_is_refused_and_only_its_owner_learns_why() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&data, &issuer.section());
    let channel = plain(&server).await;
    let all = [forgeries(&issuer), unfit(&issuer)].concat();
    assert!(all.len() >= 30);
    for (name, authorization, code, wanted) in &all {
        let status = call(&channel, "antares.v1.RunnerService/Execute", authorization, None).await;
        assert_eq!((status.code(), reason(&status).as_str()), (*code, *wanted), "{name}: {status:?}");
    }
    println!("{} refusals", all.len());
    let status = call(
        &channel,
        "antares.v1.RunnerService/Execute",
        &bearer(&issuer.sign(&claims("user/x", |_| {}))),
        None,
    )
    .await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(server.metric("antares_auth_refused_total{reason=\"TOKEN_INVALID\"}") >= 20.0);
}
