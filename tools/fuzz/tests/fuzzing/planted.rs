//! The planted bugs.

use antares_fuzz::job::{FuzzFinding, FuzzJob, Invariants};
use antares_fuzz::{End, Executor, FuzzInput, Machines};
use antares_transaction::Mock;

use crate::campaign::{Reported, as_lock, document, job, native, run};

fn fails() -> Invariants {
    Invariants { fails: true, ..Invariants::default() }
}

/// How the transaction of `job` ends with the fields in `found`.
fn end(job: &FuzzJob, machines: &Machines, found: &FuzzFinding) -> End {
    let executor = Executor::new(job, &job.document, machines.clone()).unwrap();
    executor.run(&FuzzInput::of(&found.fields, job.fields.len())).unwrap().end
}

fn only(reported: &Reported) -> &FuzzFinding {
    assert_eq!(reported.found.len(), 1, "{reported:?}");
    &reported.found[0]
}

#[test]
fn a_length_that_is_not_checked_is_found() {
    let elf = antares_guests::fuzzed("LENGTH", false).unwrap();
    let mock = as_lock(&elf, b"", b"PAY1\x02\0ab");
    let machines = native(&[&elf]);
    let job = job(&mock, &[&elf], &["witness.0"], fails());
    let reported = run(&job, &machines).unwrap();
    let found = only(&reported);
    assert!(found.kind.contains("Inputs[0].Lock at 0x"), "{found:?}");
    assert!(matches!(end(&job, &machines, found), End::Failed { .. }));
    // The header, and the bytes that overwrite the return address.
    let witness = &found.fields[0];
    assert!(witness.starts_with(b"PAY1") && witness.len() < 200, "{witness:?}");
    // The same seed does the same.
    assert_eq!(run(&job, &machines).unwrap(), reported);
}

#[test]
fn the_same_lock_with_the_check_has_no_finding() {
    let elf = antares_guests::fuzzed("LENGTH", true).unwrap();
    let mock = as_lock(&elf, b"", b"PAY1\x02\0ab");
    let reported = run(&job(&mock, &[&elf], &["witness.0"], fails()), &native(&[&elf])).unwrap();
    assert_eq!((reported.found.as_slice(), reported.done.runs), ([].as_slice(), 20_000));
    // Nearly all of it is native: what fails is none of this lock's.
    assert!(reported.done.interpreted_runs == 0 && reported.done.edges > 15, "{:?}", reported.done);
}

/// A transaction with one input of 5 and two outputs of 2 and 3.
fn amounts(elf: &[u8]) -> Mock {
    let mock = as_lock(elf, b"", b"");
    let text = String::from_utf8(mock.to_json()).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let amount = |number: u8| format!("0x{number:02x}{}", "00".repeat(15));
    let lock = json["mock_info"]["inputs"][0]["output"]["lock"].clone();
    json["mock_info"]["inputs"][0]["data"] = amount(5).into();
    let output = serde_json::json!({ "capacity": "0x0", "lock": lock, "type": null });
    json["tx"]["outputs"] = serde_json::json!([output, output]);
    json["tx"]["outputs_data"] = serde_json::json!([amount(2), amount(3)]);
    Mock::from_json(json.to_string().as_bytes()).unwrap()
}

#[test]
fn a_sum_that_turns_over_is_found_beside_a_lock_that_is_right() {
    let [elf, right] = [false, true].map(|is_right| antares_guests::fuzzed("AMOUNTS", is_right).unwrap());
    let machines = native(&[&elf, &right]);
    let names = ["input.0.data", "output.0.data", "output.1.data"];
    let mut job = job(&amounts(&elf), &[&elf, &right], &names, fails());
    job.other = Some(document(&amounts(&right)));
    let reported = run(&job, &machines).unwrap();
    let found = only(&reported);
    assert_eq!(found.kind, "accepts-what-the-other-refuses");
    let [spent, one, two] = [0, 1, 2].map(|at| {
        let bytes: [u8; 16] = found.fields[at].as_ref().try_into().unwrap();
        u128::from_le_bytes(bytes)
    });
    assert!(one.checked_add(two).is_none() && one.wrapping_add(two) <= spent, "{spent} {one} {two}");
}

/// A witness that the correct lock accepts, too, if `with_amount`.
fn signed(amount: u64, to: [u8; 20], with_amount: bool) -> Vec<u8> {
    let hash = |state: u64, bytes: &[u8]| {
        bytes.iter().fold(state, |state, byte| (state ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
    };
    let mut state = hash(0xcbf2_9ce4_8422_2325, b"a key of nobody");
    if with_amount {
        state = hash(state, &amount.to_le_bytes());
    }
    state = hash(state, &to);
    [&amount.to_le_bytes()[..], &to, &state.to_le_bytes()].concat()
}

#[test]
fn a_field_that_no_signature_covers_is_found() {
    let bound = || Invariants { fails: true, accepts_other: true, ..Invariants::default() };
    let elf = antares_guests::fuzzed("MAC", false).unwrap();
    let witness = signed(1000, [7; 20], false);
    let job_of =
        |elf: &[u8], witness: &[u8]| job(&as_lock(elf, b"", witness), &[elf], &["witness.0"], bound());
    let reported = run(&job_of(&elf, &witness), &native(&[&elf])).unwrap();
    let found = only(&reported);
    assert_eq!(found.kind, "accepts witness.0");
    let differ: Vec<usize> = (0..36).filter(|at| found.fields[0][*at] != witness[*at]).collect();
    assert!(differ.len() == 1 && differ[0] < 8, "{differ:?}");

    let right = antares_guests::fuzzed("MAC", true).unwrap();
    let reported = run(&job_of(&right, &signed(1000, [7; 20], true)), &native(&[&right])).unwrap();
    assert_eq!(reported.found, []);
    // Where nothing is accepted there is nothing to be bound.
    let refused = run(&job_of(&right, &witness), &native(&[&right])).unwrap_err();
    assert!(refused.to_string().contains("not accepted"), "{refused}");
}

#[test]
fn errors_of_one_kind_in_two_places_are_two_findings() {
    let places = |is_right| -> Vec<u8> {
        let elf = antares_guests::fuzzed("TWICE", is_right).unwrap();
        let mut job = job(&as_lock(&elf, b"", b"\x01\0\0\0\0"), &[&elf], &["witness.0"], fails());
        job.findings_max = 10;
        let reported = run(&job, &native(&[&elf])).unwrap();
        assert_eq!(reported.done.runs, 20_000);
        let is_of_memory =
            |found: &&FuzzFinding| found.kind.starts_with("MemOutOfBound Inputs[0].Lock at 0x");
        reported.found.iter().filter(is_of_memory).map(|found| found.fields[0][0]).collect()
    };
    let mut found = places(false);
    found.sort_unstable();
    assert_eq!(found, [1, 2]);
    assert!(places(true).is_empty());
}
