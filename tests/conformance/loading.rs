//! Code that scripts load at run time has its own native code, entered and left through the machine. Results
//! equal ckb-script's.

use std::sync::Arc;

use antares_abi::{CodeTier, CompileOptions, Hints, Isa, LoadedCode};
use antares_tests::{
    guests, native,
    transaction_campaign::{Verdict, oracle},
    transactions::{Native, locked_by},
};
use antares_transaction::{Environment, Mock};
use antares_verifier::{Prepared, StopHandle, TransactionLimits, TransactionReport, Verifier, VerifyOutcome};
use antares_vm::{Program, Tier, Unknown};
use bytes::Bytes;
use ckb_types::core::ScriptHashType;

use crate::verdicts::{LIMITS, agrees};

/// Maximum compiles with new hints until everything is native.
const ROUNDS_MAX: usize = 4;

/// Loaded code and its hints.
struct Loaded {
    file: Bytes,
    hints: Hints,
}

/// A lock, the code that it loads, and the native code of both.
struct Stage {
    mock: Mock,
    lock: Bytes,
    options: CompileOptions,
    tiers: [CodeTier; 2],
    hints: Hints,
    loaded: Vec<Loaded>,
}

impl Stage {
    fn new(lock: Vec<u8>, others: &[Bytes], hash_type: ScriptHashType, tiers: [CodeTier; 2]) -> Self {
        let lock = Bytes::from(lock);
        let mock = locked_by(&[std::slice::from_ref(&lock), others].concat(), hash_type).unwrap();
        let vm_version = Environment::default().vm_version(hash_type).unwrap();
        let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
        Self { mock, lock, options, tiers, hints: Hints::default(), loaded: Vec::new() }
    }

    fn program(&self, elf: &Bytes, hints: &Hints, tier: CodeTier) -> Arc<Program> {
        let library = native::compile_with(elf, self.options, tier, hints).unwrap().unwrap();
        Arc::new(Program::new(elf.clone(), library).unwrap())
    }

    fn expected(&self) -> Verdict {
        oracle(&self.mock, &Environment::default(), LIMITS.cycles_max).unwrap()
    }

    /// Runs with all native code compiled so far, and collects hints.
    fn run(&mut self, limits: TransactionLimits) -> TransactionReport {
        let environment = Environment::default();
        let prepared = Prepared::new(&self.mock, &environment).unwrap();
        let lock = self.program(&self.lock, &self.hints, self.tiers[0]);
        let loaded = self.loaded.iter().map(|one| self.program(&one.file, &one.hints, self.tiers[1]));
        let programs: Vec<_> = std::iter::once(lock).chain(loaded).collect();
        let engine = Native::of(Tier::Native, programs);
        let verifier = Verifier::new(prepared, limits, engine.clone(), StopHandle::default());
        let report = verifier.verify(None).unwrap();
        for (program, seen) in engine.seen() {
            match self.loaded.iter_mut().find(|one| one.file == program.elf()) {
                Some(one) => one.hints = one.hints.learn(&seen),
                None => self.hints = self.hints.learn(&seen),
            }
        }
        for Unknown { elf, seen, .. } in engine.unknown() {
            assert!(LoadedCode::read(&elf).is_some(), "{} bytes of something", elf.len());
            self.loaded.push(Loaded { file: elf, hints: Hints::default().learn(&seen) });
        }
        report
    }

    /// Runs until everything is native, and compares each run with ckb-script. Returns the number of runs.
    fn run_until_native(&mut self) -> usize {
        let expected = self.expected();
        for run in 1..=ROUNDS_MAX {
            let report = self.run(LIMITS);
            assert_eq!(agrees(&report, &expected, &format!("run {run}")), None);
            let counts = &report.groups[0];
            if counts.restarted.is_none() && counts.interpreted_cycles == 0 {
                return run;
            }
            println!("run {run}: {counts:?}; {:?}", self.hints);
            for Loaded { file, hints } in &self.loaded {
                println!("  {} bytes, {:x?}", file.len(), hints.targets().collect::<Vec<_>>());
            }
        }
        panic!("not native after {ROUNDS_MAX} runs");
    }
}

const TIERS: [[CodeTier; 2]; 4] = {
    use CodeTier::{Baseline, Full};
    [[Baseline, Baseline], [Full, Full], [Full, Baseline], [Baseline, Full]]
};

#[test]
fn a_loaded_library_is_native_from_the_third_run_on() {
    let lock = guests::loading_lock(400).unwrap();
    let library = Bytes::from(guests::loaded_library("-O2").unwrap());
    // In version 0 all pages of a script's own segments are frozen.
    for hash_type in [ScriptHashType::Data1, ScriptHashType::Data2] {
        for tiers in TIERS {
            let mut stage = Stage::new(lock.clone(), std::slice::from_ref(&library), hash_type, tiers);
            let runs = stage.run_until_native();
            println!("{hash_type:?} {tiers:?}: {runs} runs");
            assert!(runs <= 3 && stage.loaded.len() == 1, "{hash_type:?} {tiers:?}: {runs} runs");
            // Cycle limits are exact.
            let cycles_max = stage.expected().result.unwrap();
            for (cycles_max, outcome) in
                [(cycles_max, VerifyOutcome::Ok), (cycles_max - 1, VerifyOutcome::Failed)]
            {
                assert_eq!(stage.run(TransactionLimits { cycles_max, ..LIMITS }).outcome, outcome);
            }
        }
    }
}

#[test]
fn loaded_code_at_other_places_or_with_other_bytes_is_not_taken_for_it() {
    let lock = guests::loading_lock(400).unwrap();
    let library = Bytes::from(guests::loaded_library("-O2").unwrap());
    for hash_type in [ScriptHashType::Data1, ScriptHashType::Data2] {
        let tiers = [CodeTier::Full, CodeTier::Baseline];
        let mut stage = Stage::new(lock.clone(), std::slice::from_ref(&library), hash_type, tiers);
        stage.run_until_native();
        let other = Bytes::from(guests::loaded_library("-O1").unwrap());
        let mut other = Stage::new(lock.clone(), &[other], hash_type, tiers);
        other.loaded.append(&mut stage.loaded);
        other.run_until_native();
        assert_eq!(other.loaded.len(), 2);
    }
}

#[test]
fn the_file_of_loaded_code_is_no_script() {
    let file = LoadedCode::new(0x1_0000, &[0x13; 4096]).unwrap().to_bytes();
    for hash_type in [ScriptHashType::Data, ScriptHashType::Data1, ScriptHashType::Data2] {
        let mut stage = Stage::new(file.clone(), &[], hash_type, [CodeTier::Full; 2]);
        assert!(agrees(&stage.run(LIMITS), &stage.expected(), "code without a script").is_some());
    }
}

/// Bytes without a period of pages.
fn cell(seed: u32) -> Bytes {
    (0..100_000_u32).map(|index| (index.wrapping_mul(seed) >> 7).to_le_bytes()[0]).collect()
}

#[test]
fn cached_cells_are_seen_only_where_they_are_loaded() {
    let others = [cell(2_654_435_761), cell(2_246_822_519)];
    for hash_type in [ScriptHashType::Data, ScriptHashType::Data1, ScriptHashType::Data2] {
        for tier in [CodeTier::Full, CodeTier::Baseline] {
            let stage = |case| {
                let lock = guests::cached_lock(case).unwrap();
                let stage = Stage::new(lock, &others, hash_type, [tier; 2]);
                let program = stage.program(&stage.lock, &stage.hints, tier);
                let expected = stage.expected();
                (stage, program, expected)
            };
            let stages: Vec<_> = (0..guests::CACHED_CASES).map(stage).collect();
            // Each case follows each other one, and one that leaves the cell in the cache.
            let pairs =
                (0..stages.len()).flat_map(|one| (0..stages.len()).flat_map(move |two| [0, one, two]));
            for (turn, index) in pairs.enumerate() {
                let (stage, program, expected) = &stages[index];
                let tier = if turn % 7 == 6 { Tier::Interpreter } else { Tier::Native };
                let prepared = Prepared::new(&stage.mock, &Environment::default()).unwrap();
                let engine = Native::of(tier, vec![program.clone()]);
                let report =
                    Verifier::new(prepared, LIMITS, engine, StopHandle::default()).verify(None).unwrap();
                agrees(&report, expected, &format!("{hash_type:?}, case {index}, turn {turn}"));
            }
        }
    }
}
