//! Refused tokens, each with the status and reason for its sender. The forgeries themselves are in
//! `jose_vectors.rs`.

use antares_tests::authorities::token_key;
use serde_json::{Value, json};
use tonic::Code::{PermissionDenied, Unauthenticated};

use crate::{
    client::reason,
    identity::{Issuer, bearer, call, claims, now, plain, sign},
    server::Server,
};

const EXECUTE: &str = "antares.v1.RunnerService/Execute";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_good_is_refused_and_only_its_owner_learns_why() {
    let (issuer, data) = (Issuer::new(), tempfile::tempdir().unwrap());
    let server = Server::start_with(&data, &issuer.section());
    let channel = plain(&server).await;
    let of = |subject: &str| bearer(&issuer.sign(&claims(subject, |_| {})));
    let with = |key: &str, value: Value| bearer(&issuer.sign(&claims("user/x", |all| all[key] = value)));
    let good = of("user/x").remove(0);
    let forged = bearer(&sign("first", &token_key(), &claims("user/x", |_| {})));
    for (authorization, code, wanted) in [
        (vec![], Unauthenticated, "CREDENTIALS_MISSING"),
        (forged, Unauthenticated, "TOKEN_INVALID"),
        (bearer(""), Unauthenticated, "TOKEN_INVALID"),
        (vec!["Bearer".to_owned()], Unauthenticated, "TOKEN_INVALID"),
        (vec!["Basic dXNlcjp3b3Jk".to_owned()], Unauthenticated, "TOKEN_INVALID"),
        (vec![good.replace("Bearer ", "")], Unauthenticated, "TOKEN_INVALID"),
        (vec![good.clone(), good.clone()], Unauthenticated, "TOKEN_INVALID"),
        (vec![good.clone() + &"x".repeat(13_000)], Unauthenticated, "TOKEN_TOO_LONG"),
        (with("exp", json!(now() - 600)), Unauthenticated, "TOKEN_EXPIRED"),
        (with("nbf", json!(now() + 600)), Unauthenticated, "TOKEN_NOT_YET_VALID"),
        (with("aud", json!(["a", "b"])), Unauthenticated, "TOKEN_AUDIENCE"),
        (with("iss", json!("https://others")), Unauthenticated, "TOKEN_ISSUER"),
        (with("exp", json!(null)), Unauthenticated, "TOKEN_CLAIMS"),
        (of("somebody"), PermissionDenied, "CALLER_UNKNOWN"),
        (of("gateway2"), PermissionDenied, "CALLER_UNKNOWN"),
        (of("user/a/b"), PermissionDenied, "CALLER_UNKNOWN"),
        (of("role/upload"), PermissionDenied, "ROLE_MISSING"),
        (of("role/admin"), PermissionDenied, "ROLE_MISSING"),
    ] {
        let status = call(&channel, EXECUTE, &authorization, None).await;
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (code, wanted),
            "{authorization:?}: {status:?}"
        );
    }
    let status = call(&channel, EXECUTE, &[good], None).await;
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status:?}");
    assert_eq!(server.metric("antares_auth_refused_total{reason=\"TOKEN_INVALID\"}"), 6.0);
}
