//! Always-on profiles: samples add up to the cycles of the run in every tier, change nothing, are
//! reproducible, and show the functions of an exact profile.

use std::collections::BTreeMap;

use antares_abi::{CodeTier, Hints};
use antares_tests::{guests, kept, native};
use antares_vm::{Library, Limits, Machine, Recording, Report, RunScript, Sampling, Tier};
use bytes::Bytes;

use crate::{
    check::script,
    sampled_transactions::{Functions, assert_close},
};

const LIMITS: Limits = Limits { cycles_max: 1 << 32, debug_bytes_max: 1 << 20 };

/// Runs of each program, with different sample points.
const SEEDS: u64 = 60;

/// Cycles between samples. Shorter than in production, so that short programs have enough samples. Longer
/// than most loops with one poll, after which one sample counts for all cycles since the previous one.
const PERIOD: u64 = 10_000;

struct Guest {
    name: &'static str,
    elf: Bytes,
    args: Vec<Bytes>,
}

impl Guest {
    fn new(name: &'static str, times: &'static str) -> Self {
        let args = vec![Bytes::from_static(b"-"), Bytes::from_static(times.as_bytes())];
        Self { name, elf: guests::bytes(name).unwrap().into(), args }
    }

    fn script(&self) -> RunScript<'_> {
        RunScript { elf: &self.elf, args: &self.args, vm_version: 2, isa: script(2).isa.0 }
    }

    fn library(&self, tier: CodeTier) -> Library {
        match tier {
            CodeTier::Full => kept::library(&self.elf, script(2)).unwrap().unwrap(),
            CodeTier::Baseline => {
                native::compile_with(&self.elf, script(2), tier, &Hints::default()).unwrap().unwrap()
            }
        }
    }

    fn sampled(&self, machine: &mut Machine, library: &Library, sampling: Sampling) -> (Report, Recording) {
        let how = (Tier::Native, Some(library));
        let (report, recording) = machine.run_sampled(&self.script(), &LIMITS, how, sampling).unwrap();
        assert_eq!(recording.cycles(), report.cycles, "{}: samples do not add up", self.name);
        assert_eq!(report.interpreted_cycles, 0, "{}: {:?}", self.name, report.restarted);
        (report, recording)
    }
}

/// Programs with deep calls, inlined functions, counted loops, jump tables, recursion; and their repetitions.
fn programs() -> [Guest; 6] {
    [
        ("secp256k1-imc", "1"),
        ("keccak-b", "20"),
        ("rsa1024-imc", "1"),
        ("mldsa-b", "1"),
        ("lz4-imc", "2"),
        ("sort-imc", "1"),
    ]
    .map(|(name, times)| Guest::new(name, times))
}

/// Runs `guest` with enough samples, and compares its functions with an exact profile.
fn agree(machine: &mut Machine, guest: &Guest, tier: CodeTier) {
    let (exact, recording) = machine.profile(&guest.script(), &LIMITS).unwrap();
    let (library, mut functions) = (guest.library(tier), Functions::default());
    let (wanted, _) = functions.shares(&recording);
    let mut found = BTreeMap::new();
    for seed in 0..SEEDS {
        let (report, recording) = guest.sampled(machine, &library, Sampling { period: PERIOD, seed });
        assert_eq!((&report.outcome, report.cycles), (&exact.outcome, exact.cycles), "{}", guest.name);
        for (part, share) in functions.shares(&recording).0 {
            *found.entry(part).or_default() += share / SEEDS as f64;
        }
    }
    let samples = exact.cycles / PERIOD * SEEDS;
    assert_close(&format!("{} {tier:?}", guest.name), &wanted, (&found, samples));
}

#[test]
fn samples_add_up_and_agree_with_exact_profiles() {
    let mut machine = Machine::new().unwrap();
    for guest in programs() {
        for tier in [CodeTier::Full, CodeTier::Baseline] {
            agree(&mut machine, &guest, tier);
        }
    }
}

#[test]
fn the_same_run_gives_the_same_samples() {
    let guest = Guest::new("secp256k1-imc", "1");
    let library = guest.library(CodeTier::Full);
    let mut machine = Machine::new().unwrap();
    let mut once = |seed| {
        let (_, recording) = guest.sampled(&mut machine, &library, Sampling { period: 10_000, seed });
        recording.to_profile().encode().unwrap()
    };
    assert_eq!(once(1), once(1));
    assert_ne!(once(1), once(2));
}

#[test]
fn limits_are_where_they_are_without_samples() {
    let guest = Guest::new("sha256-b", "1");
    let library = guest.library(CodeTier::Full);
    let mut machine = Machine::new().unwrap();
    let how = (Tier::Native, Some(&library));
    let whole = machine.run(&guest.script(), &LIMITS, how.0, how.1).unwrap().cycles;
    for cycles_max in [0, 1, 499, 500, 501, whole - 501, whole - 500, whole - 1, whole, whole + 1] {
        let limits = Limits { cycles_max, ..LIMITS };
        let plain = machine.run(&guest.script(), &limits, how.0, how.1).unwrap();
        let sampling = Sampling { period: 300, seed: cycles_max };
        let (report, recording) = machine.run_sampled(&guest.script(), &limits, how, sampling).unwrap();
        assert_eq!((&report.outcome, report.cycles), (&plain.outcome, plain.cycles), "{cycles_max}");
        assert_eq!(recording.cycles(), report.cycles, "{cycles_max}");
    }
}
