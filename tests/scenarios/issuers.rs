//! Token issuers behind a URL, and rules that change while the server runs.

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use antares_tests::{authorities::token_key, s3};
use serde_json::{Value, json};
use tonic::Code;

use crate::{
    client::{is, reason},
    identity::{EXECUTE, bearer, call, claims, is_refused, plain, public, sign},
    server::{Server, until},
};

const SECTION: &str = "issuer = \"https://issuer.test\"\naudiences = [\"antares\"]\n";

/// Rotations of the issuer's key under load.
const ROTATIONS: usize = 5;

/// Serves the keys that it holds, if any.
#[derive(Clone, Default)]
struct Issuer(Arc<Mutex<Vec<Value>>>);

impl Issuer {
    /// Starts the server; returns its `[auth]` section.
    fn serve(&self) -> String {
        let keys = self.0.clone();
        let url = s3::server(move |_| {
            let keys = keys.lock().unwrap();
            (if keys.is_empty() { 503 } else { 200 }, json!({ "keys": *keys }).to_string())
        });
        format!("[auth]\njwks = \"{url}/keys\"\n{SECTION}")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_rotates_its_keys_under_load_and_goes_away() {
    let (issuer, data) = (Issuer::default(), tempfile::tempdir().unwrap());
    let rule =
        "[[auth.rules]]\nclaim = \"azp\"\ntoken = \"wallet\"\ntenant = \"wallet\"\nroles = [\"execute\"]\n";
    // The issuer is away: no token can be verified.
    let server = Server::start_with(&data, &format!("{}{rule}", issuer.serve()));
    let channel = plain(&server).await;
    let body = claims("0b2f", |claims| claims["azp"] = json!("wallet"));
    let key = token_key();
    let token = Arc::new(Mutex::new(sign("0", &key, &body)));
    let newest = bearer(&token.lock().unwrap());
    let status = call(&channel, EXECUTE, &newest, None).await;
    is(&status, Code::Unavailable, "KEYS_UNAVAILABLE");
    issuer.0.lock().unwrap().push(public("0", &key));

    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (stop, done) = (stop.clone(), done.clone());
            let (token, channel) = (token.clone(), channel.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Acquire) {
                    let token = token.lock().unwrap().clone();
                    let status = call(&channel, EXECUTE, &bearer(&token), None).await;
                    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
                    done.fetch_add(1, Ordering::AcqRel);
                }
            })
        })
        .collect();
    for number in 1..=ROTATIONS {
        let (id, key, before) = (number.to_string(), token_key(), done.load(Ordering::Acquire));
        // It signs with the new key at once, and still publishes the previous one.
        let last = issuer.0.lock().unwrap().last().cloned().into_iter();
        let keys = last.chain([public(&id, &key)]).collect();
        *issuer.0.lock().unwrap() = keys;
        *token.lock().unwrap() = sign(&id, &key, &body);
        until("calls go on", || done.load(Ordering::Acquire) > before + 20);
    }
    stop.store(true, Ordering::Release);
    for task in load {
        task.await.unwrap();
    }
    // Issuer away: the last keys remain valid, and an unknown key is refused.
    issuer.0.lock().unwrap().clear();
    let known = token.lock().unwrap().clone();
    let unknown = sign("unknown", &token_key(), &body);
    let status = call(&channel, EXECUTE, &bearer(&unknown), None).await;
    assert_eq!(reason(&status), "TOKEN_INVALID", "{status:?}");
    assert!(server.reloads("jwks", "failed") >= 1.0);
    assert!(!is_refused(&call(&channel, EXECUTE, &bearer(&known), None).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_tenant_needs_no_restart() {
    let (issuer, data) = (Issuer::default(), tempfile::tempdir().unwrap());
    let key = token_key();
    issuer.0.lock().unwrap().push(public("k", &key));
    let rule =
        |name: &str| format!("[[auth.rules]]\ntoken = {name:?}\ntenant = {name:?}\nroles = [\"execute\"]\n");
    let server = Server::start_with(&data, &format!("{}{}", issuer.serve(), rule("old")));
    let channel = plain(&server).await;
    let token = |subject: &str| bearer(&sign("k", &key, &claims(subject, |_| {})));
    assert_eq!(reason(&call(&channel, EXECUTE, &token("new"), None).await), "CALLER_UNKNOWN");
    let file = data.path().join("antares.toml");
    let text = fs::read_to_string(&file).unwrap();
    let count = |result| server.reloads("rules", result);
    fs::write(&file, format!("{text}[[auth.rules]]\n")).unwrap();
    until("the broken file is refused", || count("failed") > 0.0);
    assert!(!is_refused(&call(&channel, EXECUTE, &token("old"), None).await));
    fs::write(&file, text.replace(&rule("old"), &rule("new"))).unwrap();
    until("the rules are in force", || count("reloaded") > 0.0);
    assert!(!is_refused(&call(&channel, EXECUTE, &token("new"), None).await));
    // Also for a token that was accepted before.
    assert_eq!(reason(&call(&channel, EXECUTE, &token("old"), None).await), "CALLER_UNKNOWN");
}
