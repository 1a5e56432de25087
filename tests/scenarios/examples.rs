//! The examples of docs/clients: made as their readers make them, and run against a server that asks who they
//! are and has not got the script.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use antares_tests::{authorities::Authority, guests};
use serde_json::Value;

use crate::{
    identity::{Issuer, claims},
    server::Server,
};

/// What make.sh says where something that it needs is not installed.
const MISSING: i32 = 77;

fn example(language: &str) {
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/clients/make.sh");
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = Command::new(make).arg(language).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    if made.status.code() == Some(MISSING) {
        println!("skipped: {said}");
        return;
    }
    assert!(made.status.success(), "{said}");
    let (ours, issuer) = (Authority::new("ours"), Issuer::new());
    let (pair, shown) = (ours.issue("server", "IP:127.0.0.1"), ours.issue("client", "DNS:client"));
    let sections = format!(
        "[tls]\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\n{}\
         [[auth.rules]]\ntoken = \"author\"\nroles = [\"upload\", \"execute\"]\ntenant = \"author\"\n",
        pair.certificate,
        pair.key,
        ours.certificate(),
        issuer.section()
    );
    let server = Server::start_with(&data, &sections);
    let token = data.path().join("token");
    std::fs::write(&token, issuer.sign(&claims("author", |_| {}))).unwrap();
    let files: [(&str, PathBuf); 4] = [
        ("ANTARES_TLS_CA", ours.certificate()),
        ("ANTARES_TLS_CERT", shown.certificate),
        ("ANTARES_TLS_KEY", shown.key),
        ("ANTARES_TOKEN_FILE", token),
    ];
    let run = || {
        let mut command = Command::new(folder.path().join("run"));
        command.arg(&server.address).arg(guests::build("fib-imc").unwrap()).arg("10");
        command
    };
    let output = run().envs(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((answer["outcome"].as_str(), answer["exit_code"].as_i64()), (Some("OUTCOME_EXIT"), Some(55)));
    assert!(answer["cycles"].as_u64().is_some_and(|cycles| cycles > 0), "{answer}");
}

#[test]
fn the_example_in_python_runs() {
    example("python");
}

#[test]
fn the_example_in_go_runs() {
    example("go");
}

#[test]
fn the_example_in_typescript_runs() {
    example("typescript");
}
