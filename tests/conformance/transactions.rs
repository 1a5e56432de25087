//! Whole transactions compared with ckb-script and `AsmMachine`: results, errors and cycles.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use antares_pool::job::Omitted;
use antares_tests::{
    guests::{self, debugger_examples},
    transaction_campaign::oracle,
    transactions::Native,
};
use antares_transaction::{
    CellData, CellFields, DepFields, Environment, Fields, Mock, SharedData, data_hash, template,
};
use antares_verifier::{
    CellName, GroupKind, GroupReport, Interpreter, Prepared, StopHandle, TransactionLimits,
    TransactionReport, Verifier, VerifyError, VerifyOutcome,
};
use antares_vm::Tier;
use ckb_types::prelude::*;

const LIMITS: TransactionLimits = TransactionLimits { cycles_max: 3_500_000_000, debug_bytes_max: 1 << 20 };

fn example(name: &str) -> Mock {
    Mock::from_json(&fs::read(debugger_examples().unwrap().join(name)).unwrap()).unwrap()
}

fn verify(
    mock: &Mock,
    environment: &Environment,
    limits: TransactionLimits,
    selection: Option<(GroupKind, CellName)>,
) -> TransactionReport {
    let prepared = Prepared::new(mock, environment).unwrap();
    Verifier::new(prepared, limits, Interpreter, StopHandle::default()).verify(selection).unwrap()
}

/// Verifies natively, and in the interpreter through the same engine.
fn verify_natively(
    mock: &Mock,
    environment: &Environment,
    limits: TransactionLimits,
    tier: Tier,
) -> TransactionReport {
    let prepared = Prepared::new(mock, environment).unwrap();
    let engine = Native::new(mock, &prepared, environment, tier).unwrap();
    Verifier::new(prepared, limits, engine, StopHandle::default()).verify(None).unwrap()
}

/// A report without the parts that depend on the tier.
fn verdict(mut report: TransactionReport) -> TransactionReport {
    for group in &mut report.groups {
        (group.native_cycles, group.interpreted_cycles, group.restarted) = (0, 0, None);
    }
    report
}

/// Verifies with both and compares.
#[track_caller]
fn check(mock: &Mock, environment: &Environment, cycles_max: u64) -> TransactionReport {
    let limits = TransactionLimits { cycles_max, ..LIMITS };
    let report = verify(mock, environment, limits, None);
    match oracle(mock, environment, cycles_max).unwrap().result {
        Ok(cycles) => assert_eq!((report.outcome, report.cycles), (VerifyOutcome::Ok, cycles)),
        Err(error) => {
            assert_eq!(report.outcome, VerifyOutcome::Failed);
            let ours = report.error().unwrap().to_string();
            // ckb-script's error has its kind as prefix.
            assert!(error.contains(&ours), "{ours}\n{error}");
        }
    }
    for tier in [Tier::Auto, Tier::Native, Tier::Interpreter] {
        let ours = verify_natively(mock, environment, limits, tier);
        assert_eq!(verdict(ours), verdict(report.clone()), "{tier:?}");
    }
    report
}

/// Runs only `lock` or `type` of `cell`; returns `(cycles, exit code)`.
fn one(mock: &Mock, kind: GroupKind, cell: CellName) -> (u64, Option<i8>) {
    let selection = Some((kind, cell));
    let report = verify(mock, &Environment::default(), LIMITS, selection);
    let mut ran = report.groups.iter().filter(|group| group.outcome != VerifyOutcome::NotRun);
    let [Some(only), None] = [ran.next(), ran.next()] else { panic!("{:?}", report.groups) };
    (only.cycles, only.exit_code)
}

#[test]
fn example_transactions_have_their_cycles() {
    for (name, cycles) in [
        ("mock_tx.json", 1_686_515),
        ("dynamic.json", 2_808_365),
        ("spawn_cycle_mismatch_tx.json", 49_186_319),
    ] {
        let mock = example(name);
        let report = check(&mock, &Environment::default(), LIMITS.cycles_max);
        assert_eq!((report.outcome, report.cycles), (VerifyOutcome::Ok, cycles), "{name}");
        // The limit is exact: one cycle less fails as in ckb-script.
        check(&mock, &Environment::default(), cycles);
        let short = check(&mock, &Environment::default(), cycles - 1);
        assert_eq!(short.error().unwrap().kind, "ExceededMaximumCycles", "{name}");
    }
}

#[test]
fn native_code_carries_the_work() {
    for name in ["mock_tx.json", "dynamic.json", "spawn_cycle_mismatch_tx.json"] {
        let mock = example(name);
        let report = verify_natively(&mock, &Environment::default(), LIMITS, Tier::Auto);
        for group in report.groups {
            let GroupReport { native_cycles, interpreted_cycles, restarted, .. } = group;
            println!(
                "{name} {:?}: {native_cycles} cycles native, {interpreted_cycles} interpreted",
                group.kind
            );
            assert_eq!(restarted, None, "{name}");
            // A suspended VM resumes in the interpreter until it calls a function. It may be suspended again
            // before that, as half of this transaction's VMs are.
            let is_spawning = name == "spawn_cycle_mismatch_tx.json";
            let least = if is_spawning { interpreted_cycles } else { 200 * interpreted_cycles };
            assert!(native_cycles > least, "{name}");
        }
    }
}

#[test]
fn single_groups_have_their_cycles() {
    let first = CellName::Input(0);
    let mock = example("mock_tx.json");
    assert_eq!(one(&mock, GroupKind::Lock, first), (1_641_938, Some(0)));
    let spawn = example("spawn_cycle_mismatch_tx.json");
    assert_eq!(one(&spawn, GroupKind::Lock, first), (1_652_400, Some(0)));
}

#[test]
fn old_rules_are_those_of_ckb_script() {
    let mock = example("mock_tx.json");
    for epoch in [0, 5413, 5414, 12292, 12293, 20000] {
        check(&mock, &Environment::mainnet(epoch), LIMITS.cycles_max);
    }
    for version in 0..3 {
        check(&mock, &Environment::of_version(version), LIMITS.cycles_max);
    }
}

#[test]
fn templates_are_filled_in() {
    let folder = debugger_examples().unwrap();
    for (name, cycles) in [("exec.json", 83_564), ("spawn.json", 119_776)] {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let json = template::expand(&text, &folder).unwrap();
        let mock = Mock::from_json(json.as_bytes()).unwrap();
        assert_eq!(one(&mock, GroupKind::Lock, CellName::Input(0)), (cycles, Some(0)), "{name}");
        // The type script of the output has no code: the verification fails, as in ckb-script.
        let report = check(&mock, &Environment::default(), LIMITS.cycles_max);
        assert_eq!(report.error().unwrap().kind, "ScriptNotFound", "{name}");
    }
}

#[test]
fn molecule_is_as_good_as_json() {
    let mock = example("mock_tx.json");
    let info = &mock.as_ckb().mock_info;
    let out_points: Vec<_> = info.cell_deps.iter().map(|dep| dep.cell_dep.out_point()).collect();
    let inputs = info.inputs.iter().map(|input| CellFields {
        output: input.output.as_slice(),
        data: CellData::Inline(&input.data),
        block_hash: input.header.clone().map(Into::into),
    });
    let deps = info.cell_deps.iter().zip(&out_points).map(|(dep, out_point)| DepFields {
        out_point: out_point.as_slice(),
        cell_dep: None,
        cell: CellFields {
            output: dep.output.as_slice(),
            data: CellData::Inline(&dep.data),
            block_hash: dep.header.clone().map(Into::into),
        },
    });
    let fields = Fields {
        tx: mock.as_ckb().tx.as_slice(),
        inputs: inputs.collect(),
        cell_deps: deps.collect(),
        ..Fields::default()
    };
    let same = Mock::from_molecule(&fields, &[]).unwrap();
    let environment = Environment::default();
    assert_eq!(verify(&same, &environment, LIMITS, None), verify(&mock, &environment, LIMITS, None));
    // As sent to a worker: with one shared cell.
    let mut shared = mock.clone();
    let largest = info.cell_deps.iter().map(|dep| &dep.data).max_by_key(|data| data.len()).unwrap();
    let beside = SharedData { data: largest.clone(), data_hash: data_hash(largest) };
    shared.take_shared(|data| (data == &beside.data).then(|| beside.clone()));
    let document = shared.document(&mut |hash| (*hash == beside.data_hash).then_some(0));
    assert!(document.len() + largest.len() < mock.document(&mut |_| None).len() + 100);
    let same = Mock::from_document(&document, std::slice::from_ref(&beside)).unwrap();
    assert_eq!(verify(&same, &environment, LIMITS, None), verify(&mock, &environment, LIMITS, None));
    for length in 0..fields.tx.len() {
        let cut = Fields { tx: &fields.tx[..length], ..fields.clone() };
        let error = Mock::from_molecule(&cut, &[]).err().unwrap();
        assert_eq!(error.path(), Some("tx"));
    }
}

/// `mock_tx.json` with other code in the cell of its lock script, which it references by type.
fn with_lock(code: &[u8]) -> Mock {
    let mut mock = example("mock_tx.json").as_ckb().clone();
    let mut deps = mock.mock_info.cell_deps.iter_mut();
    deps.find(|dep| dep.output.type_().is_some()).unwrap().data = code.to_vec().into();
    Mock::from_json(&antares_chain::json(mock)).unwrap()
}

/// The original lock script.
fn sighash_all() -> Vec<u8> {
    let mock = example("mock_tx.json");
    let mut deps = mock.as_ckb().mock_info.cell_deps.iter();
    deps.find(|dep| dep.output.type_().is_some()).unwrap().data.to_vec()
}

#[test]
fn bad_scripts_end_as_in_ckb_script() {
    let good = sighash_all();
    let patched = |at: usize, bytes: &[u8]| {
        let mut code = good.clone();
        code[at..at + bytes.len()].copy_from_slice(bytes);
        code
    };
    let garbage: Vec<u8> =
        (0..5000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    // Offsets are those of the ELF-64 header; program headers begin at 64.
    let cases = [
        ("garbage", garbage, "ElfParseError"),
        ("empty", Vec::new(), "ElfParseError"),
        ("header cut", good[..40].to_vec(), "ElfParseError"),
        ("body cut", good[..good.len() / 2].to_vec(), "ElfSegmentAddrOrSizeError"),
        ("32 bits", patched(4, &[1]), "ElfBits"),
        ("writable code", patched(68, &[7]), "ElfSegmentWritableAndExecutable"),
        ("unreadable code", patched(68, &[1]), "ElfSegmentUnreadable"),
        ("entry outside", patched(24, &0x0050_0000_u64.to_le_bytes()), "MemOutOfBound"),
        ("entry far outside", patched(24, &u64::MAX.to_le_bytes()), "MemOutOfBound"),
        ("entry in data", patched(24, &0x0030_0000_u64.to_le_bytes()), "MemWriteOnExecutablePage"),
    ];
    for (name, code, expected) in cases {
        let report = check(&with_lock(&code), &Environment::default(), LIMITS.cycles_max);
        let error = report.error().unwrap();
        let found = (&*error.kind, error.vm_error.as_deref());
        assert_eq!(found, ("VMInternalError", Some(expected)), "{name}: {error}");
        assert_eq!(report.groups[1].outcome, VerifyOutcome::NotRun, "{name}");
        for version in 0..2 {
            check(&with_lock(&code), &Environment::of_version(version), LIMITS.cycles_max);
        }
    }
}

#[test]
fn debug_output_is_limited() {
    let mock = example("spawn_cycle_mismatch_tx.json");
    let report = verify(&mock, &Environment::default(), LIMITS, None);
    let lines = report.groups[1].debug.count();
    let bytes = report.groups[1].debug.bytes();
    assert!(lines > 500, "{lines} lines");
    let limited = |debug_bytes_max| {
        verify(&mock, &Environment::default(), TransactionLimits { debug_bytes_max, ..LIMITS }, None)
    };
    assert_eq!(limited(bytes), report);
    let short = limited(bytes - 1);
    assert_eq!((short.outcome, short.cycles), (report.outcome, report.cycles));
    let group = &short.groups[1];
    let last = report.groups[1].debug.iter().last().unwrap();
    assert_eq!(group.debug.count(), lines - 1);
    assert_eq!(group.debug.omitted(), Omitted { lines: 1, bytes: last.len() as u64 + 1 });
}

#[test]
fn a_verification_is_cancelled_from_another_thread() {
    let mock = with_lock(&guests::bytes("attack-loop").unwrap());
    let endless = TransactionLimits { cycles_max: u64::MAX, ..LIMITS };
    let environment = Environment::default();
    for tier in [Tier::Native, Tier::Interpreter] {
        let prepared = Prepared::new(&mock, &environment).unwrap();
        let engine = Native::new(&mock, &prepared, &environment, tier).unwrap();
        let start = |cancel: &StopHandle| {
            let (prepared, engine) = (prepared.clone(), engine.clone());
            Verifier::new(prepared, endless, engine, cancel.clone()).verify(None)
        };
        let cancel = StopHandle::default();
        let (report, late) = thread::scope(|scope| {
            let running = scope.spawn(|| start(&cancel));
            thread::sleep(Duration::from_millis(500));
            let since = Instant::now();
            cancel.cancel();
            (running.join().unwrap(), since.elapsed())
        });
        println!("{tier:?}: cancelled after {late:?}");
        for report in [report, start(&cancel)] {
            assert!(matches!(report, Err(VerifyError::Cancelled)), "{report:?}");
        }
    }
}
