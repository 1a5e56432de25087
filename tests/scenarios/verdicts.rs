//! Verdicts that a server signs: alone, in a batch, in a session and as JSON; checked offline by the command
//! line, which refuses them when anything in them was changed, and when their key was revoked.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use antares_abi::Sha256Digest;
use antares_pool::worker_path;
use antares_proto::v1::{
    self, VerifyOutcome, shared_transaction, shared_transaction_result::Result as Outcome,
    verify_session_request::Message, verify_session_response::Message as Told,
    verify_transaction_request::Transaction,
};
use antares_transaction::{Environment, Mock, facts};
use antares_trust::{Keyring, VerdictStatement};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Code;

use crate::{
    client::{Client, reason},
    server::{Server, until},
    transactions::{elf, example, fields, with_lock},
    web,
};

/// A server that signs, the folder of its keys, and a folder for files.
struct Place {
    data: TempDir,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let keys = data.path().join("verdicts");
        let sections =
            format!("[web]\naddress = \"127.0.0.1:0\"\n[verdict]\nkeys = \"{}\"\n", keys.display());
        let server = Server::start_with(&data, &sections);
        Self { data, server }
    }

    fn path(&self, name: &str) -> String {
        self.data.path().join(name).display().to_string()
    }

    fn keyring(&self) -> Keyring {
        Keyring::read(Path::new(&self.path("verdicts/trusted.json"))).unwrap()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// What the command says, with the server's status.
    fn signed(&self, tx: &str, status: i32, words: &[&str]) -> Value {
        let words = [&["verify", "--tx", tx, "--sign", "--json", "--no-diagnosis"], words].concat();
        let output = antares(&[&words[..], &["--server", &self.server.address]].concat());
        assert_eq!(output.status.code(), Some(status), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Status and words of a check of `answer`.
    fn check(&self, answer: &Value, words: &[&str]) -> (Option<i32>, String) {
        let (file, keys) = (self.write("answer.json", answer.to_string()), self.path("verdicts"));
        let output = antares(&[&["verdict", "check", &file, "--keys", &keys], words].concat());
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    #[track_caller]
    fn refuses(&self, answer: &Value, words: &[&str], why: &str) {
        let (status, text) = self.check(answer, words);
        assert!(status == Some(1) && text.contains(why), "{status:?} {text}, wanted: {why}");
    }

    /// Nothing that is signed may be said otherwise, be it under names of the command or of the protocol.
    #[track_caller]
    fn refuses_changes(&self, answer: &Value, changes: &[(&str, Value)]) {
        for (pointer, value) in changes {
            let mut changed = answer.clone();
            let place = changed.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}: {answer}"));
            assert_ne!(place, value, "{pointer}");
            *place = value.clone();
            self.refuses(&changed, &[], "is refused: ");
        }
    }
}

fn antares(words: &[&str]) -> Output {
    Command::new(worker_path("antares").unwrap()).args(words).output().unwrap()
}

/// A lock that exits with `code`.
fn exits(code: u32) -> Vec<u8> {
    elf(&[0x0000_0513 | code << 20, 0x05d0_0893, 0x73])
}

/// The text with its last digit changed.
fn forged(text: &Value) -> Value {
    let text = text.as_str().unwrap();
    let (head, last) = text.split_at(text.len() - 1);
    json!(format!("{head}{}", if last == "0" { "1" } else { "0" }))
}

#[test]
fn nothing_that_was_signed_can_be_changed() {
    let place = Place::new();
    let tx = place.write("tx.json", with_lock(&exits(5)));
    let answer = place.signed(&tx, 1, &[]);
    let (status, said) = place.check(&answer, &["--tx", &tx, "--json"]);
    assert_eq!(status, Some(0), "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    let facts = facts(&Mock::from_json(&fs::read(&tx).unwrap()).unwrap(), &Environment::default());
    assert_eq!(said["tx_hash"], json!(format!("0x{}", Sha256Digest(facts.tx_hash))));
    assert_eq!((&said["outcome"], &said["is_one_group"]), (&json!("failed"), &json!(false)));
    assert_eq!(said["groups"][0]["exit_code"], json!(5));
    assert_eq!(said["groups"][0]["error"], json!("ValidationFailure"));
    assert_eq!(said["cycles"], answer["cycles"]);
    assert!(said["time_ms"].as_u64().unwrap() > 1_700_000_000_000);
    let signed = &answer["signed"];
    let other = forged(&answer["groups"][0]["script_hash"]);
    place.refuses_changes(
        &answer,
        &[
            ("/outcome", json!("ok")),
            ("/cycles", json!(1)),
            ("/groups", json!([])),
            ("/groups/0/script_hash", other),
            ("/groups/0/kind", json!("type")),
            ("/groups/0/outcome", json!("ok")),
            ("/groups/0/exit_code", json!(6)),
            ("/groups/0/exit_code", Value::Null),
            ("/groups/0/cycles", json!(1)),
            ("/groups/0/error", Value::Null),
            ("/groups/0/error/kind", json!("Other")),
            ("/groups/0/error/vm_error", json!("MemOutOfBound")),
            ("/signed/key_id", forged(&signed["key_id"])),
            ("/signed/statement", forged(&signed["statement"])),
            ("/signed/signature", forged(&signed["signature"])),
        ],
    );
    // What is told beside the verdict is not signed.
    let mut beside = answer.clone();
    beside["groups"][0]["native_cycles"] = json!(0);
    assert_eq!(place.check(&beside, &[]).0, Some(0));
    // Another transaction; the same one with other witnesses, and with another cell.
    let mut json: Value = serde_json::from_slice(&fs::read(&tx).unwrap()).unwrap();
    json["mock_info"]["inputs"][0]["data"] = json!("0x00");
    let cells = place.write("cells.json", json.to_string());
    place.refuses(&answer, &["--tx", &cells], "other cells or headers");
    json["tx"]["witnesses"] = json!(["0x0102"]);
    let witnesses = place.write("witnesses.json", json.to_string());
    place.refuses(&answer, &["--tx", &witnesses], "other witnesses");
    json["tx"]["version"] = json!("0x1");
    let other = place.write("other.json", json.to_string());
    place.refuses(&answer, &["--tx", &other], "another transaction");
    // No verdict, and no answer.
    let unsigned = json!({"outcome": "ok", "cycles": 1, "groups": []});
    let (status, text) = place.check(&unsigned, &[]);
    assert!(status == Some(2) && text.contains("no signed verdict"), "{text}");
    assert_eq!(place.check(&json!("rubbish"), &[]).0, Some(2));
}

#[test]
fn the_json_of_a_server_is_signed_too_and_says_when_one_group_ran() {
    let place = Place::new();
    let tx = place.write("tx.json", example("mock_tx.json"));
    let group = json!({"kind": "SCRIPT_KIND_LOCK", "input": 0});
    let encoded = STANDARD.encode(fs::read(&tx).unwrap());
    let body = json!({"mockJson": encoded, "sign": true, "group": group, "rules": {"scriptVersion": 1}});
    let answer = web::answer(&place.server, "VerifyTransaction", &body);
    let (status, said) = place.check(&answer, &["--tx", &tx, "--json"]);
    assert_eq!(status, Some(0), "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["is_one_group"], &said["outcome"]), (&json!(true), &json!("ok")));
    assert_eq!(said["rules"], json!({"vm_1_epoch": 1, "vm_2_epoch": 2, "epoch": 1}));
    assert!(place.check(&answer, &[]).1.contains("one group of transaction"), "{said}");
    // As a session or a batch gives it.
    assert_eq!(place.check(&json!({"id": "7", "response": answer}), &[]).0, Some(0));
    let ran = answer["groups"].as_array().unwrap();
    let at = ran.iter().position(|group| group["outcome"] == json!("VERIFY_OUTCOME_OK")).unwrap();
    let in_group = |key: &str| format!("/groups/{at}/{key}");
    place.refuses_changes(
        &answer,
        &[
            ("/outcome", json!("VERIFY_OUTCOME_FAILED")),
            ("/cycles", json!("1")),
            (&in_group("scriptHash"), forged(&ran[at]["scriptHash"])),
            (&in_group("kind"), json!("SCRIPT_KIND_TYPE")),
            (&in_group("outcome"), json!("VERIFY_OUTCOME_NOT_RUN")),
            (&in_group("exitCode"), json!(1)),
            (&in_group("cycles"), json!("1")),
            ("/signed/keyId", json!("0102030405060708")),
        ],
    );
}

/// The statement, if it is the server's and about the transaction that was sent.
#[track_caller]
fn read(place: &Place, answer: &v1::VerifyTransactionResponse, json: &str) -> VerdictStatement {
    let signed = answer.signed.as_ref().unwrap();
    let said = place.keyring().verify_statement(&signed.statement, &signed.signature).unwrap();
    let facts = facts(&Mock::from_json(json.as_bytes()).unwrap(), &Environment::default());
    assert_eq!(said.key_id, signed.key_id);
    assert_eq!((said.tx_hash, said.witness_hash), (facts.tx_hash, facts.witness_hash));
    assert_eq!(said.cells_hash, facts.cells_hash);
    assert_eq!((said.cycles, i32::from(said.outcome)), (answer.cycles, answer.outcome));
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_and_sessions_sign_each_transaction() {
    let place = Place::new();
    let mut client = Client::connect(&place.server).await;
    let texts = [with_lock(&exits(0)), with_lock(&exits(1))];
    let shared = |sign| v1::VerifyShared { sign, ..Default::default() };
    let of = |(text, id): (&String, u64)| v1::SharedTransaction {
        id,
        transaction: Some(shared_transaction::Transaction::Fields(fields(text.as_bytes()))),
        ..Default::default()
    };
    let transactions: Vec<_> = texts.iter().zip(0..).map(of).collect();
    for sign in [true, false] {
        let batch = v1::VerifyBatchRequest { shared: Some(shared(sign)), transactions: transactions.clone() };
        let answer = client.runner.verify_batch(batch).await.unwrap().into_inner();
        for (result, text) in answer.results.iter().zip(&texts) {
            let Some(Outcome::Response(answer)) = &result.result else { panic!("{result:?}") };
            assert_eq!(answer.signed.is_some(), sign);
            if sign {
                read(&place, answer, text);
            }
        }
    }
    let messages = [Message::Start(shared(true))].into_iter();
    let messages = messages.chain(transactions.into_iter().map(Message::Transaction));
    let messages: Vec<_> =
        messages.map(|message| v1::VerifySessionRequest { message: Some(message) }).collect();
    let mut told = client.runner.verify_session(tokio_stream::iter(messages)).await.unwrap().into_inner();
    let mut answered = 0;
    while let Some(message) = told.message().await.unwrap() {
        let Some(Told::Result(result)) = message.message else { continue };
        let Some(Outcome::Response(answer)) = &result.result else { panic!("{result:?}") };
        read(&place, answer, &texts[usize::try_from(result.id).unwrap()]);
        answered += 1;
    }
    assert_eq!(answered, 2);
    // What is over before the scripts are says nothing of them.
    let limits =
        v1::RunLimits { deadline_ms: Some(1), max_cycles: Some(1_000_000_000_000), ..Default::default() };
    let endless = v1::VerifyTransactionRequest {
        transaction: Some(Transaction::MockJson(with_lock(&elf(&[0x0000_006f])).into())),
        limits: Some(limits),
        sign: true,
        ..Default::default()
    };
    let answer = client.runner.verify_transaction(endless).await.unwrap().into_inner();
    assert_eq!((answer.outcome(), answer.signed), (VerifyOutcome::DeadlineExceeded, None));
}

#[test]
fn keys_of_verdicts_are_rotated_and_revoked_under_a_server() {
    let place = Place::new();
    let tx = place.write("tx.json", with_lock(&exits(0)));
    let keys = place.path("verdicts");
    let change = |words: &[&str]| {
        let output = antares(&[&["keys"], words, &["--keys", &keys]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let before = place.signed(&tx, 0, &[]);
    let old_list = place.write("old.json", fs::read(place.path("verdicts/trusted.json")).unwrap());
    let old = before["signed"]["key_id"].as_str().unwrap().to_owned();
    let new = change(&["rotate"]);
    assert_ne!(new, old);
    let mut after = Value::Null;
    until("the new key signs", || {
        after = place.signed(&tx, 0, &[]);
        after["signed"]["key_id"] == json!(new)
    });
    assert_eq!((place.check(&before, &[]).0, place.check(&after, &[]).0), (Some(0), Some(0)));
    // Whoever has the old list does not know the new key.
    let file = place.write("after.json", after.to_string());
    let output = antares(&["verdict", "check", &file, "--keys", &old_list]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("is not in the list"), "{text}");
    change(&["revoke", &old]);
    place.refuses(&before, &[], "was revoked");
    assert_eq!(place.check(&after, &[]).0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_keys_says_so_before_it_verifies() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let mut client = Client::connect(&server).await;
    let request = v1::VerifyTransactionRequest {
        transaction: Some(Transaction::MockJson(with_lock(&exits(0)).into())),
        sign: true,
        ..Default::default()
    };
    let alone = client.runner.verify_transaction(request).await.unwrap_err();
    let shared = v1::VerifyShared { sign: true, ..Default::default() };
    let transactions = vec![v1::SharedTransaction::default()];
    let batch = v1::VerifyBatchRequest { shared: Some(shared.clone()), transactions };
    let batch = client.runner.verify_batch(batch).await.unwrap_err();
    let start = v1::VerifySessionRequest { message: Some(Message::Start(shared)) };
    let session = client.runner.verify_session(tokio_stream::iter([start])).await.unwrap();
    let session = session.into_inner().message().await.unwrap_err();
    for status in [alone, batch, session] {
        let told = (status.code(), reason(&status));
        assert_eq!(told, (Code::FailedPrecondition, "VERDICTS_UNSIGNED".to_owned()), "{status}");
    }
}
