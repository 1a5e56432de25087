//! Always-on profiles: samples add up to the cycles of the run in every tier, change nothing, are
//! reproducible, and show the functions of an exact profile.

use std::collections::{BTreeMap, BTreeSet};

use antares_abi::{CodeTier, Hints};
use antares_program::{read, recover};
use antares_tests::{guests, kept, native};
use antares_vm::{Library, Limits, Machine, Recording, Report, RunScript, Sampling, StackLocation, Tier};
use bytes::Bytes;

use crate::check::script;

const LIMITS: Limits = Limits { cycles_max: 1 << 32, debug_bytes_max: 1 << 20 };

/// Runs of each program, with different sample points.
const SEEDS: u64 = 60;

/// Cycles between samples. Shorter than in production, so that short programs have enough samples. Longer
/// than most loops with one poll, after which one sample counts for all cycles since the previous one.
const PERIOD: u64 = 10_000;

/// Maximum error of a share, in standard deviations.
const DEVIATIONS_MAX: f64 = 5.0;

/// Maximum error due to delayed samples in a metered block or a loop with one poll, as a share of the whole.
const SKID: f64 = 0.02;

struct Guest {
    name: &'static str,
    elf: Bytes,
    args: Vec<Bytes>,
    /// Function entries, sorted.
    functions: BTreeSet<u64>,
}

impl Guest {
    fn new(name: &'static str, times: &'static str) -> Self {
        let elf = Bytes::from(guests::bytes(name).unwrap());
        let limits = antares_abi::CompileLimits::default();
        let image = read(&elf, script(2), &limits).unwrap();
        let program = recover(&image, &limits, &Hints::default()).unwrap();
        let functions = program.functions.iter().map(|function| function.entry.0).collect();
        let args = vec![Bytes::from_static(b"-"), Bytes::from_static(times.as_bytes())];
        Self { name, elf, args, functions }
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

    fn function(&self, pc: u64) -> u64 {
        self.functions.range(..=pc).next_back().copied().unwrap_or(0)
    }

    /// Shares by function: its own, and including its callees.
    fn shares(&self, recording: &Recording) -> BTreeMap<u64, (f64, f64)> {
        let mut shares: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        let all = recording.cycles() as f64;
        let mut add = |context: u32, leaf: Option<u64>, cycles: u64| {
            let mut stack: Vec<u64> = leaf.map(|pc| self.function(pc)).into_iter().collect();
            let mut at = recording.contexts()[context as usize];
            loop {
                match at.place {
                    StackLocation::Root => break,
                    StackLocation::Code { pc, .. } => stack.push(self.function(pc)),
                    _ => {}
                }
                at = recording.contexts()[at.parent as usize];
            }
            let part = cycles as f64 / all;
            if let Some(own) = stack.first() {
                shares.entry(*own).or_default().0 += part;
            }
            for function in stack.iter().collect::<BTreeSet<_>>() {
                shares.entry(*function).or_default().1 += part;
            }
        };
        for step in recording.steps() {
            add(step.context, Some(step.pc), step.count * step.cost);
        }
        for (context, cycles) in (0..).zip(recording.contexts().iter().map(|context| context.cycles)) {
            if cycles > 0 {
                add(context, None, cycles);
            }
        }
        shares
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

/// Runs `guest` with enough samples, and compares the most expensive functions with an exact profile.
fn agree(machine: &mut Machine, guest: &Guest, tier: CodeTier) {
    let (exact, recording) = machine.profile(&guest.script(), &LIMITS).unwrap();
    let wanted = guest.shares(&recording);
    let library = guest.library(tier);
    let mut found: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for seed in 0..SEEDS {
        let sampling = Sampling { period: PERIOD, seed };
        let (report, recording) = guest.sampled(machine, &library, sampling);
        assert_eq!((&report.outcome, report.cycles), (&exact.outcome, exact.cycles), "{}", guest.name);
        for (function, (own, total)) in guest.shares(&recording) {
            let sum = found.entry(function).or_default();
            sum.0 += own / SEEDS as f64;
            sum.1 += total / SEEDS as f64;
        }
    }
    let samples = (exact.cycles / PERIOD * SEEDS) as f64;
    let mut top: Vec<_> = wanted.iter().collect();
    top.sort_by(|one, two| two.1.0.total_cmp(&one.1.0));
    for (function, (own, total)) in top.into_iter().take(20) {
        let (own_found, total_found) = found.get(function).copied().unwrap_or_default();
        let allowed = |share: f64| DEVIATIONS_MAX * (share * (1.0 - share) / samples).max(0.0).sqrt() + SKID;
        let place = format!("{} {tier:?} {function:#x}: {own} {own_found}", guest.name);
        assert!((own - own_found).abs() <= allowed(*own), "{place}");
        assert!((total - total_found).abs() <= allowed(*total), "{place}, {total} {total_found}");
    }
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
