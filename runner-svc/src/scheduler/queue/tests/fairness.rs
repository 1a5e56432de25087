//! The queue on a simulated clock: how long a light tenant waits for heavy ones, and that nobody starves.

use antares_serve::Account;

use crate::scheduler::queue::*;

/// Microseconds of a run.
const HEAVY: u64 = 79_000;
const LIGHT: u64 = 500;
/// The light tenant's pause between two calls.
const THINK: u64 = 300;
const END: u64 = 60_000_000;

/// A caller that sends its next call `think` after the answer.
#[derive(Clone)]
struct Sender {
    key: Key,
    run: u64,
    think: u64,
}

#[derive(Default)]
struct Seen {
    waits: Vec<u64>,
    worked: u64,
}

struct Simulation {
    state: State<usize>,
    senders: Vec<Sender>,
    /// Arrival times of calls, by sender.
    came: Vec<u64>,
    seen: Vec<Seen>,
    now: u64,
    /// The next events: a sender's call arrives, or its run ends.
    events: std::collections::BTreeSet<(u64, usize, bool)>,
}

impl Simulation {
    fn run(slots: usize, senders: Vec<Sender>) -> Vec<Seen> {
        let events = (0..senders.len()).map(|at| (at as u64, at, true)).collect();
        let (came, seen) = (vec![0; senders.len()], senders.iter().map(|_| Seen::default()).collect());
        let mut this = Self { state: State::new(slots), senders, came, seen, now: 0, events };
        while let Some((now, at, comes)) = this.events.pop_first().filter(|(now, ..)| *now < END) {
            this.now = now;
            let Sender { key, run, think } = this.senders[at].clone();
            if comes {
                this.came[at] = now;
                this.state.push(&key, at, now);
            } else {
                this.state.end(&key, now - run, now);
                this.seen[at].worked += run;
                this.events.insert((now + think, at, true));
            }
            while let Some((_, next)) = this.state.next(now) {
                this.seen[next].waits.push(now - this.came[next]);
                this.events.insert((now + this.senders[next].run, next, false));
            }
        }
        this.seen
    }
}

fn key(caller: &str, name: &str) -> Key {
    Key { caller: Account::proven(caller).identity(), name: name.into() }
}

fn senders(count: usize, run: u64, think: u64, of: impl Fn(usize) -> Key) -> Vec<Sender> {
    (0..count).map(|at| Sender { key: of(at), run, think }).collect()
}

fn light() -> Sender {
    Sender { key: key("light", ""), run: LIGHT, think: THINK }
}

#[test]
fn a_light_tenant_waits_for_one_run_of_a_heavy_one_at_most() {
    for count in [1, 2, 8, 64] {
        let heavy = senders(count, HEAVY, 0, |_| key("heavy", ""));
        let seen = Simulation::run(1, [vec![light()], heavy].concat());
        assert!(seen[0].waits.iter().all(|wait| *wait <= HEAVY), "{count}: {:?}", seen[0].waits.iter().max());
        let worked: u64 = seen.iter().map(|seen| seen.worked).sum();
        assert!(worked + 2 * HEAVY > END, "{count}: the worker is never idle");
    }
}

#[test]
fn a_light_tenant_waits_for_nobody_where_there_are_two_workers() {
    for (slots, count) in [(2, 1), (2, 2), (2, 8), (4, 8), (8, 64)] {
        for of in [|_| key("heavy", ""), |at| key("heavy", ["a", "b"][at % 2])] {
            let seen = Simulation::run(slots, [vec![light()], senders(count, HEAVY, 0, of)].concat());
            assert_eq!(seen[0].waits.iter().max(), Some(&0), "{slots} {count}");
            let heavy: u64 = seen[1..].iter().map(|seen| seen.worked).sum();
            assert!(heavy + 2 * HEAVY * slots as u64 > END * count.min(slots - 1) as u64, "{slots} {count}");
        }
    }
}

#[test]
fn a_light_tenant_among_several_heavy_ones_waits_for_one_run_at_most() {
    for slots in [1, 2, 4] {
        let heavy = senders(64, HEAVY, 0, |at| key(&format!("heavy {}", at % 8), ""));
        let seen = Simulation::run(slots, [vec![light()], heavy].concat());
        let mut waits = seen[0].waits.clone();
        waits.sort_unstable();
        // Its second call meets eight callers without any time so far.
        assert!(waits.len() > 200 && waits[waits.len() - 2] <= HEAVY, "{waits:?}");
        let mut of: Vec<u64> = (0..8)
            .map(|tenant| seen[1..].iter().skip(tenant).step_by(8).map(|seen| seen.worked).sum())
            .collect();
        of.sort_unstable();
        assert!(of[7] - of[0] <= 2 * HEAVY * slots as u64, "{of:?}");
    }
}

#[test]
fn time_and_not_calls_is_shared() {
    let short = senders(8, 1_000, 0, |_| key("short", ""));
    let long = senders(8, HEAVY, 0, |_| key("long", ""));
    let seen = Simulation::run(2, [short, long].concat());
    let worked = |of: &[Seen]| of.iter().map(|seen| seen.worked).sum::<u64>();
    let (short, long) = (worked(&seen[..8]), worked(&seen[8..]));
    assert!(short.abs_diff(long) < END / 50, "{short} {long}");
    // Names of one caller share its time.
    let names = senders(16, HEAVY, 0, |at| key("names", &at.to_string()));
    let one = senders(2, HEAVY, 0, |_| key("one", ""));
    let seen = Simulation::run(2, [names, one].concat());
    let (names, one) = (worked(&seen[..16]), worked(&seen[16..]));
    assert!(names.abs_diff(one) <= 4 * HEAVY, "{names} {one}");
    assert!(seen[..16].iter().all(|seen| seen.worked > 0), "no name starves");
}

#[test]
fn a_lone_tenant_has_all_workers_and_its_calls_stay_in_order() {
    let mut state = State::new(2);
    let (lone, other) = (key("lone", ""), key("other", ""));
    (0..4).for_each(|call| state.push(&lone, call, 0));
    let calls: Vec<_> = std::iter::from_fn(|| state.next(0)).map(|(_, call)| call).collect();
    assert_eq!(calls, [0, 1]);
    state.end(&lone, 0, 10);
    assert_eq!(state.next(10), Some((lone.clone(), 2)));
    state.end(&lone, 0, 20);
    state.push(&other, 9, 20);
    assert_eq!(state.next(20), Some((other.clone(), 9)));
    state.end(&other, 20, 30);
    assert_eq!(state.next(30), None, "the last worker waits for the other");
    assert_eq!(state.next(30 + RECENT_US), Some((lone, 3)), "but not for ever");
}

#[test]
fn idle_time_earns_nothing_and_the_past_is_bounded() {
    let mut state = State::new(1);
    let (busy, idle) = (key("busy", ""), key("idle", ""));
    let run = |state: &mut State<()>, of: &Key, now| {
        state.push(of, (), now);
        assert_eq!(state.next(now).map(|(key, ())| key).as_ref(), Some(of));
        state.end(of, now, now + 10);
    };
    run(&mut state, &idle, 0);
    (1..1_000).for_each(|at| run(&mut state, &busy, at * 10));
    for _ in 0..4 {
        state.push(&idle, (), 10_000);
        state.push(&busy, (), 10_000);
    }
    let order: Vec<_> = (0..8)
        .map(|at| {
            let (key, ()) = state.next(10_000 + at * 10).unwrap();
            state.end(&key, 10_000 + at * 10, 10_010 + at * 10);
            key == idle
        })
        .collect();
    assert_eq!(order.iter().take(4).filter(|is_idle| **is_idle).count(), 2, "{order:?}");
    (0..2_000).for_each(|at| run(&mut state, &key(&at.to_string(), ""), 20_000 + at * 10));
    assert!(state.callers.all.len() < 300);
}
