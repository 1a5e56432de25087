//! Scripts that static recovery cannot handle: the hints of a run make the next compile native, and wrong
//! hints do no harm.

use antares_abi::{BailoutReason, CodeTier, CompileOptions, Hints};
use antares_tests::{
    differential::{Equal, compare},
    guests, native,
    oracle::Case,
};
use antares_vm::Machine;
use bytes::Bytes;

use crate::check::script;

/// Maximum compiles with new hints.
const ROUNDS_MAX: usize = 6;

fn run(elf: &[u8], args: &[&str], options: CompileOptions, tier: CodeTier, hints: &Hints) -> Equal {
    let case = Case {
        elf: Bytes::copy_from_slice(elf),
        args: args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect(),
        options,
        cycles_max: 400_000_000,
        code: None,
    };
    let library = native::compile_with(elf, options, tier, hints).unwrap().unwrap();
    compare(&mut Machine::new().unwrap(), &case, Some(&library)).unwrap().unwrap()
}

/// Runs with the hints of earlier runs until there are no new ones. Returns the last run, and the number of
/// runs with new hints.
fn learn(elf: &[u8], args: &[&str], options: CompileOptions, tier: CodeTier) -> (Equal, usize) {
    let mut hints = Hints::default();
    for round in 0..ROUNDS_MAX {
        let equal = run(elf, args, options, tier, &hints);
        let Some(seen) = &equal.seen else { return (equal, round) };
        let learnt = hints.learn(seen);
        if learnt == hints {
            return (equal, round);
        }
        hints = learnt;
    }
    (run(elf, args, options, tier, &hints), ROUNDS_MAX)
}

#[test]
fn hidden_places_are_learnt() {
    let elf = guests::hidden().unwrap();
    for version in 0..3 {
        for tier in CodeTier::ALL {
            let first = run(&elf, &["-"], script(version), tier, &Hints::default());
            assert_eq!((first.restarted, first.native_cycles), (Some(BailoutReason::UnknownTarget), 0));
            let (last, rounds) = learn(&elf, &["-"], script(version), tier);
            assert_eq!((last.restarted, last.native_cycles), (None, last.cycles), "{version} {tier}");
            assert!(rounds <= 2, "{rounds} rounds in version {version}, {tier}");
        }
    }
}

#[test]
fn wrong_hints_cost_time_and_nothing_else() {
    let elf = guests::hidden().unwrap();
    let all = |is_called: bool| Hints::new((0x1_0000..0x1_2000).step_by(2).map(|at| (at, is_called)));
    let odd = Hints::new((0x1_0000..0x1_2000).step_by(6).map(|at| (at, at % 4 == 0)));
    let outside = Hints::new([(0, true), (2, false), (0x3f_fffe, true), (0x3f_0000, false)]);
    for hints in [all(true), all(false), odd.clone(), odd.with_lying_tables(), outside] {
        for tier in CodeTier::ALL {
            run(&elf, &["-"], script(2), tier, &hints);
        }
    }
}

#[test]
fn hints_change_the_library_and_equal_hints_do_not() {
    let elf = guests::hidden().unwrap();
    let first = run(&elf, &["-"], script(2), CodeTier::Full, &Hints::default());
    let hints = Hints::default().learn(&first.seen.unwrap());
    let output = |hints: &Hints| {
        let request = antares_compiler::Request {
            options: script(2),
            stage: antares_compiler::Stage::Library,
            hints: hints.clone(),
            limits: antares_compiler::CompileLimits::default(),
        };
        antares_compiler::compile(&elf, &request).unwrap().bytes
    };
    assert_eq!(output(&hints), output(&hints));
    assert_ne!(output(&hints), output(&Hints::default()));
}

/// The maximum number of wrong hints: the worst case is code without hints, and hints of earlier runs
/// persist.
#[test]
fn hints_that_make_code_grow_too_much_are_not_used() {
    for name in ["secp256k1-b", "interpreter-imc"] {
        let elf = guests::bytes(name).unwrap();
        let of = |hints: &Hints| {
            native::library_with(&elf, script(2), CodeTier::Baseline, hints).unwrap().unwrap()
        };
        let plain = of(&Hints::default());
        for (count, is_called) in [(4096, true), (4096, false), (1024, true), (1024, false)] {
            let junk = Hints::new((0..count).map(|n| (0x1_0000 + 2 * n, is_called)));
            assert!(of(&junk) == plain, "{name}: {count} {is_called}");
        }
        for count in [4, 64, 256] {
            let some = of(&Hints::new((0..count).map(|n| (0x1_0000 + 2 * n, n % 2 == 0))));
            assert!(some.len() <= 2 * plain.len() + (32 << 10), "{name}: {count} {}", some.len());
        }
    }
}
