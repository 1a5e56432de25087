//! Compares verdicts of the extension with those of ckb-testtool.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::{Arc, Mutex};

use antares::{Engine, testtool::ContextExt};
use ckb_testtool::{
    builtin::ALWAYS_SUCCESS,
    ckb_types::{
        bytes::Bytes,
        core::{ScriptHashType, TransactionBuilder, TransactionView},
        packed::{CellInput, CellOutput},
        prelude::*,
    },
    context::Context,
};

/// A transaction whose input is locked by `elf`, for VM version `version`.
fn guarded(elf: Bytes, version: ScriptHashType, args: &[u8]) -> (Context, TransactionView) {
    let mut context = Context::new_with_deterministic_rng();
    let code = context.deploy_cell(elf);
    let args = Bytes::copy_from_slice(args);
    let lock = context.build_script_with_hash_type(&code, version, args).unwrap();
    let cell = CellOutput::new_builder().capacity(100_000_000_000u64).lock(lock.clone()).build();
    let input = context.create_cell(cell.clone(), Bytes::new());
    let tx = TransactionBuilder::default()
        .input(CellInput::new_builder().previous_output(input).build())
        .output(cell)
        .output_data(Bytes::new().pack())
        .build();
    let tx = context.complete_tx(tx);
    (context, tx)
}

/// Verifies in both ways; asserts equal results.
#[track_caller]
fn verify(context: &Context, tx: &TransactionView, max_cycles: u64) -> Result<u64, String> {
    let engine = Engine::compiling_on_use();
    let expected = context.verify_tx(tx, max_cycles).map_err(|error| error.to_string());
    for engine in [&engine, &engine, &Engine::new()] {
        let found = context.verify_tx_with(engine, tx, max_cycles).map_err(|error| error.to_string());
        assert_eq!(found, expected);
    }
    expected
}

#[test]
fn verdicts_are_those_of_the_context() {
    let versions = [ScriptHashType::Data, ScriptHashType::Data1, ScriptHashType::Data2, ScriptHashType::Type];
    for version in versions {
        let (context, tx) = guarded(ALWAYS_SUCCESS.clone(), version, &[]);
        let cycles = verify(&context, &tx, 1_000_000).unwrap();
        let error = verify(&context, &tx, cycles - 1).unwrap_err();
        assert!(error.contains("ExceededMaximumCycles"), "{error}");
    }
}

#[test]
fn failures_are_those_of_the_context() {
    let text = ".global _start\n_start:\n li a0, 7\n li a7, 93\n ecall\n";
    let (context, tx) = guarded(antares_guests::assemble(text).unwrap().into(), ScriptHashType::Data2, b"x");
    let error = verify(&context, &tx, 1_000_000).unwrap_err();
    assert!(error.contains("error code 7"), "{error}");
    let (context, tx) = guarded(Bytes::from_static(b"no ELF"), ScriptHashType::Data2, &[]);
    verify(&context, &tx, 1_000_000).unwrap_err();
    let (context, tx) = guarded(antares_guests::hidden().unwrap().into(), ScriptHashType::Data2, &[]);
    drop(verify(&context, &tx, 1_000_000));
}

#[test]
fn debug_output_can_be_had() {
    let text = ".global _start\n_start:\n la a0, line\n li a7, 2177\n ecall\n li a0, 0\n li a7, 93\n ecall\n\
                .data\nline: .asciz \"hello\"\n";
    let (context, tx) = guarded(antares_guests::assemble(text).unwrap().into(), ScriptHashType::Data2, &[]);
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = lines.clone();
    let debug = move |_: &_, line: &str| sink.lock().unwrap().push(line.to_owned());
    context.verify_tx_with_debug(&Engine::compiling_on_use(), &tx, 1_000_000, debug).unwrap();
    assert_eq!(*lines.lock().unwrap(), ["hello"]);
}

#[test]
fn cells_may_occur_twice_and_missing_ones_are_an_error() {
    let (mut context, tx) = guarded(ALWAYS_SUCCESS.clone(), ScriptHashType::Data1, &[]);
    let (input, dep) = (tx.inputs().get_unchecked(0), tx.cell_deps().get_unchecked(0));
    verify(&context, &tx.as_advanced_builder().input(input).cell_dep(dep).build(), 1_000_000).unwrap();
    context.cells.clear();
    assert!(context.verify_tx_with(&Engine::new(), &tx, 1_000_000).is_err());
}
