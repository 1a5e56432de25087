//! Runs one ELF in both tiers and on the oracle, and many jobs on all processors.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use antares_abi::{CodeTier, CompileOptions, Hints, Isa};
use antares_tests::{
    differential::{Equal, compare},
    native,
    oracle::Case,
};
use antares_vm::Machine;

/// Cycle limit, which stops endless guests.
pub(crate) const CYCLES_MAX: u64 = 40_000_000;

/// Options with the default ISA of `vm_version`.
pub(crate) fn script(vm_version: u32) -> CompileOptions {
    CompileOptions { vm_version, isa: Isa::of_version(vm_version) }
}

/// Compiles `elf` with both generators and compares all tiers with the oracle; returns the full tier's run,
/// or the compiler's refusal.
#[track_caller]
pub(crate) fn check(name: &str, elf: &[u8], args: &[&str], options: CompileOptions) -> Result<Equal, String> {
    check_within(name, elf, args, options, CYCLES_MAX)
}

/// As [`check`], with another cycle limit.
#[track_caller]
pub(crate) fn check_within(
    name: &str,
    elf: &[u8],
    args: &[&str],
    options: CompileOptions,
    cycles_max: u64,
) -> Result<Equal, String> {
    let case = Case::new(elf, args, options, cycles_max);
    let mut machine = Machine::new().unwrap();
    let context = format!("{name} {args:?}, version {}, isa {}", options.vm_version, options.isa);
    let interpreted = compare(&mut machine, &case, None).unwrap();
    let interpreted = interpreted.unwrap_or_else(|difference| panic!("{context}, interpreter: {difference}"));
    let mut native = |tier| {
        let library = native::compile_with(elf, options, tier, &Hints::default());
        let library = library.unwrap_or_else(|error| panic!("{context}, {tier}: {error:#}"))?;
        let equal = compare(&mut machine, &case, Some(&library)).unwrap();
        let equal = equal.unwrap_or_else(|difference| panic!("{context}, {tier}: {difference}"));
        assert_eq!((&equal.outcome, equal.cycles), (&interpreted.outcome, interpreted.cycles), "{context}");
        Ok(equal)
    };
    let full = native(CodeTier::Full);
    let baseline = native(CodeTier::Baseline);
    // Both generators must refuse the same ELFs.
    assert_eq!(full.is_ok(), baseline.is_ok(), "{context}");
    full
}

/// Does all jobs on all processors; prints the lines that they give, and panics with all failures.
#[track_caller]
pub(crate) fn each<J: Sync>(
    jobs: &[J],
    act: impl Fn(&mut Machine, &J) -> Result<Option<String>, String> + Sync,
) {
    let (next, lines, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        let mut machine = Machine::new().unwrap();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            match act(&mut machine, job) {
                Ok(line) => lines.lock().unwrap().extend(line),
                Err(failure) => failures.lock().unwrap().push(failure),
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (mut lines, failures) = (lines.into_inner().unwrap(), failures.into_inner().unwrap());
    lines.sort();
    println!("{}", lines.join("\n"));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
