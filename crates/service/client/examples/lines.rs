//! `lines verify ADDRESSES -` answers each line of standard input, a transaction in ckb-debugger's JSON, with a
//! line; `lines run ADDRESSES SCRIPT ARG...` runs a script once. ADDRESSES is `HOST:PORT` or
//! `ipv4:HOST:PORT,HOST:PORT...`, as for the packages.
#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::io::{BufRead as _, stdin};

use antares_client::{Client, Error, Script};
use antares_proto::v1::{self, verify_transaction_request::Transaction};
use bytes::Bytes;
use serde_json::{Value, json};
use tonic_types::StatusExt as _;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [verb, addresses, rest @ ..] = &words[..] else {
        return Err("lines verify|run ADDRESSES ...".into());
    };
    let servers = addresses.trim_start_matches("ipv4:").split(',').map(|address| format!("http://{address}"));
    let client = Client::builder().servers(servers).build()?;
    if verb == "run" {
        return run(&client, rest).await;
    }
    for line in stdin().lock().lines() {
        let transaction = Some(Transaction::MockJson(Bytes::from(line?)));
        let request = v1::VerifyTransactionRequest { transaction, ..v1::VerifyTransactionRequest::default() };
        println!("{}", answer_line(client.verify_transaction(request).await));
    }
    Ok(())
}

async fn run(client: &Client, words: &[String]) -> Result<(), Failure> {
    let [path, args @ ..] = words else { return Err("lines run ADDRESSES SCRIPT ARG...".into()) };
    let elf = Script::Elf(Bytes::from(std::fs::read(path)?));
    let args = args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect();
    let answer = client.execute(elf, v1::ExecuteRequest { args, ..v1::ExecuteRequest::default() }).await?;
    let verdict = answer.verdict.unwrap_or_default();
    println!("{}", json!({"verdict": {"exitCode": verdict.exit_code}}));
    Ok(())
}

/// The answer, or the error, as JSON.
fn answer_line(answer: Result<v1::VerifyTransactionResponse, Error>) -> Value {
    match answer {
        Ok(answer) => json!({"outcome": answer.outcome().as_str_name(), "cycles": answer.cycles}),
        Err(error) => {
            let (code, reason) = (error.code().map_or(2, i32::from), error.reason().unwrap_or_default());
            let details = match &error {
                Error::Status { status, .. } => status.get_details_bad_request(),
                _ => None,
            };
            let violations = details.map_or_else(Vec::new, |wrong| wrong.field_violations);
            let fields: Vec<_> = violations.into_iter().map(|violation| violation.field).collect();
            json!({"error": {"code": code, "reason": reason, "fields": fields}})
        }
    }
}
