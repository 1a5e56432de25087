//! Of the ledger.

use antares_abi::Sha256Digest;

use super::*;
use crate::{reuse::Work, wire::packet_pair};

fn ledger() -> Ledger {
    let ledger = Ledger::new(1, Reuse { idle_max: 1, ..Reuse::default() }, None).unwrap();
    ledger.link(link(1));
    ledger
}

fn link(number: u64) -> Link {
    Link { socket: Arc::new(packet_pair().unwrap().0), pid: 1, number }
}

fn admit(ledger: &Ledger) -> Result<u64, PoolError> {
    ledger.admit(None, 0, &Instant::now().into()).map(|admission| match admission {
        Admission::Fresh { ticket, .. } => ticket,
        Admission::Warm(warm) => panic!("{warm:?}"),
    })
}

fn kind(script: u8) -> Kind {
    let work = Work::Run { script: Sha256Digest([script; 32]), library: None };
    Kind { tenant: "".into(), work }
}

/// Takes a slot for a job of `kind`, and rests when it is done.
fn work_and_rest(ledger: &Ledger, kind: Kind) -> (u64, Arc<Line>) {
    let Admission::Fresh { ticket, .. } = ledger.admit(Some(&kind), 0, &Instant::now().into()).unwrap()
    else {
        panic!("nobody rests")
    };
    let line = Arc::new(Line::create().unwrap().0);
    ledger.connect(ticket, &line);
    let (turn, debug_bytes_max, runs, busy) = (FIRST_TURN, 0, 0, Duration::ZERO);
    ledger.rest(Warm { ticket, turn, line: line.clone(), kind, debug_bytes_max, runs, busy });
    (ticket, line)
}

#[test]
fn who_rests_is_woken_for_its_own_kind_of_job_only() {
    let ledger = ledger();
    let (ticket, line) = work_and_rest(&ledger, kind(1));
    assert_eq!((ledger.stats().busy, ledger.stats().resting), (0, 1));
    let Admission::Warm(warm) = ledger.admit(Some(&kind(1)), 0, &Instant::now().into()).unwrap() else {
        panic!("a fresh one")
    };
    assert_eq!((warm.ticket, warm.turn, ledger.stats().reused_total), (ticket, 1, 1));
    assert!(matches!(admit(&ledger), Err(PoolError::Busy { .. })));
    // A job that ended is not taken back at the cost of the next one.
    ledger.recall(&[(ticket, 0)]);
    assert!(!ledger.state().entries[&ticket].condemned);
    ledger.rest(warm);
    assert_ne!(admit(&ledger).unwrap(), ticket);
    // Death closes the line and takes it from among those who rest.
    ledger.ended(ticket, Fate::Ended(End::Signal(9)));
    assert!(line.is_closed());
    assert_eq!((ledger.stats().busy, ledger.stats().resting), (1, 0));
}

#[test]
fn who_was_taken_back_does_not_rest() {
    let ledger = ledger();
    let (ticket, _) = work_and_rest(&ledger, kind(1));
    let Admission::Warm(warm) = ledger.admit(Some(&kind(1)), 0, &Instant::now().into()).unwrap() else {
        panic!("a fresh one")
    };
    ledger.recall(&[(ticket, 1)]);
    ledger.rest(warm);
    assert_eq!((ledger.stats().busy, ledger.stats().resting), (1, 0));
    ledger.ended(ticket, Fate::Ended(End::Signal(9)));
    assert!(ledger.state().entries.is_empty());
}

#[test]
fn children_have_a_limit_whether_they_rest_or_not() {
    let ledger = ledger();
    let (first, _) = work_and_rest(&ledger, kind(1));
    let (second, _) = work_and_rest(&ledger, kind(2));
    // The first made room for the second among those who rest, but is not dead yet.
    assert!(ledger.state().entries[&first].condemned);
    assert_eq!((ledger.stats().resting, ledger.state().alive), (1, 2));
    assert!(matches!(admit(&ledger), Err(PoolError::Busy { .. })));
    ledger.ended(first, Fate::Ended(End::Signal(9)));
    assert_ne!(admit(&ledger).unwrap(), second);
}

#[test]
fn a_slot_is_free_when_its_child_has_ended() {
    let ledger = ledger();
    let first = admit(&ledger).unwrap();
    assert!(matches!(admit(&ledger), Err(PoolError::Busy { workers_max: 1 })));
    ledger.forget(first);
    assert!(matches!(admit(&ledger), Err(PoolError::Busy { workers_max: 1 })));
    ledger.ended(first, Fate::Ended(End::Exit(0)));
    ledger.ended(first, Fate::ZygoteLost);
    let second = admit(&ledger).unwrap();
    assert_eq!(ledger.fate(second, Instant::now()), None);
    ledger.ended(second, Fate::Ended(End::Signal(9)));
    assert_eq!(ledger.fate(second, Instant::now()), Some(Fate::Ended(End::Signal(9))));
    ledger.forget(second);
    assert_eq!(ledger.stats().busy, 0);
    assert!(ledger.state().entries.is_empty());
}

#[test]
fn a_lost_zygote_takes_its_children_along() {
    let ledger = ledger();
    let ticket = admit(&ledger).unwrap();
    ledger.unlink(1);
    assert_eq!(ledger.fate(ticket, Instant::now()), Some(Fate::ZygoteLost));
    assert!(matches!(admit(&ledger), Err(PoolError::ZygoteLost)));
}

#[test]
fn a_renewed_zygote_s_workers_finish_and_do_nothing_else() {
    let ledger = ledger();
    let (resting, _) = work_and_rest(&ledger, kind(1));
    let Admission::Warm(working) = ledger.admit(Some(&kind(1)), 0, &Instant::now().into()).unwrap() else {
        panic!("a fresh one")
    };
    assert_eq!(working.ticket, resting);
    ledger.link(link(2));
    assert!(!ledger.state().entries[&working.ticket].condemned && !ledger.is_idle(1));
    // What has no news of the first zygote's leaves the second one's alone.
    assert!(ledger.is_idle(2));
    ledger.rest(working.clone());
    assert!(ledger.state().entries[&working.ticket].condemned && ledger.stats().resting == 0);
    ledger.ended(working.ticket, Fate::Ended(End::Signal(9)));
    assert!(ledger.is_idle(1) && ledger.hear_bell());
    let ticket = admit(&ledger).unwrap();
    ledger.unlink(1);
    assert_eq!(ledger.fate(ticket, Instant::now()), None);
    ledger.close();
    assert!(!ledger.hear_bell());
}

#[test]
fn who_rests_ends_with_the_renewal() {
    let ledger = ledger();
    let (resting, _) = work_and_rest(&ledger, kind(1));
    ledger.link(link(2));
    assert!(ledger.state().entries[&resting].condemned && ledger.stats().resting == 0);
}

#[test]
fn who_has_no_zygote_for_long_is_deserted() {
    let ledger = ledger();
    assert!(!ledger.is_deserted(Duration::ZERO));
    ledger.unlink(2);
    assert!(!ledger.is_deserted(Duration::ZERO));
    ledger.unlink(1);
    assert!(ledger.is_deserted(Duration::ZERO) && !ledger.is_deserted(Duration::from_secs(3_600)));
    ledger.link(link(2));
    assert!(!ledger.is_deserted(Duration::ZERO));
}
