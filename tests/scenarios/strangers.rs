//! grpcurl, a client of strangers: it knows the address, and learns the rest by reflection.

use std::{path::Path, process::Command};

use antares_tests::{authorities::Authority, guests};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    identity::{Issuer, claims},
    server::Server,
    tls::section,
};

/// The path of grpcurl, which is built where it is not there.
fn grpcurl() -> String {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/check/tools.sh");
    let output = Command::new(tools).arg("grpcurl").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A server that asks for a certificate and a token, and what a stranger needs for it: authority,
/// certificate, key, token.
fn closed(data: &tempfile::TempDir, ours: &Authority, issuer: &Issuer) -> (Server, [String; 4]) {
    let pair = ours.issue("server", "IP:127.0.0.1");
    let ca = ours.certificate();
    let rules = "[[auth.rules]]\ntoken = \"all/*\"\ntenant = \"*\"\n\
        roles = [\"upload\", \"compile\", \"execute\"]\n";
    let sections = section(&pair, &format!("client_ca = {ca:?}\n{}{rules}", issuer.section()));
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
    let grpcurl = grpcurl();
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
        serde_json::json!({ "script": { "elf": STANDARD.encode(&elf) }, "args": [STANDARD.encode("-7")] })
            .to_string();
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
