//! Diagnoses of failed scripts: each error of the VM, failures of system calls, children, loaded code,
//! stripped scripts, examples of published crates. A traced run must equal an untraced one.

use std::{fmt::Write as _, fs, process::Command};

use antares_diagnosis::{Diagnosis, ErrorCodes, Inputs, diagnose};
use antares_profile::evidence::{Evidence, limits::FOLLOWED_CYCLES};
use antares_profile_view::Programs;
use antares_tests::{
    crates,
    guests::{RustLevel, debugger_examples, failing, golden, rust_guest},
    transactions::locked_by,
};
use antares_transaction::{Environment, Mock, programs};
use antares_verifier::{VerifyOutcome, limits::SWITCH_CYCLES};
use antares_vm::{Limits, Machine, ProfileSession, RunScript, Watching};
use bytes::Bytes;
use ckb_types::core::ScriptHashType;

use crate::{
    check::script,
    profiles::{Profiled, verify_alike},
};

/// Scripts that fail alone, and the names that their diagnosis must contain.
const ALONE: [(&str, &[&str]); 15] = [
    ("RETURNED", &["exit code 7", "check_amount (/guests/failing/failing.c:41", "branch bltu", "check_all"]),
    ("NEGATED", &["exit code -21", "in fail (/guests/failing/failing.c:"]),
    ("ASSERTED", &["exit code -1", "in check (/guests/failing/failing.c:", "amounts[at] == 3"]),
    ("EXITED", &["exit code 33", "in verify (/guests/failing/failing.c:"]),
    (
        "STORE_INTO_CODE",
        &["MemWriteOnExecutablePage", "the script's code", "in put (", "section .text", "script ("],
    ),
    ("STORE_OUTSIDE", &["MemOutOfBound", "a store of 8 bytes", "outside of the VM's 4 MiB", "in put ("]),
    ("LOAD_OUTSIDE", &["MemOutOfBound", "a load of 8 bytes", "in get ("]),
    ("NULL_OFFSET", &["MemOutOfBound", "just below address 0", "in get ("]),
    ("STACK_OVERFLOW", &["stack overflow", "in down (", "times"]),
    ("JUMP_INTO_DATA", &["a jump from", "the script's data", "in handle ("]),
    ("JUMP_TO_ZERO", &["a jump from", "to 0x0", "in handle ("]),
    ("NO_INSTRUCTION", &["InvalidInstruction", "in strange ("]),
    ("ENDLESS", &["the cycle limit was passed", "in spin ("]),
    ("NO_SUCH_CALL", &["system call 9000", "in ask ("]),
    ("OVERRUN", &["in copy ("]),
];

/// Scripts that fail in a transaction. Its second cell dep is `xyz`, or a function that returns 8.
const IN_TRANSACTION: [(&str, &[&str]); 16] = [
    (
        "NO_WITNESS",
        &["exit code -5", "in load (", "load_witness(index 3, source Input", "= 1 INDEX_OUT_OF_BOUND"],
    ),
    ("NO_TYPE", &["exit code 2", "in load (", "field TypeHash", "= 2 ITEM_MISSING"]),
    ("SHORT_DATA", &["exit code 12", "in parse (", "load_cell_data(index 1, source CellDep", "length 3"]),
    ("WRONG_DATA", &["exit code 13", "in parse (", "load_cell_data(index 1", "0x78797a"]),
    ("NO_HEADER", &["in load (", "load_header_by_field(", "field EpochNumber"]),
    ("CHILD_FAILS", &["exit code 50", "in parent (", "wait(", "exited with 6", "in child ("]),
    ("CHILD_TRAPS", &["MemOutOfBound", "in child (", "[spawn #1]", "parent ("]),
    ("NO_CHILD", &["exit code -7", "in parent (", "wait(pid 77)", "WAIT_FAILURE"]),
    ("CLOSED_PIPE", &["exit code 61", "in send (", "write(", "INVALID_FD"]),
    ("EXEC_MISSING", &["in replace (", "exec(index 9, source CellDep"]),
    ("EXEC_FAILS", &["exit code 44", "in second (", "[exec #1]"]),
    ("LOADED_CODE", &["exit code 8", "load_cell_data_as_code(index 1"]),
    ("LOADED_INTO", &["MemWriteOn", "code that the script has loaded", "in put ("]),
    ("LOADED_ASKEW", &["in load (", "load_cell_data_as_code(index 1"]),
    ("RETURNED", &["exit code 7", "in check_amount ("]),
    ("STACK_OVERFLOW", &["stack overflow", "in down ("]),
];

fn watching(follow_from: u64) -> Watching {
    Watching { follow_from, switch_cycles: SWITCH_CYCLES, system_calls_max: 64, steps_max: 32 }
}

const CYCLES_MAX: u64 = 100_000;

/// Runs a script alone, traced from cycle `follow_from` on, and checks that the run equals an untraced one.
#[track_caller]
pub(crate) fn watch(
    name: &str,
    elf: &Bytes,
    args: &[Bytes],
    vm_version: u32,
    follow_from: Option<u64>,
) -> Evidence {
    let limits = Limits { cycles_max: CYCLES_MAX, debug_bytes_max: 1 << 20 };
    let script = RunScript { elf, args, vm_version, isa: script(vm_version).isa.0 };
    let mut machine = Machine::new().unwrap();
    let (expected, recorded) = machine.profile(&script, &limits).unwrap();
    let from = follow_from.unwrap_or(expected.cycles / 2);
    let (report, recording, evidence) = machine.watch(&script, &limits, watching(from)).unwrap();
    assert_eq!((&report.outcome, report.cycles), (&expected.outcome, expected.cycles), "{name} {vm_version}");
    assert_eq!(report.debug, expected.debug, "{name} {vm_version}");
    assert_eq!(recording.cycles(), recorded.cycles(), "{name} {vm_version}");
    evidence
}

/// The diagnosis of a failing script that runs alone, traced from cycle `follow_from` on.
#[track_caller]
fn alone_from(case: &str, follow_from: Option<u64>, codes: &ErrorCodes) -> Diagnosis {
    let elf = Bytes::from(failing(case, false).unwrap());
    alone(&watch(case, &elf, &[], 2, follow_from), &elf, codes)
}

/// A diagnosis without the rest of the transaction.
pub(crate) fn alone(evidence: &Evidence, elf: &Bytes, codes: &ErrorCodes) -> Diagnosis {
    let mut programs = Programs::default();
    programs.add(elf);
    let inputs = Inputs {
        evidence,
        programs: &programs,
        cells: &|_, _| None,
        source: &|_| None,
        codes,
        error: None,
        code_hash: None,
    };
    diagnose(&inputs).unwrap()
}

#[track_caller]
fn check(case: &str, diagnosis: &Diagnosis, expected: &[&str]) {
    let text = diagnosis.to_text();
    for part in expected {
        assert!(text.contains(part), "{case} lacks {part:?}:\n{text}");
    }
}

/// Verifies a transaction with tracing and checks that outcome and cycles equal those without. Returns the
/// diagnosis if it failed.
#[track_caller]
fn why(name: &str, mock: &Mock, environment: &Environment, follow_from: u64) -> Option<Diagnosis> {
    let watched =
        Profiled { session: ProfileSession::watching(watching(follow_from)), ..Profiled::default() };
    let ours = verify_alike(name, mock, environment, 100_000_000, &watched);
    let evidence = watched.groups.take().into_iter().flat_map(|group| group.evidence).last()?;
    // Evidence must survive encoding.
    let evidence = Evidence::decode(&evidence.encode().unwrap()).unwrap();
    let mut elfs = Programs::default();
    programs(mock, environment).iter().for_each(|program| elfs.add(&program.elf));
    let codes = ErrorCodes::default();
    let inputs = Inputs {
        evidence: &evidence,
        programs: &elfs,
        cells: &|source, index| mock.cell_data(source, index).map(Into::into),
        source: &|_| None,
        codes: &codes,
        error: ours.error().and_then(|error| error.vm_error.as_deref()),
        code_hash: None,
    };
    let diagnosis = diagnose(&inputs);
    if ours.outcome == VerifyOutcome::Ok { None } else { diagnosis }
}

/// A function that returns 8: `addi a0, zero, 8`, `ret`, and padding to eight bytes.
const EIGHT: [u8; 8] = [0x13, 0x05, 0x80, 0x00, 0x82, 0x80, 0x01, 0x00];

fn transaction(case: &str, is_stripped: bool) -> Mock {
    let second: &[u8] = if case.starts_with("LOADED") { &EIGHT } else { b"xyz" };
    let deps = [Bytes::from(failing(case, is_stripped).unwrap()), Bytes::copy_from_slice(second)];
    locked_by(&deps, ScriptHashType::Data2).unwrap()
}

#[test]
fn failures_have_a_function_a_line_and_a_reason() {
    let mut golden = String::new();
    for (case, expected) in ALONE {
        let diagnosis = alone_from(case, Some(0), &ErrorCodes::default());
        check(case, &diagnosis, expected);
        let _ = writeln!(golden, "# {case}\n{}", diagnosis.to_short_text());
    }
    for (case, expected) in IN_TRANSACTION {
        let diagnosis = why(case, &transaction(case, false), &Environment::default(), 0).expect(case);
        check(case, &diagnosis, expected);
        let _ = writeln!(golden, "# {case}, in a transaction\n{}", diagnosis.to_short_text());
    }
    compare("failing.txt", &golden);
}

#[test]
fn stripped_scripts_have_addresses_and_the_same_reason() {
    let mut golden = String::new();
    for (case, _) in IN_TRANSACTION {
        let (named, stripped) = (transaction(case, false), transaction(case, true));
        let [named, stripped] =
            [named, stripped].map(|mock| why(case, &mock, &Environment::default(), 0).expect(case));
        assert!(named.has_lines && !stripped.has_names);
        assert_eq!(named.place[0].address, stripped.place[0].address, "{case}");
        assert_eq!(named.system_call, stripped.system_call, "{case}");
        assert_eq!(
            (&named.ending.kind, &named.ending.error),
            (&stripped.ending.kind, &stripped.ending.error)
        );
        let _ = writeln!(golden, "# {case}, stripped\n{}", stripped.to_short_text());
    }
    compare("stripped.txt", &golden);
}

/// Compares with a file.
#[track_caller]
fn compare(name: &str, found: &str) {
    golden(format!("{}/conformance/diagnoses/{name}", env!("CARGO_MANIFEST_DIR")), found);
}

#[test]
fn what_is_followed_late_ends_the_same() {
    for (case, _) in ALONE {
        let [whole, late, never] =
            [Some(0), None, Some(u64::MAX)].map(|from| alone_from(case, from, &ErrorCodes::default()));
        assert_eq!((&whole.ending, &whole.stack), (&late.ending, &late.stack), "{case}");
        assert!(whole.is_followed && !never.is_followed, "{case}");
        assert_eq!(whole.ending.error, never.ending.error, "{case}");
    }
}

#[test]
fn failing_examples_of_published_crates_are_diagnosed() {
    let folder = debugger_examples().unwrap();
    let mut failed = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let Ok(json) = antares_transaction::template::expand(&text, path.parent().unwrap()) else { continue };
        let Ok(mock) = Mock::from_json(json.as_bytes()) else { continue };
        for version in 0..3 {
            let name = format!("{} version {version}", path.display());
            let environment = Environment::of_version(version);
            if let Some(diagnosis) = why(&name, &mock, &environment, 0) {
                println!("{name}\n{}", diagnosis.to_short_text());
                assert!(!diagnosis.place.is_empty(), "{name}");
                failed += 1;
            }
            why(&name, &mock, &environment, FOLLOWED_CYCLES);
        }
    }
    println!("{failed} failures");
    assert!(failed > 0);
}

#[test]
fn codes_are_named_by_the_script_s_own_table() {
    let ending = |codes: &ErrorCodes| alone_from("RETURNED", Some(0), codes).ending;
    assert_eq!(ending(&ErrorCodes::default()).meaning, None);
    let ending = ending(&ErrorCodes::parse("7 = AmountTooLarge\n").unwrap());
    assert_eq!(ending.meaning.as_deref(), Some("AmountTooLarge"));
    assert_eq!(ending.meaning_from.as_deref(), Some("script"));
}

#[test]
fn a_script_brings_its_table_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("script"), failing("RETURNED", false).unwrap()).unwrap();
    fs::write(path("codes"), "7 = TooLarge\n").unwrap();
    let mut objcopy = Command::new("riscv64-unknown-elf-objcopy");
    let section = format!(".ckb.error-codes={}", path("codes").display());
    objcopy.args(["--add-section", &section]).args([path("script"), path("with")]);
    crates::run(&mut objcopy).unwrap();
    let elf = Bytes::from(fs::read(path("with")).unwrap());
    let evidence = watch("RETURNED", &elf, &[], 2, Some(0));
    let summary = alone(&evidence, &elf, &ErrorCodes::default()).summary;
    assert!(summary.starts_with("exit code 7 (TooLarge), decided in check_amount"), "{summary}");
}

#[test]
fn panics_of_rust_are_reported_by_what_has_called_them() {
    for level in RustLevel::ALL {
        let elf = Bytes::from(rust_guest("handlers", level).unwrap());
        // Functions that a smaller build inlines into each other may have any of these names.
        let kinds: [(&str, &[&str]); 4] = [
            ("bounds", &["handlers::load", "handlers::store", "handlers::main", "main", "handlers::run"]),
            ("overflow", &["handlers::subtract", "handlers::main", "main", "handlers::run"]),
            ("expect", &["pop", "handlers::", "main"]),
            ("divide", &["handlers::divide", "handlers::main", "main"]),
        ];
        for (kind, names) in kinds {
            let args = [Bytes::copy_from_slice(kind.as_bytes()), Bytes::from_static(b"2")];
            let evidence = watch(kind, &elf, &args, 2, Some(0));
            let diagnosis = alone(&evidence, &elf, &ErrorCodes::default());
            println!("{kind} {}\n{}", level.name(), diagnosis.to_short_text());
            let place = &diagnosis.place[0].function;
            assert!(names.iter().any(|name| place.contains(name)), "{kind} in {place}");
            assert!(!place.contains("panic"), "{kind} in {place}");
            let is_panic = diagnosis.stack.iter().any(|frame| frame.function.contains("panic"));
            assert!(is_panic, "{kind}: {}", diagnosis.to_text());
            assert_eq!(diagnosis.ending.exit_code, Some(-1), "{kind}");
            let said = diagnosis.system_calls.iter().rev().find(|call| call.number == 2177).unwrap();
            assert!(said.arguments.iter().any(|(name, text)| *name == "text" && text.contains("panic")));
        }
    }
}
