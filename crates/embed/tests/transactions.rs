//! Compares verifications of whole transactions with ckb-script on ckb-vm's own machine.
#![cfg(feature = "ckb")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::HashSet, fs, sync::Arc};

use antares::{Engine, Progress, Verdict, Verifier, VmVersion};
use antares_transaction::{AsLock, Environment, Mock};
use bytes::Bytes;
use ckb_chain_spec::consensus::{Consensus, ConsensusBuilder};
use ckb_mock_tx_types::{MockTransaction, ReprMockTransaction, Resource};
use ckb_script::{TransactionScriptsVerifier, TxVerifyEnv, types::DebugPrinter};
use ckb_types::core::{
    EpochNumberWithFraction, HeaderView,
    cell::{ResolvedTransaction, resolve_transaction},
};

/// A transaction in the types of ckb's crates.
struct Case {
    resolved: Arc<ResolvedTransaction>,
    data: Resource,
    consensus: Arc<Consensus>,
    env: Arc<TxVerifyEnv>,
    mock: Mock,
}

fn case(name: &str) -> Case {
    case_of(&fs::read(antares_guests::debugger_examples().unwrap().join(name)).unwrap())
}

fn case_of(json: &[u8]) -> Case {
    let mock = Mock::from_json(json).unwrap();
    let repr: ReprMockTransaction = serde_json::from_slice(json).unwrap();
    let transaction: MockTransaction = repr.into();
    let data = Resource::from_mock_tx(&transaction).unwrap();
    let core = transaction.core_transaction();
    let resolved = Arc::new(resolve_transaction(core, &mut HashSet::new(), &data, &data).unwrap());
    let forks = Environment::default().hard_forks();
    let consensus = Arc::new(ConsensusBuilder::default().hardfork_switch(forks).build());
    let epoch = EpochNumberWithFraction::new(Environment::default().epoch, 0, 1);
    let header = HeaderView::new_advanced_builder().epoch(epoch).build();
    Case { resolved, data, consensus, env: Arc::new(TxVerifyEnv::new_commit(&header)), mock }
}

impl Case {
    fn oracle(&self, cycles_max: u64) -> Result<u64, String> {
        let quiet: DebugPrinter = Arc::new(|_, _| {});
        let verifier: TransactionScriptsVerifier<Resource> =
            TransactionScriptsVerifier::new_with_debug_printer(
                self.resolved.clone(),
                self.data.clone(),
                self.consensus.clone(),
                self.env.clone(),
                quiet,
            );
        verifier.verify(cycles_max).map_err(|error| error.to_string())
    }

    fn verifier(&self, engine: &Engine) -> Verifier<Resource> {
        let Self { resolved, data, consensus, env, .. } = self;
        Verifier::new(engine, resolved.clone(), data.clone(), consensus.clone(), env.clone())
    }
}

fn compile(engine: &Engine, case: &Case) {
    for program in antares_transaction::programs(&case.mock, &Environment::default()) {
        for version in [VmVersion::V0, VmVersion::V1, VmVersion::V2] {
            // Older versions refuse some programs, which then have no native code.
            drop(engine.compile_quickly(program.elf.clone(), version));
        }
    }
}

fn compiled(case: &Case) -> Engine {
    let engine = Engine::new();
    compile(&engine, case);
    engine
}

#[test]
fn verdicts_and_cycles_are_those_of_ckb_script() {
    for name in ["mock_tx.json", "spawn_cycle_mismatch_tx.json"] {
        let case = case(name);
        let engine = Engine::new();
        let cycles = case.oracle(u64::MAX >> 1).unwrap();
        let interpreted = case.verifier(&engine).verify(u64::MAX >> 1).unwrap();
        assert_eq!((interpreted.cycles, interpreted.native_cycles), (cycles, 0), "{name}");
        compile(&engine, &case);
        let native = case.verifier(&engine).verify(u64::MAX >> 1).unwrap();
        assert_eq!(native.cycles, cycles, "{name}");
        assert!(native.native_cycles > 0, "{name}: {native:?}");
        // With one cycle too few, the error must equal ckb-script's.
        let error = case.verifier(&engine).verify(cycles - 1).unwrap_err().to_string();
        assert_eq!(Err(error), case.oracle(cycles - 1), "{name}");
    }
}

/// Minor page faults of this thread.
fn page_faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The name may contain spaces; the fields after it begin with the state.
    let fields = stat.rsplit_once(") ").unwrap().1;
    fields.split(' ').nth(7).unwrap().parse().unwrap()
}

#[test]
fn a_repeated_verification_maps_nothing() {
    const VERIFICATIONS: u64 = 20;
    /// Page faults of a verification that maps a new machine, at least.
    const NEW_MACHINE_FAULTS: u64 = 100;
    let case = case("mock_tx.json");
    let engine = compiled(&case);
    let verify = || {
        for _ in 0..VERIFICATIONS {
            let verdict = case.verifier(&engine).verify(u64::MAX >> 1).unwrap();
            assert!(verdict.native_cycles > 0);
        }
    };
    // The first rounds map the machine, its stack and the heap. Concurrent tests share its cache.
    let maps_nothing = |_| {
        let before = page_faults();
        verify();
        page_faults() - before < VERIFICATIONS * NEW_MACHINE_FAULTS / 2
    };
    assert!((0..50).any(maps_nothing));
}

/// Resident memory of this process that is backed by no file, bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Run alone by the test below.
#[test]
#[ignore = "measures the memory of its process"]
fn a_hundred_threads_verify() {
    const THREADS: usize = 100;
    const VERIFICATIONS: usize = 10;
    const GROWTH_MAX: u64 = 20 << 20;
    let case = case("mock_tx.json");
    let engine = compiled(&case);
    case.verifier(&engine).verify(u64::MAX >> 1).unwrap();
    let before = resident();
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..VERIFICATIONS {
                        case.verifier(&engine).verify(u64::MAX >> 1).unwrap();
                    }
                });
            }
        });
        let grown = resident().saturating_sub(before);
        println!("{} KB more", grown >> 10);
        assert!(grown < GROWTH_MAX, "{grown} bytes");
    }
}

#[test]
fn memory_goes_back_after_a_hundred_threads() {
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--ignored", "--exact", "a_hundred_threads_verify"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The scripts of one call have VMs with equal ids, some of which end while suspended.
#[test]
fn groups_of_many_vms_do_not_mix() {
    let elf = antares_guests::script("KEEPS", &[]).unwrap();
    let [args, data] = [Bytes::new(), Bytes::new()];
    let mock = AsLock { elf: elf.clone().into(), args, witness: None, data }.to_mock().unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&mock.to_json()).unwrap();
    // Add two inputs with different locks.
    for number in 2..4 {
        let mut input = json["mock_info"]["inputs"][0].clone();
        input["input"]["previous_output"]["index"] = format!("0x{number}").into();
        input["output"]["lock"]["args"] = format!("0x0{number}").into();
        json["tx"]["inputs"].as_array_mut().unwrap().push(input["input"].clone());
        json["mock_info"]["inputs"].as_array_mut().unwrap().push(input);
    }
    let case = case_of(json.to_string().as_bytes());
    let engine = Engine::new();
    engine.compile_quickly(elf, VmVersion::V2).unwrap();
    let cycles = case.oracle(u64::MAX >> 1).unwrap();
    let native = case.verifier(&engine).verify(u64::MAX >> 1).unwrap();
    assert_eq!(native.cycles, cycles);
    // Cycles for suspending VMs are no native cycles.
    assert!(native.native_cycles > cycles / 4, "{native:?}");
}

/// Verifies in parts of about `budget` cycles; returns the result and the number of parts.
fn in_parts(
    case: &Case,
    engine: &Engine,
    (cycles_max, budget): (u64, u64),
) -> (Result<Verdict, String>, u32) {
    let verifier = case.verifier(engine);
    let mut verification = verifier.begin(cycles_max);
    for parts in 1.. {
        match verification.resume(budget) {
            Ok(Progress::Done(verdict)) => return (Ok(verdict), parts),
            Ok(Progress::Suspended(cycles)) => assert_eq!(cycles, verification.cycles()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => return (Err(error.to_string()), parts),
        }
    }
    unreachable!()
}

#[test]
fn a_verification_in_parts_says_what_a_whole_one_does() {
    for name in ["mock_tx.json", "spawn_cycle_mismatch_tx.json"] {
        let case = case(name);
        let cycles = case.oracle(u64::MAX >> 1).unwrap();
        for (engine, is_native) in [(Engine::new(), false), (Engine::compiling_on_use(), true)] {
            let (whole, parts) = in_parts(&case, &engine, (u64::MAX >> 1, u64::MAX >> 1));
            assert_eq!((whole.map(|verdict| verdict.cycles), parts), (Ok(cycles), 1), "{name}");
            for budget in [0, 100_003, 5_000_000] {
                let (verdict, parts) = in_parts(&case, &engine, (cycles, budget));
                let verdict = verdict.unwrap();
                assert_eq!(verdict.cycles, cycles, "{name} {budget}");
                assert_eq!(verdict.native_cycles > 0, is_native, "{name} {budget}");
                assert_eq!(parts > 1, budget < cycles, "{name} {budget}");
                // With one cycle too few, the error must equal ckb-script's.
                let (error, _) = in_parts(&case, &engine, (cycles - 1, budget));
                assert_eq!(error.map(|verdict| verdict.cycles), case.oracle(cycles - 1), "{name} {budget}");
            }
        }
    }
}

#[test]
fn groups_can_be_verified_one_by_one() {
    let case = case("mock_tx.json");
    let engine = Engine::new();
    let whole = case.verifier(&engine).verify(u64::MAX >> 1).unwrap();
    let quiet: DebugPrinter = Arc::new(|_, _| {});
    let groups: TransactionScriptsVerifier<Resource> = TransactionScriptsVerifier::new_with_debug_printer(
        case.resolved.clone(),
        case.data.clone(),
        case.consensus.clone(),
        case.env.clone(),
        quiet,
    );
    let groups: Vec<_> = groups.groups_with_type().map(|(kind, hash, _)| (kind, hash.clone())).collect();
    let single =
        |(kind, hash)| case.verifier(&engine).verify_group(kind, &hash, u64::MAX >> 1).unwrap().cycles;
    assert_eq!(groups.into_iter().map(single).sum::<u64>(), whole.cycles);
}
