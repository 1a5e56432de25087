//! A signed answer as JSON: that of `antares verify --sign --json`, or the server's own.

use antares_trust::{StatedGroup, VerdictStatement};
use anyhow::{Context as _, anyhow, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Hex digits of a signature. In base64 it has fewer letters.
const SIGNATURE_DIGITS: usize = 128;

/// An answer, and what was signed of it.
pub(crate) struct SignedAnswer {
    /// As they came.
    answer: Value,
    key_id: String,
    pub(crate) statement: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

/// Reads an answer.
pub(crate) fn parse(text: &[u8]) -> anyhow::Result<SignedAnswer> {
    let mut answer: Value = serde_json::from_slice(text).context("it is no JSON")?;
    // One of a batch or a session.
    if let Some(response) = answer.get_mut("response").map(Value::take) {
        answer = response;
    }
    let signed = member(&answer, "signed");
    if !signed.is_object() {
        bail!(
            "there is no signed verdict in it (key `signed`): was it asked for, and did the scripts come to a verdict?"
        );
    }
    let word = |key: &str| {
        let text = member(signed, key).as_str();
        text.map(str::to_owned).ok_or_else(|| anyhow!("`signed.{key}` is needed, a text"))
    };
    let (key_id, statement, signature) = (word("key_id")?, word("statement")?, word("signature")?);
    let is_hex = signature.len() == SIGNATURE_DIGITS;
    let decoded = |key: &str, text: &str| match is_hex {
        true => hex::decode(text).with_context(|| format!("`signed.{key}` is no hex digits")),
        false => STANDARD.decode(text).with_context(|| format!("`signed.{key}` is no base64")),
    };
    let (statement, signature) = (decoded("statement", &statement)?, decoded("signature", &signature)?);
    Ok(SignedAnswer { answer, key_id, statement, signature })
}

impl SignedAnswer {
    /// What the answer says otherwise than the statement, if anything.
    pub(crate) fn differs(&self, said: &VerdictStatement) -> Option<String> {
        let groups = member(&self.answer, "groups").as_array().map_or(&[][..], Vec::as_slice);
        let mut pairs = vec![
            ("signed.key_id".to_owned(), self.key_id.clone(), said.key_id.clone()),
            ("outcome".to_owned(), outcome(&self.answer), outcome_name(said.outcome).to_owned()),
            ("cycles".to_owned(), number(&self.answer, "cycles"), said.cycles.to_string()),
            (
                "groups".to_owned(),
                format!("{} groups", groups.len()),
                format!("{} groups", said.groups.len()),
            ),
        ];
        for (at, (group, said)) in groups.iter().zip(&said.groups).enumerate() {
            pairs.extend(
                of_group(group, said)
                    .map(|(key, answer, said)| (format!("groups[{at}].{key}"), answer, said)),
            );
        }
        let (path, answer, said) = pairs.into_iter().find(|(_, answer, said)| answer != said)?;
        Some(format!("`{path}` of the answer is {answer}, and {said} was signed"))
    }
}

/// Each field of a group that is signed: its key, and both values.
fn of_group(group: &Value, said: &StatedGroup) -> [(&'static str, String, String); 7] {
    let error = member(group, "error");
    let hash = text(group, "script_hash");
    let hash = hash.strip_prefix("0x").unwrap_or(&hash).to_owned();
    let kind = text(group, "kind").to_lowercase();
    let kind = kind.strip_prefix("script_kind_").unwrap_or(&kind).to_owned();
    let exit_code = |code: Option<i64>| code.map_or("none".to_owned(), |code| code.to_string());
    let cut = |key| StatedGroup::text(&text(error, key));
    [
        ("script_hash", hash, hex::encode(said.script_hash)),
        ("kind", kind, kind_name(said.kind).to_owned()),
        ("outcome", outcome(group), outcome_name(said.outcome).to_owned()),
        (
            "exit_code",
            exit_code(member(group, "exit_code").as_i64()),
            exit_code(said.exit_code.map(i64::from)),
        ),
        ("cycles", number(group, "cycles"), said.cycles.to_string()),
        ("error.kind", cut("kind"), said.error.clone()),
        ("error.vm_error", cut("vm_error"), said.vm_error.clone()),
    ]
}

/// What is under `key`, or under its form in the protocol's JSON.
fn member<'a>(object: &'a Value, key: &str) -> &'a Value {
    let found = object.get(key).or_else(|| object.get(camel(key)));
    found.unwrap_or(&Value::Null)
}

fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        name + &head.to_uppercase() + tail
    })
}

fn text(object: &Value, key: &str) -> String {
    member(object, key).as_str().unwrap_or_default().to_owned()
}

/// A number; of 64 bits it is a text in the protocol's JSON, and left out if it is zero.
fn number(object: &Value, key: &str) -> String {
    match member(object, key) {
        Value::Null => "0".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn outcome(object: &Value) -> String {
    let name = text(object, "outcome").to_lowercase();
    name.strip_prefix("verify_outcome_").unwrap_or(&name).to_owned()
}

/// The command line's name of a `VerifyOutcome`.
pub(crate) fn outcome_name(number: u8) -> &'static str {
    match number {
        1 => "ok",
        2 => "failed",
        6 => "not_run",
        _ => "unknown",
    }
}

/// The command line's name of a `ScriptKind`.
pub(crate) fn kind_name(number: u8) -> &'static str {
    match number {
        1 => "lock",
        2 => "type",
        _ => "unknown",
    }
}
