//! Clients of strangers: Python's grpcio and grpcurl. They know the address, and learn the rest by reflection.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use antares_abi::Sha256Digest;
use antares_tests::guests;
use serde_json::Value;

use crate::server::Server;

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
fn python_uploads_compiles_and_runs() {
    let python = tool(&folder().join("scenarios/python.sh"), &[]);
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let output = Command::new(python)
        .arg(folder().join("scenarios/stranger.py"))
        .arg(&server.address)
        .arg(guests::build("fib-imc").unwrap())
        .arg("10")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    for service in ["antares.v1.CompilerService", "antares.v1.RunnerService", "grpc.health.v1.Health"] {
        assert!(answer["services"].as_array().unwrap().contains(&service.into()), "{answer}");
    }
    assert_eq!(answer["unknown"], "NOT_FOUND");
    let execute = &answer["execute"];
    assert_eq!(
        (&execute["verdict"]["outcome"], &execute["verdict"]["exit_code"]),
        (&"OUTCOME_EXIT".into(), &55.into())
    );
    assert_eq!(execute["tiers"]["native_cycles"], execute["verdict"]["cycles"]);
    assert_eq!(execute["artifact"]["key"], answer["compile"]["artifact_key"]);
    assert_eq!(execute["request_id"], "stranger");
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
    assert!(services.contains("antares.v1.RunnerService"), "{services}");
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
