//! Transactions in a sandboxed child: their results, and enough reserved memory for hostile ones.

use std::time::Instant;

use antares_pool::{
    Pool, Sealed, Verdict,
    job::{TransactionForm, VerifyFiles, VerifyOutcome, VerifyReport},
};
use ckb_types::core::ScriptHashType;

use crate::{
    jobs::{self, PATIENCE, pool},
    short::EXIT,
};

/// Fills memory from 0x100000 to 0x3f0000 with ones and prints it, which is not UTF-8.
const PRINT_JUNK: [u32; 10] = [
    0x0010_02b7,
    0x003f_0337,
    0xfff0_0393,
    0x0072_b023,
    0x0082_8293,
    0xfe62_9ce3,
    0x0010_0537,
    0x0000_18b7,
    0x8818_8893,
    0x0000_0073,
];

/// A transaction with one input, whose lock is `code`, and `witnesses` (a list in JSON).
fn transaction(code: &[u32], witnesses: &str) -> Vec<u8> {
    let mock = antares_chain::locked_by(&[antares_chain::elf(code).into()], ScriptHashType::Data1);
    let text = String::from_utf8(antares_chain::json(mock)).unwrap();
    text.replace("\"witnesses\":[]", &format!("\"witnesses\":[{witnesses}]")).into_bytes()
}

fn verify(pool: &Pool, text: &[u8], form: TransactionForm) -> Verdict<VerifyReport> {
    let job = jobs::verification(form, text.len());
    let file = Sealed::new("transaction", text).unwrap();
    let files = VerifyFiles { document: Some(&file), ..VerifyFiles::default() };
    pool.verify(&job, &files, Instant::now() + PATIENCE).unwrap()
}

#[track_caller]
fn refused(pool: &Pool, text: &[u8], expected: &str) {
    let verdict = verify(pool, text, TransactionForm::Json);
    let Verdict::Done(VerifyReport::Refused { detail, .. }) = &verdict else { panic!("{verdict:?}") };
    assert!(detail.contains(expected), "{detail}");
}

#[track_caller]
fn done(verdict: Verdict<VerifyReport>) -> (VerifyOutcome, Option<String>) {
    let Verdict::Done(VerifyReport::Done { outcome, groups, .. }) = verdict else { panic!("{verdict:?}") };
    (outcome, groups[0].error.as_ref().map(|error| error.detail.clone()))
}

#[test]
fn malformed_transactions_are_refused_and_the_pool_goes_on() {
    let pool = pool();
    refused(&pool, b"{}", "the key `mock_info` is missing");
    refused(&pool, &[0xff; 100], "line 1, column 1");
    refused(&pool, &b"[".repeat(1 << 20), "line 1");
    let verdict = verify(&pool, &[0xff; 100], TransactionForm::Molecule);
    assert!(matches!(verdict, Verdict::Done(VerifyReport::Refused { .. })), "{verdict:?}");
    let verdict = verify(&pool, &transaction(&EXIT, ""), TransactionForm::Json);
    assert_eq!(done(verdict), (VerifyOutcome::Ok, None));
}

#[test]
fn the_largest_transactions_find_enough_memory() {
    let pool = pool();
    let one = format!("\"0x{}\"", "ab".repeat(31 << 20));
    assert_eq!(done(verify(&pool, &transaction(&EXIT, &one), TransactionForm::Json)).0, VerifyOutcome::Ok);
    let tiny = vec!["\"0x\""; 524_000].join(",");
    refused(&pool, &transaction(&EXIT, &tiny), "tx.witnesses: 524000 entries");
    // The maximum number, each with the maximum length that fits.
    let many = vec![format!("\"0x{}\"", "cd".repeat(1900)); 16_384].join(",");
    assert_eq!(done(verify(&pool, &transaction(&EXIT, &many), TransactionForm::Json)).0, VerifyOutcome::Ok);
    refused(&pool, &vec![b' '; (64 << 20) + 1], "at most 67108864");
}

#[test]
fn a_debug_line_as_long_as_memory_finds_enough_memory() {
    let (outcome, detail) = done(verify(&pool(), &transaction(&PRINT_JUNK, ""), TransactionForm::Json));
    assert_eq!(outcome, VerifyOutcome::Failed);
    assert!(detail.unwrap().starts_with("VM Internal Error: External(\"String from buffer FromUtf8Error"));
}
