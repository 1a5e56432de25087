//! Random transactions with many processes: every tier agrees with ckb-script.
//!
//! The binary `transactions` of this crate does long runs.

use std::thread;

use antares_tests::transaction_campaign::{Campaign, Images, Tally, Verb, minimise};

const SCENARIOS: u64 = 500;

#[test]
fn drawn_transactions_are_equal_in_all_tiers() {
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign { seed: 3, scenarios: SCENARIOS };
    let (tally, different) = campaign.run(jobs, |_| ()).unwrap();
    println!("{tally}");
    if let Some(found) = different {
        let reduced = minimise(Images::get().unwrap(), &found.scenario).unwrap();
        let (scenario, difference) = reduced.unwrap_or((found.scenario, found.difference.clone()));
        panic!("seed 3, scenario {}: {}\nreduced: {difference}\n{scenario}", found.number, found.difference);
    }
    is_worth_its_time(&tally);
}

/// Checks the coverage of the campaign: scenarios must not mostly end immediately, bail out, or never suspend
/// a VM.
fn is_worth_its_time(tally: &Tally) {
    use Verb::{Call, Exec, Inherit, Jump, Load, Spawn, Sum, Transfer, Wait, Work};
    assert_eq!(tally.equal, SCENARIOS);
    let at_least = |what: &str, count: u64, share: u64| {
        assert!(count * share >= SCENARIOS, "{what}: only {count} of {SCENARIOS}");
    };
    at_least("ended well", tally.endings.get("ok").copied().unwrap_or(0), 5);
    at_least("natively to the end", tally.native, 5);
    at_least("with native loaded code", tally.loaded, 20);
    at_least("put aside", tally.swapped, 8);
    at_least("put aside, natively to the end", tally.swapped_natively, 25);
    at_least("put aside often", tally.swapped_often, 50);
    at_least("paused", tally.paused, 25);
    at_least("limited", tally.limited, 10);
    for version in 0..3 {
        at_least("a version", tally.versions.get(&version).copied().unwrap_or(0), 20);
    }
    for verb in [Call, Sum, Jump, Work, Spawn, Transfer, Wait, Exec, Inherit, Load] {
        let (count, failed) = tally.verbs.get(&verb).copied().unwrap_or_default();
        assert!(count >= 10, "{verb:?} was executed {count} times only");
        let may_fail = matches!(verb, Spawn | Transfer | Wait | Exec | Load);
        assert!(failed > 0 || !may_fail, "{verb:?} never failed");
    }
}
