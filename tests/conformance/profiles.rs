//! Profiles of programs and transactions of all kinds: the samples of a run add up to its cycles by ckb-vm's
//! own `AsmMachine`, equal runs have equal profiles, and a traced run equals an untraced one.

use std::{fs, sync::Arc};

use antares_profile::{Frame, Profile, Value};
use antares_tests::{
    differential::outcome,
    guests::{self, debugger_examples, published_scripts},
    oracle::{self, Case},
};
use antares_transaction::{Environment, Mock};
use antares_verifier::{
    Engine, Interpreter, Prepared, StopHandle, TierCycles, TransactionLimits, TransactionReport, Verifier,
    VerifyOutcome, limits::SWITCH_CYCLES,
};
use antares_vm::{GroupRecording, Machine, ProfileSession, ProfiledMachine, RunScript};
use bytes::Bytes;

use crate::{check::script, diagnoses::watch};

/// Cycle limit of programs; stopping in the middle is an equally good test.
const CYCLES_MAX: u64 = 3_000_000;

/// Profiles a program and compares its outcome and sum with the oracle's.
#[track_caller]
fn check(name: &str, elf: &Bytes, args: &[&str], vm_version: u32, cycles_max: u64) -> Profile {
    let options = script(vm_version);
    let case = Case::new(elf, args, options, cycles_max);
    let theirs = oracle::run(&case);
    let mut machine = Machine::new().unwrap();
    let limits = antares_vm::Limits { cycles_max, debug_bytes_max: 1 << 20 };
    let ours = RunScript { elf, args: &case.args, vm_version, isa: options.isa.0 };
    let (report, recording) = machine.profile(&ours, &limits).unwrap();
    assert_eq!(report.cycles, theirs.cycles, "{name}, version {vm_version}: {:?}", report.outcome);
    assert_eq!(outcome(&report.outcome), theirs.outcome, "{name}, version {vm_version}");
    let profile = recording.to_profile();
    assert_eq!(profile.sum().cycles, report.cycles, "{name}, version {vm_version}");
    assert_eq!(recording.cycles(), report.cycles, "{name}, version {vm_version}");
    assert!(
        profile.nodes().iter().all(|node| node.frame != Frame::Other),
        "{name}: {:?}",
        recording.unknown()
    );
    profile
}

#[test]
fn every_guest_adds_up_in_every_version() {
    let mut runs = 0;
    for guest in guests::guests() {
        let elf = Bytes::from(guests::bytes(&guest.name).unwrap());
        let args = ["-", "1"].map(Bytes::from);
        for version in 0..3 {
            check(&guest.name, &elf, &["-", "1"], version, CYCLES_MAX);
            if version > 0 {
                watch(&guest.name, &elf, &args, version, None);
            }
            runs += 1;
        }
    }
    println!("{runs} runs of guests");
    assert!(runs > 300);
}

#[test]
fn every_published_script_adds_up() {
    for published in published_scripts().unwrap() {
        let elf = Bytes::from(fs::read(&published.path).unwrap());
        for version in 0..3 {
            check(&published.name, &elf, &[], version, CYCLES_MAX);
            watch(&published.name, &elf, &[], version, Some(0));
        }
    }
}

#[test]
fn limits_around_the_end_add_up() {
    let elf = Bytes::from(guests::bytes("sha256-b").unwrap());
    let whole = check("sha256-b", &elf, &["-", "1"], 2, CYCLES_MAX).sum().cycles;
    for cycles_max in [0, 1, 499, 500, 501, whole - 501, whole - 500, whole - 1, whole] {
        check("sha256-b", &elf, &["-", "1"], 2, cycles_max);
    }
}

#[test]
fn the_same_run_gives_the_same_profile_bit_for_bit() {
    let elf = Bytes::from(guests::bytes("rsa1024-b").unwrap());
    let bytes = || check("rsa1024-b", &elf, &["-", "1"], 2, 1 << 30).encode().unwrap();
    assert_eq!(bytes(), bytes());
}

/// An engine that profiles a transaction.
#[derive(Default)]
pub(crate) struct Profiled {
    pub(crate) session: Arc<ProfileSession>,
    pub(crate) groups: std::cell::RefCell<Vec<GroupRecording>>,
}

impl Engine for &Profiled {
    type Machine = ProfiledMachine;

    fn attempt<T>(&self, mut attempt: impl FnMut() -> T) -> T {
        self.session.attempt(&mut attempt)
    }

    fn take_counts(&self) -> Option<TierCycles> {
        self.groups.borrow_mut().push(self.session.take());
        None
    }
}

/// Verifies a transaction with `profiled`, and checks that it ends as without.
#[track_caller]
pub(crate) fn verify_alike(
    name: &str,
    mock: &Mock,
    environment: &Environment,
    cycles_max: u64,
    profiled: &Profiled,
) -> TransactionReport {
    let limits = TransactionLimits { cycles_max, debug_bytes_max: 1 << 20 };
    let prepared = Prepared::new(mock, environment).unwrap();
    let theirs =
        Verifier::new(prepared.clone(), limits, Interpreter, StopHandle::default()).verify(None).unwrap();
    let ours = Verifier::new(prepared, limits, profiled, StopHandle::default()).verify(None).unwrap();
    let verdict = |report: &TransactionReport| {
        let debug: Vec<_> = report.groups.iter().map(|group| group.debug.clone()).collect();
        (report.outcome, report.cycles, report.error().cloned(), debug)
    };
    assert_eq!(verdict(&ours), verdict(&theirs), "{name}");
    ours
}

#[track_caller]
fn check_transaction(name: &str, json: &[u8], environment: &Environment, cycles_max: u64) -> Profile {
    let mock = Mock::from_json(json).unwrap();
    let profiled = Profiled::default();
    let ours = verify_alike(name, &mock, environment, cycles_max, &profiled);
    let mut all = Profile::default();
    let groups = profiled.groups.take();
    let ran = ours.groups.iter().filter(|group| group.outcome != VerifyOutcome::NotRun);
    let programs = ran.filter(|group| group.interpreted_cycles > 0);
    for (report, group) in programs.zip(&groups) {
        let profile = group.recording.to_profile();
        let switches = group.switches * SWITCH_CYCLES;
        println!("{name}: {} cycles in VMs, {} switches", profile.sum().cycles, group.switches);
        assert_eq!(profile.sum().cycles + switches, report.cycles, "{name}");
        all.merge(&profile);
    }
    all
}

#[test]
fn transactions_add_up_with_exec_and_spawn() {
    let example = |name: &str| fs::read(debugger_examples().unwrap().join(name)).unwrap();
    for name in ["mock_tx.json", "dynamic.json", "spawn_cycle_mismatch_tx.json"] {
        for version in 0..3 {
            let environment = Environment::of_version(version);
            check_transaction(name, &example(name), &environment, 3_500_000_000);
            check_transaction(name, &example(name), &environment, 1_000_000);
        }
    }
    let name = "spawn_cycle_mismatch_tx.json";
    let profile = check_transaction(name, &example(name), &Environment::default(), 3_500_000_000);
    let has = |wanted: fn(&Frame) -> bool| profile.nodes().iter().any(|node| wanted(&node.frame));
    assert!(has(|frame| matches!(frame, Frame::Spawn { .. })));
    assert!(has(|frame| matches!(frame, Frame::Syscall { number: 2606 })));
    assert_ne!(profile.sum(), Value::default());
}
