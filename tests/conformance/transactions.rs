//! Whole transactions against ckb-script with `AsmMachine`: results, errors and cycles.

use std::{collections::HashSet, fs, sync::Arc};

use antares_tests::guests::debugger_examples;
use antares_transaction::{Environment, Mock};
use antares_verifier::{
    Cancel, CellName, GroupKind, GroupReport, Interpreter, Limits, Outcome, Prepared, Report, Selection,
    Verifier,
};
use ckb_chain_spec::consensus::ConsensusBuilder;
use ckb_mock_tx_types::{MockTransaction, ReprMockTransaction, Resource};
use ckb_script::{TransactionScriptsVerifier, TxVerifyEnv, types::DebugPrinter};
use ckb_types::core::{EpochNumberWithFraction, HeaderView, cell::resolve_transaction};

const LIMITS: Limits = Limits { cycles_max: 3_500_000_000, debug_bytes_max: 1 << 20 };

fn example(name: &str) -> Vec<u8> {
    fs::read(debugger_examples().unwrap().join(name)).unwrap()
}

fn verify(mock: &Mock, environment: &Environment, limits: Limits, selection: Selection) -> Report {
    let prepared = Prepared::new(mock, environment).unwrap();
    Verifier::new(prepared, limits, Interpreter, Cancel::new()).verify(selection).unwrap()
}

/// What ckb-script itself says, in its own words.
fn oracle(mock: &MockTransaction, environment: &Environment, cycles_max: u64) -> Result<u64, String> {
    let resource = Resource::from_mock_tx(mock).unwrap();
    let resolved =
        resolve_transaction(mock.core_transaction(), &mut HashSet::new(), &resource, &resource).unwrap();
    let consensus = ConsensusBuilder::default().hardfork_switch(environment.hard_forks()).build();
    let epoch = EpochNumberWithFraction::new(environment.epoch, 0, 1);
    let header = HeaderView::new_advanced_builder().epoch(epoch).build();
    let quiet: DebugPrinter = Arc::new(|_, _| {});
    let verifier: TransactionScriptsVerifier<Resource> = TransactionScriptsVerifier::new_with_debug_printer(
        Arc::new(resolved),
        resource,
        Arc::new(consensus),
        Arc::new(TxVerifyEnv::new_commit(&header)),
        quiet,
    );
    verifier.verify(cycles_max).map_err(|error| error.to_string())
}

/// Verifies with both and compares.
#[track_caller]
fn check(mock: &Mock, environment: &Environment, cycles_max: u64) -> Report {
    let limits = Limits { cycles_max, ..LIMITS };
    let report = verify(mock, environment, limits, Selection::All);
    match oracle(mock.as_ckb(), environment, cycles_max) {
        Ok(cycles) => assert_eq!((report.outcome, report.cycles), (Outcome::Ok, cycles)),
        Err(error) => {
            assert_eq!(report.outcome, Outcome::Failed);
            let ours = report.error().unwrap().to_string();
            // ckb-script's error names its kind before itself.
            assert!(error.contains(&ours), "{ours}\n{error}");
        }
    }
    report
}

/// `lock` or `type` of `cell` alone, as `(cycles, exit code)`.
fn one(mock: &Mock, kind: GroupKind, cell: CellName) -> (u64, Option<i8>) {
    let selection = Selection::Group { kind, cell };
    let report = verify(mock, &Environment::default(), LIMITS, selection);
    let ran: Vec<&GroupReport> =
        report.groups.iter().filter(|group| group.outcome != Outcome::NotRun).collect();
    assert_eq!(ran.len(), 1);
    (ran[0].cycles, ran[0].exit_code)
}

#[test]
fn example_transactions_have_their_cycles() {
    for (name, cycles) in [
        ("mock_tx.json", 1_686_515),
        ("dynamic.json", 2_808_365),
        ("spawn_cycle_mismatch_tx.json", 49_186_319),
    ] {
        let mock = Mock::from_json(&example(name)).unwrap();
        let report = check(&mock, &Environment::default(), LIMITS.cycles_max);
        assert_eq!((report.outcome, report.cycles), (Outcome::Ok, cycles), "{name}");
        // The limit is exact, and what is one short fails as in ckb-script.
        check(&mock, &Environment::default(), cycles);
        let short = check(&mock, &Environment::default(), cycles - 1);
        assert_eq!(short.error().unwrap().name, "ExceededMaximumCycles", "{name}");
    }
}

#[test]
fn single_groups_have_their_cycles() {
    let first = CellName::Input(0);
    let mock = Mock::from_json(&example("mock_tx.json")).unwrap();
    assert_eq!(one(&mock, GroupKind::Lock, first), (1_641_938, Some(0)));
    let spawn = Mock::from_json(&example("spawn_cycle_mismatch_tx.json")).unwrap();
    assert_eq!(one(&spawn, GroupKind::Lock, first), (1_652_400, Some(0)));
}

#[test]
fn old_rules_are_those_of_ckb_script() {
    let mock = Mock::from_json(&example("mock_tx.json")).unwrap();
    for epoch in [0, 5413, 5414, 12292, 12293, 20000] {
        check(&mock, &Environment::mainnet(epoch), LIMITS.cycles_max);
    }
    for version in 0..3 {
        check(&mock, &Environment::of_version(version), LIMITS.cycles_max);
    }
}
