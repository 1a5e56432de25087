//! Tests of the ledger.

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

/// The worker with this ticket, which is of `kind`.
fn connected(ledger: &Ledger, ticket: u64, kind: Kind) -> Warm {
    let channel = Arc::new(Channel::create().unwrap().0);
    ledger.connect(ticket, &channel);
    Warm { ticket, turn: FIRST_TURN, channel, kind, debug_bytes_max: 0, runs: 0, busy: Duration::ZERO }
}

/// The worker that rests after a job of the first kind, for another one.
#[track_caller]
fn wake(ledger: &Ledger) -> Warm {
    match ledger.admit(Some(&kind(1)), 0, &Instant::now().into()).unwrap() {
        Admission::Warm(warm) => warm,
        Admission::Fresh { .. } => panic!("a fresh one"),
    }
}

/// Takes a slot for a job of `kind`, and becomes idle afterwards.
fn work_and_rest(ledger: &Ledger, kind: Kind) -> (u64, Arc<Channel>) {
    let Admission::Fresh { ticket, .. } = ledger.admit(Some(&kind), 0, &Instant::now().into()).unwrap()
    else {
        panic!("nobody rests")
    };
    let warm = connected(ledger, ticket, kind);
    let channel = warm.channel.clone();
    ledger.idle(warm);
    (ticket, channel)
}

#[test]
fn who_rests_is_woken_for_its_own_kind_of_job_only() {
    let ledger = ledger();
    let (ticket, channel) = work_and_rest(&ledger, kind(1));
    assert_eq!((ledger.stats().busy, ledger.stats().resting), (0, 1));
    let warm = wake(&ledger);
    assert_eq!((warm.ticket, warm.turn, ledger.stats().reused_total), (ticket, 1, 1));
    assert!(matches!(admit(&ledger), Err(PoolError::Busy { .. })));
    // Cancelling an ended job does not affect the next one.
    ledger.recall(&[(ticket, 0)]);
    assert!(!ledger.state().entries[&ticket].condemned);
    ledger.idle(warm);
    assert_ne!(admit(&ledger).unwrap(), ticket);
    // The end of a child closes its channel and removes it from the idle ones.
    ledger.ended(ticket, Fate::Ended(End::Signal(9)));
    assert!(channel.is_closed());
    assert_eq!((ledger.stats().busy, ledger.stats().resting), (1, 0));
}

#[test]
fn who_was_taken_back_does_not_rest() {
    let ledger = ledger();
    let (ticket, _) = work_and_rest(&ledger, kind(1));
    let warm = wake(&ledger);
    ledger.recall(&[(ticket, 1)]);
    ledger.idle(warm);
    assert_eq!((ledger.stats().busy, ledger.stats().resting), (1, 0));
    ledger.ended(ticket, Fate::Ended(End::Signal(9)));
    assert!(ledger.state().entries.is_empty());
}

#[test]
fn children_have_a_limit_whether_they_rest_or_not() {
    let ledger = ledger();
    let (first, _) = work_and_rest(&ledger, kind(1));
    let (second, _) = work_and_rest(&ledger, kind(2));
    // The first child is retired for the second one, but has not ended yet.
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
    let working = wake(&ledger);
    assert_eq!(working.ticket, resting);
    ledger.link(link(2));
    assert!(!ledger.state().entries[&working.ticket].condemned && !ledger.is_idle(1));
    // News about the first zygote's children does not affect those of the second.
    assert!(ledger.is_idle(2));
    ledger.idle(working.clone());
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
    // It is refused before the deadline.
    ledger.unlink(2);
    ledger.state().deserted_since = Instant::now().checked_sub(DESERTED_WAIT_MAX);
    let until = Until::from(Instant::now() + Duration::from_secs(60));
    assert!(matches!(ledger.admit(None, 0, &until), Err(PoolError::ZygoteLost)));
    assert!(Instant::now() < until.deadline);
}

/// Random events from callers, the supervisor and zygotes; each step checks the ledger's counts.
struct Model {
    ledger: Ledger,
    random: u64,
    zygote: u64,
    /// Busy workers.
    at_work: Vec<Warm>,
    /// All workers that have not ended.
    living: Vec<u64>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let ledger = Ledger::new(3, Reuse { idle_max: 2, ..Reuse::default() }, None).unwrap();
        Self { ledger, random: seed, zygote: 0, at_work: Vec::new(), living: Vec::new() }
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % end
    }

    fn admit(&mut self) {
        let kind = kind([1, 2, 3][self.below(3)]);
        match self.ledger.admit(Some(&kind), 0, &Instant::now().into()) {
            Ok(Admission::Fresh { ticket, link }) => {
                assert_eq!(link.number, self.zygote, "only the zygote that is there makes workers");
                self.at_work.push(connected(&self.ledger, ticket, kind));
                self.living.push(ticket);
            }
            Ok(Admission::Warm(warm)) => {
                assert!(self.living.contains(&warm.ticket) && warm.suits(&kind, 0));
                assert!(self.at_work.iter().all(|other| other.ticket != warm.ticket), "one job each");
                self.at_work.push(warm);
            }
            Err(PoolError::Busy { .. } | PoolError::ZygoteLost) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn step(&mut self) {
        match self.below(8) {
            0..3 => self.admit(),
            3 if !self.at_work.is_empty() => {
                let at = self.below(self.at_work.len());
                let warm = self.at_work.swap_remove(at);
                self.ledger.idle(warm);
            }
            4 if !self.at_work.is_empty() => {
                let at = self.below(self.at_work.len());
                let warm = self.at_work.swap_remove(at);
                self.ledger.forget(warm.ticket);
            }
            5 if !self.at_work.is_empty() => {
                let at = self.below(self.at_work.len());
                self.ledger.recall(&[(self.at_work[at].ticket, self.at_work[at].turn)]);
            }
            6 if !self.living.is_empty() => {
                let at = self.below(self.living.len());
                let ticket = self.living.swap_remove(at);
                self.ledger.ended(ticket, Fate::Ended(End::Signal(9)));
                // A duplicate report is not an error.
                self.ledger.ended(ticket, Fate::ZygoteLost);
            }
            7 if self.below(20) == 0 => {
                if self.below(2) == 0 && self.zygote > 0 {
                    self.ledger.unlink(self.zygote);
                }
                self.zygote += 1;
                self.ledger.link(link(self.zygote));
            }
            _ => {}
        }
        assert!(self.ledger.stats().busy <= 3);
    }
}

#[test]
fn counts_hold_whatever_is_reported_in_whatever_order() {
    for seed in 0..20 {
        let mut model = Model::new(seed);
        model.ledger.link(link(0));
        for _ in 0..2_000 {
            model.step();
        }
        for warm in std::mem::take(&mut model.at_work) {
            model.ledger.forget(warm.ticket);
        }
        for ticket in std::mem::take(&mut model.living) {
            model.ledger.ended(ticket, Fate::Ended(End::Exit(0)));
        }
        let state = model.ledger.state();
        assert_eq!((state.busy, state.alive, state.resting.len()), (0, 0, 0));
        assert!(state.entries.is_empty(), "{:?}", state.entries);
    }
}

/// A process that sleeps until it is dropped, and its handle.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn start() -> Self {
        Self(std::process::Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn handle(&self) -> OwnedFd {
        handle(self.0.id())
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn handle(process: u32) -> OwnedFd {
    let process = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
    rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).unwrap()
}

/// A link to this process as the zygote: its children are those of the test.
fn own_link() -> Link {
    Link { pid: std::process::id(), ..link(1) }
}

#[test]
fn a_zygote_s_lies_are_not_entered() {
    use crate::wire::News;
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let ended = |ticket| News::Ended { ticket, end: End::Exit(0) };
    let not_spawned = |ticket| News::NotSpawned { ticket, detail: String::new() };
    let spawned = |ticket| News::Spawned { ticket };
    let (ledger, link) = (ledger(), own_link());
    let ticket = admit(&ledger).unwrap();
    let mut child = Sleeper::start();
    let others = Link { number: 2, ..own_link() };
    let is_false = |link: &Link, news: News, fds: &[OwnedFd]| {
        assert!(ledger.check_news(link, &news, fds).is_err(), "{news:?} with {} handles", fds.len());
    };
    is_false(&link, News::Ready { layers: Vec::new() }, &[]);
    is_false(&link, News::Failed { detail: "no".to_owned() }, &[]);
    // About an unrequested child, or another zygote's.
    for news in [spawned(ticket + 1), spawned(0), spawned(u64::MAX)] {
        is_false(&link, news, &[child.handle()]);
    }
    is_false(&others, spawned(ticket), &[child.handle()]);
    is_false(&link, not_spawned(ticket + 1), &[]);
    is_false(&link, ended(ticket + 1), &[]);
    // Without a handle, with too many, or with a foreign one: this process would be killed by it.
    is_false(&link, spawned(ticket), &[]);
    is_false(&link, spawned(ticket), &[child.handle(), child.handle()]);
    is_false(&link, spawned(ticket), &[null()]);
    is_false(&link, spawned(ticket), &[handle(std::process::id())]);
    let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get().cast_unsigned();
    is_false(&link, spawned(ticket), &[handle(parent)]);
    is_false(&link, not_spawned(ticket), &[child.handle()]);
    // The end of a child that never existed.
    is_false(&link, ended(ticket), &[]);
    assert_eq!(ledger.check_news(&link, &spawned(ticket), &[child.handle()]), Ok(()));
    ledger.spawned(ticket, child.handle());
    // Forked twice, not forked after all, or ended while alive.
    is_false(&link, spawned(ticket), &[child.handle()]);
    is_false(&link, not_spawned(ticket), &[]);
    is_false(&link, ended(ticket), &[]);
    child.end();
    is_false(&link, ended(ticket), &[null()]);
    is_false(&others, ended(ticket), &[]);
    assert_eq!(ledger.check_news(&link, &ended(ticket), &[]), Ok(()));
    ledger.ended(ticket, Fate::Ended(End::Exit(0)));
    is_false(&link, ended(ticket), &[]);
    // A child that ended before the check of its handle is accepted, because the check cannot tell.
    let ticket = admit(&ledger).unwrap();
    let mut child = Sleeper::start();
    let gone = child.handle();
    child.end();
    assert_eq!(ledger.check_news(&link, &spawned(ticket), &[gone]), Ok(()));
    assert_eq!(ledger.check_news(&link, &not_spawned(ticket), &[]), Ok(()));
}

#[test]
fn a_zygote_that_says_nothing_is_silent() {
    let ledger = ledger();
    let (none, long) = (Duration::ZERO, Duration::from_secs(3600));
    assert!(!ledger.is_overdue(1, none));
    let ticket = admit(&ledger).unwrap();
    assert!(ledger.is_overdue(1, none) && !ledger.is_overdue(1, long) && !ledger.is_overdue(2, none));
    let mut child = Sleeper::start();
    ledger.spawned(ticket, child.handle());
    assert!(!ledger.is_overdue(1, none));
    // The end of a killed child is overdue, too: otherwise its slot would remain taken.
    ledger.forget(ticket);
    let end = Instant::now() + Duration::from_secs(20);
    while !ledger.is_overdue(1, none) {
        assert!(Instant::now() < end, "the child has ended, and the zygote says nothing");
    }
    assert!(!ledger.is_overdue(1, long));
    child.end();
}
