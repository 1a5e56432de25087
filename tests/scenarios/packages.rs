//! The packages of clients/: made, installed into folders of their own, and used against a server that asks
//! who they are and has nothing of what their transactions need.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use antares_tests::{
    authorities::Authority,
    guests::{self, debugger_examples},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    identity::{Issuer, claims},
    server::Server,
    transactions::{elf, with_lock},
};

/// What make.sh says where something that it needs is not installed.
const MISSING: i32 = 77;

/// A client that is installed, and a server for it.
struct Place {
    folder: TempDir,
    _data: TempDir,
    server: Server,
    files: [(&'static str, PathBuf); 4],
    _authorities: (Authority, Issuer),
}

impl Place {
    fn new(language: &str) -> Option<Self> {
        let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/make.sh");
        let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made = Command::new(make).arg(language).arg(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        if made.status.code() == Some(MISSING) {
            println!("skipped: {said}");
            return None;
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
        let token = folder.path().join("token");
        std::fs::write(&token, issuer.sign(&claims("author", |_| {}))).unwrap();
        let files = [
            ("ANTARES_TLS_CA", ours.certificate()),
            ("ANTARES_TLS_CERT", shown.certificate),
            ("ANTARES_TLS_KEY", shown.key),
            ("ANTARES_TOKEN_FILE", token),
        ];
        Some(Self { folder, _data: data, server, files, _authorities: (ours, issuer) })
    }

    fn ask(&self, verb: &str, file: &Path, args: &[&str]) -> Output {
        let mut command = Command::new(self.folder.path().join("client"));
        command.arg(verb).arg(&self.server.address).arg(file).args(args);
        // What was installed, and nothing of this repository.
        let files = self.files.clone();
        command.envs(files).current_dir(self.folder.path()).output().unwrap()
    }

    #[track_caller]
    fn answer(&self, verb: &str, file: &Path, args: &[&str]) -> Value {
        let output = self.ask(verb, file, args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// A number of 64 bits is a text in some languages.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn package(language: &str) {
    let Some(place) = Place::new(language) else { return };
    let examples = debugger_examples().unwrap();
    // Twice: the first time its cells are uploaded.
    for (name, cycles) in [("mock_tx", 1_686_515), ("mock_tx", 1_686_515), ("dynamic", 2_808_365)] {
        let answer = place.answer("verify", &examples.join(format!("{name}.json")), &[]);
        let told = (&answer["outcome"], number(&answer["cycles"]));
        assert_eq!(told, (&json!("VERIFY_OUTCOME_OK"), Some(cycles)), "{name}: {answer}");
    }
    assert!(place.server.metric("antares_hot_cells") >= 2.0, "cells went by digest");
    let write = |name: &str, text: &str| {
        let path = place.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    // That a lock does not accept it is an answer.
    let refused = write("refused.json", &with_lock(&elf(&[0x0070_0513, 0x05d0_0893, 0x73])));
    let answer = place.answer("verify", &refused, &[]);
    assert_eq!(answer["outcome"], json!("VERIFY_OUTCOME_FAILED"));
    // Names of fields are the protocol's in one language, and those of its JSON in the others.
    let group = &answer["groups"][0];
    let exit_code = group.get("exitCode").or_else(|| group.get("exit_code"));
    assert_eq!(exit_code, Some(&json!(7)), "{answer}");
    // No transaction is one.
    let output = place.ask("verify", &write("none.json", "{\"mock_info\": {}, \"tx\": {}}"), &[]);
    assert!(!output.status.success() && output.stdout.is_empty());
    let answer = place.answer("run", &guests::build("fib-imc").unwrap(), &["10"]);
    let verdict = &answer["verdict"];
    let exit_code = verdict.get("exitCode").or_else(|| verdict.get("exit_code"));
    assert_eq!((&verdict["outcome"], exit_code), (&json!("OUTCOME_EXIT"), Some(&json!(55))));
}

#[test]
fn the_wheel_verifies_transactions() {
    package("python");
}

#[test]
fn the_npm_package_verifies_transactions() {
    package("npm");
}

/// Go fetches modules from repositories, so that this one has what is made of the proto files.
#[test]
fn the_go_module_has_the_proto_files_as_they_are() {
    let (folder, clients) =
        (tempfile::tempdir().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients"));
    let made = Command::new(clients.join("make.sh")).args(["go-code"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    if made.status.code() == Some(MISSING) {
        println!("skipped: {said}");
        return;
    }
    assert!(made.status.success(), "{said}");
    let (made, kept) = (folder.path().join("antaresv1"), clients.join("go/antaresv1"));
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(names(&made), names(&kept));
    for name in names(&made) {
        let is_same = std::fs::read(made.join(&name)).unwrap() == std::fs::read(kept.join(&name)).unwrap();
        assert!(is_same, "{name:?} is of other proto files: clients/make.sh go-code clients/go");
    }
}

#[test]
fn the_go_module_verifies_transactions() {
    package("go");
}
