//! Regression tests for verdicts in which native code once differed from ckb-script: one script for each, in
//! every VM version that runs it.

use antares_tests::{
    elf::{Elf, Segment},
    guests,
    transaction_campaign::{Verdict, oracle},
    transactions::{Native, locked_by},
};
use antares_transaction::{Environment, Mock};
use antares_verifier::{Prepared, StopHandle, TransactionLimits, TransactionReport, Verifier, VerifyOutcome};
use antares_vm::Tier;
use bytes::Bytes;
use ckb_types::core::ScriptHashType;
use ckb_vm::{elf::parse_elf, memory::FLAG_EXECUTABLE};

pub(crate) const LIMITS: TransactionLimits =
    TransactionLimits { cycles_max: 1_000_000_000, debug_bytes_max: 1 << 20 };

/// Code to load at run time: 8 KiB, never executed.
fn blob() -> Bytes {
    (0..8192_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// How a transaction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Interpreter,
    /// Natively, copying suspended VMs.
    Copying,
    Native,
}

fn ours(mock: &Mock, environment: &Environment, way: Way, limits: TransactionLimits) -> TransactionReport {
    let prepared = Prepared::new(mock, environment).unwrap();
    let tier = if way == Way::Interpreter { Tier::Interpreter } else { Tier::Native };
    let mut engine = Native::new(mock, &prepared, environment, tier).unwrap();
    if way == Way::Copying {
        engine = engine.copying();
    }
    Verifier::new(prepared, limits, engine, StopHandle::default()).verify(None).unwrap()
}

/// Runs `code` as a lock, with `others` as further deps, and compares all tiers with ckb-script. Returns the
/// error's text, and statistics of the native run.
#[track_caller]
pub(crate) fn check(
    code: &[u8],
    others: &[Bytes],
    hash_type: ScriptHashType,
) -> (Option<String>, TransactionReport) {
    check_within(code, others, hash_type, LIMITS.cycles_max)
}

/// Compares a report with ckb-script's verdict and output. Returns the error's text.
#[track_caller]
pub(crate) fn agrees(report: &TransactionReport, expected: &Verdict, of: &str) -> Option<String> {
    assert_eq!(Vec::from(report.groups[0].debug.clone()), expected.debug, "{of}");
    match &expected.result {
        Ok(cycles) => {
            assert_eq!((report.outcome, report.cycles), (VerifyOutcome::Ok, *cycles), "{of}");
            None
        }
        Err(text) => {
            let ours = report.error().unwrap_or_else(|| panic!("{of} accepts: {text}")).to_string();
            assert!(text.contains(&ours), "{of}: {ours}\n{text}");
            Some(ours)
        }
    }
}

/// As [`check`], with a cycle limit.
#[track_caller]
pub(crate) fn check_within(
    code: &[u8],
    others: &[Bytes],
    hash_type: ScriptHashType,
    cycles_max: u64,
) -> (Option<String>, TransactionReport) {
    let limits = TransactionLimits { cycles_max, ..LIMITS };
    let deps = [&[Bytes::copy_from_slice(code)], others].concat();
    let mock = locked_by(&deps, hash_type).unwrap();
    let environment = Environment::default();
    let expected = oracle(&mock, &environment, cycles_max).unwrap();
    let mut error = None;
    let mut native = None;
    for way in [Way::Interpreter, Way::Copying, Way::Native] {
        let report = ours(&mock, &environment, way, limits);
        let ours = agrees(&report, &expected, &format!("{way:?}"));
        error = ours.or(error);
        native = Some(report);
    }
    (error, native.unwrap())
}

#[track_caller]
pub(crate) fn is(error: Option<String>, name: &str) {
    assert!(error.as_ref().is_some_and(|error| error.contains(name)), "{error:?} instead of {name}");
}

#[test]
fn a_failed_exec_leaves_loaded_code_protected() {
    for hash_type in [ScriptHashType::Data1, ScriptHashType::Data2] {
        for how in 0..4 {
            let script = guests::script("EXEC_FAILS", &[&format!("HOW={how}")]).unwrap();
            let (error, _) = check(&script, &[blob()], hash_type);
            // Version 1 returns an error code for an invalid index and slice, version 2 for an invalid
            // source; anything else ends the script.
            if (hash_type == ScriptHashType::Data1) == (how != 2) {
                is(error, "MemWriteOnExecutablePage");
            }
        }
    }
}

#[test]
fn pages_that_were_zeroed_come_back_as_zeros() {
    let (error, report) = check(&guests::script("ZEROED", &[]).unwrap(), &[blob()], ScriptHashType::Data2);
    assert_eq!((error, &report.groups[0].restarted), (None, &None));
    assert!(report.groups[0].native_cycles > 0);
}

/// The segments of `elf` plus an additional one.
fn with_segment(elf: &[u8], address: u64, bytes: &[u8]) -> Vec<u8> {
    let elf = Bytes::copy_from_slice(elf);
    let metadata = parse_elf::<u64>(&elf, 2).unwrap();
    let segment = |address: u64, flags: u32, bytes: &[u8]| Segment {
        address,
        flags,
        bytes: bytes.to_vec(),
        memory_bytes: bytes.len() as u64,
    };
    let own = metadata.actions.iter().map(|action| {
        let bytes = &elf[action.source.start as usize..action.source.end as usize];
        let flags = if action.flags & FLAG_EXECUTABLE != 0 { 5 } else { 6 };
        let own = segment(action.addr + action.offset_from_addr, flags, bytes);
        Segment { memory_bytes: action.size - action.offset_from_addr, ..own }
    });
    let segments = own.chain([segment(address, 6, bytes)]).collect();
    Elf { entry: metadata.entry, segments, symbols: None }.to_bytes()
}

#[test]
fn what_lies_over_a_segment_is_lost_when_its_vm_is_put_aside() {
    let script = guests::script("OVER_A_SEGMENT", &[]).unwrap();
    let mut page: Vec<u8> = (0..4096_u32).map(|index| (index % 251) as u8).collect();
    // Where a script without arguments reads their number.
    page[0xf00..].fill(0);
    let below = with_segment(&script, 0x40000, &page);
    // A page shared by two segments, and a segment at the arguments.
    let overlapping = with_segment(&below, 0x40800, &page[..0x800]);
    let under_arguments = with_segment(&below, 0x3f_f000, &page);
    for elf in [below, overlapping, under_arguments] {
        assert_eq!(check(&elf, &[], ScriptHashType::Data2).0, None);
    }
}

#[test]
fn traces_longer_than_a_byte_can_say_are_not_native() {
    // Bytes of the trace: the fusions, the plain instructions, and the final jump.
    for (fusions, plain, bytes) in
        [(12, 2, 252), (12, 3, 256), (13, 0, 264), (13, 2, 272), (15, 0, 304), (16, 0, 320), (40, 3, 812)]
    {
        for hash_type in [ScriptHashType::Data1, ScriptHashType::Data2] {
            let macros = [format!("FUSIONS=\"{fusions}\""), format!("PLAIN=\"{plain}\"")];
            let script = guests::script("TRACE", &[&macros[0], &macros[1]]).unwrap();
            let (error, report) = check(&script, &[], hash_type);
            let is_long = bytes > 255;
            assert_eq!(report.groups[0].restarted.is_some(), is_long, "{bytes} bytes: {error:?}");
            if bytes == 256 {
                is(error, "TraceLengthError");
            }
        }
    }
}

#[test]
fn many_loads_of_code_are_not_native() {
    for hash_type in [ScriptHashType::Data1, ScriptHashType::Data2] {
        let (error, _) = check(&guests::script("LOADS", &[]).unwrap(), &[blob()], hash_type);
        is(error, "MemWriteOnExecutablePage");
    }
}

#[test]
fn processes_take_turns() {
    for (case, hash_type) in [
        ("SPAWNS", ScriptHashType::Data2),
        ("EXECS", ScriptHashType::Data1),
        ("EXECS", ScriptHashType::Data2),
        ("TURNS", ScriptHashType::Data2),
        ("KEEPS", ScriptHashType::Data2),
    ] {
        let (error, report) = check(&guests::script(case, &[]).unwrap(), &[blob()], hash_type);
        assert_eq!((error, &report.groups[0].restarted), (None, &None), "{case}");
    }
}
