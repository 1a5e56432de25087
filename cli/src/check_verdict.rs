//! `antares verdict`: checks what a server has signed about a transaction, offline.

use std::{path::Path, process::ExitCode};

use antares_transaction::{Environment, Mock, TransactionFacts, facts};
use antares_trust::{Keyring, LIST, VerdictStatement};
use anyhow::{Context as _, anyhow};
use serde::Serialize;

use crate::{
    args::verdict::{VerdictArgs, VerdictCommand},
    failure::Failure,
    input, output, signed_answer, verify,
};

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// What was signed, for tools: a contract.
#[derive(Serialize)]
struct Said {
    key_id: String,
    time_ms: u64,
    engine: u32,
    tx_hash: String,
    witness_hash: String,
    cells_hash: String,
    rules: Rules,
    max_cycles: u64,
    is_one_group: bool,
    outcome: &'static str,
    cycles: u64,
    groups: Vec<SaidGroup>,
}

#[derive(Serialize)]
struct Rules {
    vm_1_epoch: u64,
    vm_2_epoch: u64,
    epoch: u64,
}

#[derive(Serialize)]
struct SaidGroup {
    script_hash: String,
    kind: &'static str,
    vm_version: Option<u8>,
    outcome: &'static str,
    exit_code: Option<i8>,
    error: Option<String>,
    vm_error: Option<String>,
    cycles: u64,
}

/// Does what `args` say.
pub(crate) fn check(args: &VerdictArgs) -> Result<ExitCode, Failure> {
    let VerdictCommand::Check { answer, keys, tx, json } = &args.command;
    let list = if keys.is_dir() { keys.join(LIST) } else { keys.clone() };
    let keyring = Keyring::read(&list).map_err(|error| Failure::Usage(error.into()))?;
    let text = input::read(answer, ANSWER_BYTES_MAX)?;
    let transaction = tx.as_deref().map(read_mock).transpose()?;
    let shown = answer.display().to_string();
    let answer = signed_answer::parse(&text).with_context(|| shown.clone()).map_err(Failure::Usage)?;
    let verified = keyring.verify_statement(&answer.statement, &answer.signature);
    let found = verified.map_err(|refusal| refusal.to_string()).and_then(|said| {
        answer.differs(&said).map_or(Ok(()), Err)?;
        transaction.and_then(|mock| differs(&said, &mock)).map_or(Ok(()), Err)?;
        Ok(said)
    });
    match found {
        Ok(said) => {
            let text = if *json { to_json(&said) } else { to_text(&said) };
            output::print(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            eprintln!("antares: {}", output::printable(&format!("{shown} is refused: {why}")));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn read_mock(path: &Path) -> Result<Mock, Failure> {
    let text = verify::read_transaction(path)?;
    Mock::from_json(&text).map_err(|error| Failure::Usage(anyhow!("{}: {error}", path.display())))
}

/// What the statement is not about, of the transaction that it should be about.
fn differs(said: &VerdictStatement, mock: &Mock) -> Option<String> {
    let VerdictStatement { vm_1_epoch, vm_2_epoch, epoch, .. } = *said;
    let environment = Environment { vm_1_epoch, vm_2_epoch, epoch };
    let TransactionFacts { tx_hash, witness_hash, cells_hash, .. } = facts(mock, &environment);
    let what = [
        (said.tx_hash == tx_hash, "another transaction"),
        (said.witness_hash == witness_hash, "the transaction with other witnesses"),
        (said.cells_hash == cells_hash, "the transaction with other cells or headers"),
    ];
    what.iter().find_map(|(is_equal, what)| (!is_equal).then(|| format!("the statement is about {what}")))
}

fn to_json(said: &VerdictStatement) -> String {
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let groups = said.groups.iter().map(|group| SaidGroup {
        script_hash: hashed(&group.script_hash),
        kind: signed_answer::kind_name(group.kind),
        vm_version: group.vm_version,
        outcome: signed_answer::outcome_name(group.outcome),
        exit_code: group.exit_code,
        error: text(&group.error),
        vm_error: text(&group.vm_error),
        cycles: group.cycles,
    });
    let said = Said {
        key_id: said.key_id.clone(),
        time_ms: said.time_ms,
        engine: said.engine,
        tx_hash: hashed(&said.tx_hash),
        witness_hash: hashed(&said.witness_hash),
        cells_hash: hashed(&said.cells_hash),
        rules: Rules { vm_1_epoch: said.vm_1_epoch, vm_2_epoch: said.vm_2_epoch, epoch: said.epoch },
        max_cycles: said.cycles_max,
        is_one_group: said.is_one_group,
        outcome: signed_answer::outcome_name(said.outcome),
        cycles: said.cycles,
        groups: groups.collect(),
    };
    // Cannot fail: there are no maps.
    serde_json::to_string(&said).unwrap_or_default() + "\n"
}

fn to_text(said: &VerdictStatement) -> String {
    let outcome = signed_answer::outcome_name(said.outcome);
    let scope = if said.is_one_group { "one group of " } else { "" };
    let mut text = format!(
        "good: {} says that {scope}transaction {} is {outcome}, {} cycles\n",
        said.key_id,
        hashed(&said.tx_hash),
        said.cycles
    );
    for group in &said.groups {
        let kind = signed_answer::kind_name(group.kind);
        let version = group.vm_version.map_or("no".to_owned(), |version| version.to_string());
        let (hash, outcome) = (hashed(&group.script_hash), signed_answer::outcome_name(group.outcome));
        text += &format!("  {kind} {hash}: {outcome}, {} cycles, VM version {version}\n", group.cycles);
    }
    text
}

fn hashed(hash: &[u8; 32]) -> String {
    format!("0x{}", hex::encode(hash))
}
