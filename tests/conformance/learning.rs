//! Scripts that static recovery cannot handle: the hints of a run make the next compile native, and wrong
//! hints do no harm.

use antares_abi::{BailoutReason, CodeTier, CompileOptions, Hints};
use antares_tests::{
    corpus::{self, RUNS},
    differential::Equal,
    guests, native,
    oracle::Case,
};
use antares_vm::Machine;

use crate::check::script;

fn run(elf: &[u8], args: &[&str], options: CompileOptions, tier: CodeTier, hints: &Hints) -> Equal {
    let case = Case::new(elf, args, options, 400_000_000);
    corpus::run(&mut Machine::new().unwrap(), &case, tier, hints).unwrap()
}

#[test]
fn hidden_places_are_learnt() {
    let elf = guests::hidden().unwrap();
    for version in 0..3 {
        for tier in CodeTier::ALL {
            let mut hints = Hints::default();
            let [first, _, last] = [(); RUNS].map(|()| {
                let equal = run(&elf, &["-"], script(version), tier, &hints);
                hints = equal.seen.as_ref().map_or_else(|| hints.clone(), |seen| hints.learn(seen));
                equal
            });
            assert_eq!((first.restarted, first.native_cycles), (Some(BailoutReason::UnknownTarget), 0));
            assert_eq!((last.restarted, last.native_cycles), (None, last.cycles), "{version} {tier}");
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
    let output =
        |hints: &Hints| native::library_with(&elf, script(2), CodeTier::Full, hints).unwrap().unwrap();
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
