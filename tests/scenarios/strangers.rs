//! Clients of strangers: Python's grpcio and grpcurl. They know the address, and learn the rest by
//! reflection.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use antares_abi::Sha256Digest;
use antares_tests::{authorities::Authority, guests};
use serde_json::Value;

use crate::{
    identity::{Issuer, claims},
    server::Server,
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The path that a script prints, which makes or finds a tool.
fn tool(script: &Path, words: &[&str]) -> String {
    let output = Command::new(script).args(words).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} failed: {stderr}", script.display());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn grpcurl_lists_describes_and_runs() {
    let grpcurl = tool(&folder().join("../deploy/check/tools.sh"), &["grpcurl"]);
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let ask = |words: &[&str]| {
        let output = Command::new(&grpcurl).arg("-plaintext").args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let services = ask(&[&server.address, "list"]);
    for service in ["RunnerService", "CompilerService", "ProfileService", "AdminService"] {
        assert!(services.contains(&format!("antares.v1.{service}")), "{services}");
    }
    // What stands in the details of errors can be read.
    let detail = ask(&[&server.address, "describe", "google.rpc.QuotaFailure"]);
    assert!(detail.contains("repeated .google.rpc.QuotaFailure.Violation violations"), "{detail}");
    let described = ask(&[&server.address, "describe", "antares.v1.RunnerService"]);
    assert!(described.contains("rpc Execute"), "{described}");
    let health = ask(&[&server.address, "grpc.health.v1.Health/Check"]);
    assert!(health.contains("SERVING"), "{health}");

    let elf = guests::bytes("exit-imc").unwrap();
    let request = serde_json::json!({
        "script": { "elf": base64(&elf) }, "args": [base64(b"-7")], "tier": "TIER_NATIVE",
    });
    let words = ["-d", &request.to_string(), &server.address, "antares.v1.RunnerService/Execute"];
    let answer: Value = serde_json::from_str(&ask(&words)).unwrap();
    assert_eq!(answer["verdict"]["exitCode"], -7, "{answer}");
    assert_eq!(answer["scriptSha256"], Sha256Digest::of(&elf).to_string());
}

/// A server that asks for a certificate and a token, and what a stranger needs for it: authority,
/// certificate, key, token.
fn closed(data: &tempfile::TempDir, ours: &Authority, issuer: &Issuer) -> (Server, [String; 4]) {
    let pair = ours.issue("server", "IP:127.0.0.1");
    let ca = ours.certificate();
    let rules = "[[auth.rules]]\ntoken = \"all/*\"\ntenant = \"*\"\n\
        roles = [\"upload\", \"compile\", \"execute\"]\n";
    let sections = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {ca:?}\n{}{rules}",
        pair.certificate,
        pair.key,
        issuer.section(),
    );
    let client = ours.issue("client", "DNS:client.test");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let needed = [
        text(&ca),
        text(&client.certificate),
        text(&client.key),
        issuer.sign(&claims("all/stranger", |_| {})),
    ];
    (Server::start_with(data, &sections), needed)
}

#[test]
fn grpcurl_shows_a_certificate_and_a_token() {
    let grpcurl = tool(&folder().join("../deploy/check/tools.sh"), &["grpcurl"]);
    let (data, ours, issuer) = (tempfile::tempdir().unwrap(), Authority::new("ours"), Issuer::new());
    let (server, [ca, certificate, key, token]) = closed(&data, &ours, &issuer);
    let pair = ["-cacert", &ca, "-cert", &certificate, "-key", &key];
    let bearer = format!("authorization: Bearer {token}");
    let ask = |words: &[&str], rest: &[&str]| {
        let output = Command::new(&grpcurl).args(words).args(rest).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), String::from_utf8(output.stdout).unwrap() + &stderr)
    };
    let execute = "antares.v1.RunnerService/Execute";
    let elf = guests::bytes("exit-imc").unwrap();
    let request =
        serde_json::json!({ "script": { "elf": base64(&elf) }, "args": [base64(b"-7")] }).to_string();
    let call = ["-d", request.as_str(), &server.address, execute];
    let with_token = [&pair[..], &["-H", &bearer]].concat();
    let (is_ok, told) = ask(&with_token, &call);
    assert!(is_ok && told.contains("\"exitCode\": -7"), "{told}");
    let (is_ok, told) = ask(&with_token, &[&server.address, "antares.v1.AdminService/Drain"]);
    assert!(!is_ok && told.contains("PermissionDenied") && told.contains("ROLE_MISSING"), "{told}");
    let (is_ok, told) = ask(&pair, &call);
    assert!(!is_ok && told.contains("PermissionDenied"), "{told}");
    let (is_ok, told) = ask(&["-cacert", &ca, "-H", &bearer], &call);
    assert!(!is_ok, "{told}");
}

/// Base64 with padding, as JSON has bytes.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for index in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}
