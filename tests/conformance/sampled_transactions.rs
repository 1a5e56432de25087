//! Sampled profiles of transactions: native cycles add up, stacks of spawned and exec'd programs have the
//! originating call below them, and shares equal those of exact profiles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use antares_program::{read, recover};
use antares_tests::{guests::debugger_examples, transactions::Native};
use antares_transaction::{Environment, Mock, template};
use antares_verifier::{
    CellName, GroupKind, Prepared, StopHandle, TransactionLimits, TransactionReport, Verifier, VerifyOutcome,
};
use antares_vm::{Recording, Sampling, StackLocation, Tier};
use bytes::Bytes;

use crate::{check::script, profiles::Profiled};

const LIMITS: TransactionLimits = TransactionLimits { cycles_max: 3_500_000_000, debug_bytes_max: 1 << 20 };

/// Sampling parameters of a transaction.
#[derive(Clone, Copy)]
struct How {
    period: u64,
    /// Runs with different sample points.
    seeds: u64,
    /// Whether more VMs are alive than stay in memory: then some callees are unknown.
    puts_aside: bool,
}

const SHORT: How = How { period: 300, seeds: 30, puts_aside: false };

/// Maximum error of a share, in standard deviations.
const DEVIATIONS_MAX: f64 = 5.0;

/// Maximum error due to delayed samples in a metered block, and to resumption in the interpreter.
const SKID: f64 = 0.03;

/// Minimum share to compare. A trivial function that ends with a tail call is charged with the target's
/// cycles in samples, because native code calls the target, but not in exact profiles.
const SHARE_MIN: f64 = 0.01;

/// A unit of comparison: a function of a program, or everything below a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Function {
        program: usize,
        entry: u64,
    },
    /// The function alone, without its callees.
    Itself {
        program: usize,
        entry: u64,
    },
    Exec(u32),
    Spawn(u32),
}

/// The programs of all recordings of a transaction: ELF and function entries.
#[derive(Default)]
pub(crate) struct Functions(Vec<(Bytes, BTreeSet<u64>)>);

impl Functions {
    /// Numbers of a recording's programs in this list.
    fn numbers(&mut self, recording: &Recording) -> Vec<usize> {
        let elfs = recording.programs().iter().map(|program| program.elf.clone().unwrap_or_default());
        elfs.map(|elf| self.number(elf)).collect()
    }

    fn number(&mut self, elf: Bytes) -> usize {
        if let Some(number) = self.0.iter().position(|(other, _)| *other == elf) {
            return number;
        }
        let limits = antares_abi::CompileLimits::default();
        let image = read(&elf, script(2), &limits).unwrap();
        let program = recover(&image, &limits, &antares_abi::Hints::default()).unwrap();
        self.0.push((elf, program.functions.iter().map(|function| function.entry.0).collect()));
        self.0.len() - 1
    }

    fn function(&self, program: usize, pc: u64) -> Part {
        let entry = self.0[program].1.range(..=pc).next_back().copied().unwrap_or(0);
        Part::Function { program, entry }
    }

    /// The stack of a context, innermost first; `None` for loading, which samples do not cover.
    fn stack(&self, numbers: &[usize], recording: &Recording, context: u32) -> Option<Vec<Part>> {
        let mut stack = Vec::new();
        let mut at = recording.contexts()[context as usize];
        loop {
            match at.place {
                StackLocation::Root => return Some(stack),
                StackLocation::Code { program, pc } => {
                    stack.push(self.function(numbers[program as usize], pc));
                }
                StackLocation::Exec(number) => stack.push(Part::Exec(number)),
                StackLocation::Spawn(number) => stack.push(Part::Spawn(number)),
                StackLocation::Load => return None,
                StackLocation::Syscall(_) => {}
            }
            at = recording.contexts()[at.parent as usize];
        }
    }

    /// The parts of a stack, innermost first; its cycles count as the innermost function's own.
    fn parts(stack: Vec<Part>) -> BTreeSet<Part> {
        let own = match stack.first() {
            Some(Part::Function { program, entry }) => {
                Some(Part::Itself { program: *program, entry: *entry })
            }
            _ => None,
        };
        stack.into_iter().chain(own).collect()
    }

    /// Shares of all parts including callees, and the total cycles.
    pub(crate) fn shares(&mut self, recording: &Recording) -> (BTreeMap<Part, f64>, u64) {
        let numbers = self.numbers(recording);
        let mut spent: Vec<(BTreeSet<Part>, u64)> = Vec::new();
        for step in recording.steps() {
            let Some(mut stack) = self.stack(&numbers, recording, step.context) else { continue };
            stack.insert(0, self.function(numbers[step.program as usize], step.pc));
            spent.push((Self::parts(stack), step.count * step.cost));
        }
        for (context, cycles) in (0..).zip(recording.contexts().iter().map(|context| context.cycles)) {
            if let Some(stack) = self.stack(&numbers, recording, context).filter(|_| cycles > 0) {
                spent.push((Self::parts(stack), cycles));
            }
        }
        let all: u64 = spent.iter().map(|(_, cycles)| cycles).sum();
        let mut shares = BTreeMap::new();
        for (parts, cycles) in spent {
            for part in parts {
                *shares.entry(part).or_default() += cycles as f64 / all as f64;
            }
        }
        (shares, all)
    }

    /// The stack of the originating call, by started program.
    fn callers(&mut self, recording: &Recording) -> BTreeMap<Part, Vec<Part>> {
        let numbers = self.numbers(recording);
        let mut callers = BTreeMap::new();
        for (context, entry) in (0..).zip(recording.contexts()) {
            if matches!(entry.place, StackLocation::Exec(_) | StackLocation::Spawn(_)) {
                let mut stack = self.stack(&numbers, recording, context).unwrap();
                let made = stack.remove(0);
                callers.insert(made, stack);
            }
        }
        callers
    }
}

fn verify<E: antares_verifier::Engine>(
    prepared: &Prepared,
    selection: Option<(GroupKind, CellName)>,
    engine: E,
) -> TransactionReport {
    let verifier = Verifier::new(prepared.clone(), LIMITS, engine, StopHandle::default());
    verifier.verify(selection).unwrap()
}

/// Compares samples of native code with exact profiles, group by group. Returns the number of programs
/// started by other programs.
fn check(name: &str, json: &[u8], selection: Option<(GroupKind, CellName)>, how: How) -> usize {
    let How { period, seeds, .. } = how;
    let environment = Environment::default();
    let mock = Mock::from_json(json).unwrap();
    let prepared = Prepared::new(&mock, &environment).unwrap();
    let profiled = Profiled::default();
    let exact = verify(&prepared, selection, &profiled);
    let exact_groups = profiled.groups.take();
    let mut functions = Functions::default();
    let wanted: Vec<_> = exact_groups.iter().map(|group| functions.shares(&group.recording).0).collect();
    let mut found = vec![BTreeMap::<Part, f64>::new(); wanted.len()];
    let mut samples = vec![0_u64; wanted.len()];
    let mut made = 0;
    for seed in 0..seeds {
        let engine = Native::new(&mock, &prepared, &environment, Tier::Auto).unwrap();
        let engine = engine.sampled(Sampling { period, seed });
        let report = verify(&prepared, selection, engine.clone());
        assert_eq!((report.outcome, report.cycles), (exact.outcome, exact.cycles), "{name}");
        let recordings = engine.samples();
        let ran = report.groups.iter().filter(|group| group.outcome != VerifyOutcome::NotRun);
        let ran: Vec<_> = ran.filter(|group| group.native_cycles > 0).collect();
        assert_eq!((recordings.len(), ran.len()), (wanted.len(), wanted.len()), "{name}");
        made = 0;
        for (index, recording) in recordings.iter().enumerate() {
            let counts = ran[index];
            assert_eq!(counts.restarted, None, "{name}");
            assert_eq!(recording.cycles(), counts.native_cycles, "{name}: samples do not add up");
            let (shares, _) = functions.shares(recording);
            samples[index] += recording.cycles() / period;
            for (part, share) in shares {
                *found[index].entry(part).or_default() += share / seeds as f64;
            }
            let callers = functions.callers(recording);
            let exact = functions.callers(&exact_groups[index].recording);
            for (part, stack) in &callers {
                let wanted = &exact[part];
                // The functions of a suspended and resumed VM from before its suspension are unknown.
                let mut outer = wanted.iter();
                let is_part = stack.iter().all(|part| outer.any(|other| other == part));
                let is_right =
                    if how.puts_aside { is_part && stack[0] == wanted[0] } else { stack == wanted };
                assert!(is_right, "{name}: {part:?} stands on {stack:?}, not {wanted:?}");
            }
            assert_eq!(callers.len(), exact.len(), "{name}");
            made += callers.len();
        }
    }
    for (index, mut wanted) in wanted.into_iter().enumerate() {
        wanted.retain(|part, _| !(how.puts_aside && matches!(part, Part::Function { .. })));
        assert_close(name, &wanted, (&found[index], samples[index]));
    }
    made
}

/// Compares the shares that samples have found with those of an exact profile.
#[track_caller]
pub(crate) fn assert_close(
    name: &str,
    wanted: &BTreeMap<Part, f64>,
    (found, samples): (&BTreeMap<Part, f64>, u64),
) {
    for (part, share) in wanted.iter().filter(|(_, share)| **share >= SHARE_MIN) {
        let sampled = found.get(part).copied().unwrap_or_default();
        let deviation = (share * (1.0 - share) / samples as f64).max(0.0).sqrt();
        let place = format!("{name} {part:?}: {share} {sampled}");
        assert!((share - sampled).abs() <= DEVIATIONS_MAX * deviation + SKID, "{place}");
    }
}

#[test]
fn spawned_and_replaced_programs_stand_on_their_callers() {
    let folder = debugger_examples().unwrap();
    let first = Some((GroupKind::Lock, CellName::Input(0)));
    let template = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        template::expand(&text, &folder).unwrap().into_bytes()
    };
    assert_eq!(check("exec.json", &template("exec.json"), first, SHORT), 1);
    assert_eq!(check("spawn.json", &template("spawn.json"), first, SHORT), 1);
    let whole = |name: &str| fs::read(folder.join(name)).unwrap();
    assert_eq!(check("mock_tx.json", &whole("mock_tx.json"), None, How { period: 2_000, ..SHORT }), 0);
    let many = How { period: 20_000, seeds: 6, puts_aside: true };
    let spawns = check("spawns", &whole("spawn_cycle_mismatch_tx.json"), None, many);
    assert!(spawns > 1, "{spawns}");
}

#[test]
fn the_interpreter_changes_nothing_and_is_unknown() {
    let json = fs::read(debugger_examples().unwrap().join("spawn_cycle_mismatch_tx.json")).unwrap();
    let (mock, environment) = (Mock::from_json(&json).unwrap(), Environment::default());
    let prepared = Prepared::new(&mock, &environment).unwrap();
    let run = |sampling: Option<Sampling>| {
        let engine = Native::new(&mock, &prepared, &environment, Tier::Interpreter).unwrap();
        let engine = match sampling {
            Some(sampling) => engine.sampled(sampling),
            None => engine,
        };
        (verify(&prepared, None, engine.clone()), engine.samples())
    };
    let (plain, none) = run(None);
    let (sampled, recordings) = run(Some(Sampling { period: 1000, seed: 7 }));
    assert!(none.is_empty());
    assert_eq!((sampled.outcome, sampled.cycles), (plain.outcome, plain.cycles));
    assert!(recordings.iter().all(|recording| recording.cycles() == 0), "nobody looks at the interpreter");
}
