//! The core alone: where a script stops, forwards and backwards, and that all replays to a moment are equal.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Mutex};

use antares_debugger::session::{
    Caught, Debuggee, Registers, Resume, Stop, Target, WatchRange,
    gdb::{Wire, serve},
};
use antares_guests::{debugged, failing};
use antares_transaction::{AsLock, Environment};
use antares_verifier::{CellName, GroupKind};
use gdbstub::{common::Signal, target::ext::breakpoints::WatchKind};

/// Reported lines.
type Lines = Arc<Mutex<Vec<String>>>;

fn target(elf: Vec<u8>, args: &[&str]) -> Target {
    let mock = AsLock { elf: elf.into(), ..AsLock::default() }.to_mock().unwrap();
    Target {
        mock,
        environment: Environment::of_version(2),
        kind: GroupKind::Lock,
        cell: CellName::Input(0),
        args: args.iter().map(|arg| arg.as_bytes().to_vec().into()).collect(),
        cycles_max: 1_000_000_000,
        only_prints: false,
        breaks_on_error: false,
    }
}

fn begin(target: Target) -> (Debuggee, Lines) {
    let lines = Lines::default();
    let to = lines.clone();
    let sink = Box::new(move |_, line: &str| to.lock().unwrap().push(line.to_owned()));
    (Debuggee::new(target, sink).unwrap(), lines)
}

fn go(debuggee: &mut Debuggee, how: Resume) -> Stop {
    debuggee.resume(how, &mut || false).unwrap()
}

fn word(debuggee: &mut Debuggee, vm: u64, address: u64) -> u64 {
    let mut bytes = [0; 8];
    assert_eq!(debuggee.read(vm, address, &mut bytes), 8);
    u64::from_le_bytes(bytes)
}

/// Cycles and registers.
fn moment(debuggee: &mut Debuggee) -> (u64, u64, Registers) {
    let vm = debuggee.vm();
    (debuggee.cycles(), vm, debuggee.registers(vm).unwrap())
}

/// Address of a symbol of `elf`.
fn symbol(elf: &[u8], name: &str) -> u64 {
    use object::{Object as _, ObjectSymbol as _};
    object::File::parse(elf).unwrap().symbol_by_name(name).unwrap().address()
}

#[test]
fn a_watch_leads_back_to_who_spoiled_it_and_on_again() {
    let elf = debugged("SPOILED").unwrap();
    let (check, store, kept) = (symbol(&elf, "check"), symbol(&elf, "store"), symbol(&elf, "kept"));
    let (mut debuggee, lines) = begin(target(elf, &[]));
    debuggee.stops.add_breakpoint(check);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Breakpoint { address: check });
    let at_check = moment(&mut debuggee);
    let watch = WatchRange { address: kept + 32, bytes: 8, access: WatchKind::Write };
    debuggee.stops.add_watch(watch);
    assert_eq!(go(&mut debuggee, Resume::ContinueBack), Stop::Watch(watch));
    // Before the write.
    assert_eq!(word(&mut debuggee, 0, kept + 32), 100);
    let before = moment(&mut debuggee);
    assert!((store..store + 32).contains(&before.2.pc));
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Watch(watch));
    assert_eq!(word(&mut debuggee, 0, kept + 32), 12);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Breakpoint { address: check });
    assert_eq!(moment(&mut debuggee), at_check);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Exited(5));
    assert_eq!(*lines.lock().unwrap(), ["begins", "filled"]);
}

/// Steps of `vm` from here to its end, and the stop after them.
fn steps(debuggee: &mut Debuggee, vm: u64) -> (Vec<(u64, u64, Registers)>, Stop) {
    let mut seen = vec![moment(debuggee)];
    loop {
        match go(debuggee, Resume::Step(vm)) {
            Stop::Stepped => seen.push(moment(debuggee)),
            stop => return (seen, stop),
        }
    }
}

#[test]
fn steps_back_undo_steps() {
    let elf = debugged("SPAWNS").unwrap();
    let child = symbol(&elf, "child");
    let (mut debuggee, _) = begin(target(elf.clone(), &[]));
    let (first, stop) = steps(&mut debuggee, 0);
    assert_eq!(stop, Stop::Exited(5));
    let (mut debuggee, _) = begin(target(elf.clone(), &[]));
    debuggee.stops.add_breakpoint(child);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Breakpoint { address: child });
    assert_eq!(debuggee.vm(), 1);
    assert_eq!(debuggee.vms().collect::<Vec<_>>(), [0, 1]);
    let (second, stop) = steps(&mut debuggee, 1);
    assert_eq!(stop, Stop::Exited(5));
    // Each VM's own, from the end of the run.
    for (vm, seen) in [(1, second), (0, first)] {
        let (mut debuggee, _) = begin(target(elf.clone(), &[]));
        assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Exited(5));
        for expected in seen.iter().rev() {
            assert_eq!(go(&mut debuggee, Resume::StepBack(vm)), Stop::Stepped);
            assert_eq!(moment(&mut debuggee), *expected);
        }
        assert_eq!(go(&mut debuggee, Resume::ContinueBack), Stop::Beginning);
        // Cycles before the first instruction.
        assert_eq!(debuggee.cycles(), begin(target(elf.clone(), &[])).0.cycles());
        assert_eq!(go(&mut debuggee, Resume::StepBack(0)), Stop::Beginning);
    }
}

#[test]
fn a_system_call_s_write_is_seen_both_ways() {
    let elf = debugged("WRITTEN").unwrap();
    let buffer = symbol(&elf, "buffer");
    let (mut debuggee, _) = begin(target(elf, &[]));
    let watch = WatchRange { address: buffer + 8, bytes: 4, access: WatchKind::Write };
    debuggee.stops.add_watch(watch);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Watch(watch));
    assert_ne!(word(&mut debuggee, 0, buffer + 8), 0);
    let behind = moment(&mut debuggee);
    assert_eq!(go(&mut debuggee, Resume::ContinueBack), Stop::Watch(watch));
    assert_eq!(word(&mut debuggee, 0, buffer + 8), 0);
    assert_eq!(debuggee.next_call(0), Some(2052));
    assert_eq!(go(&mut debuggee, Resume::Step(0)), Stop::Watch(watch));
    assert_eq!(moment(&mut debuggee), behind);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Exited(0));
}

#[test]
fn an_answer_of_the_scheduler_is_seen_both_ways() {
    let elf = debugged("SPAWNS").unwrap();
    let word_of_parent = symbol(&elf, "word");
    let (mut debuggee, _) = begin(target(elf, &[]));
    let watch = WatchRange { address: word_of_parent, bytes: 8, access: WatchKind::Write };
    debuggee.stops.add_watch(watch);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Watch(watch));
    assert_eq!(debuggee.vm(), 0);
    assert_eq!(word(&mut debuggee, 0, word_of_parent), 12);
    assert_eq!(go(&mut debuggee, Resume::ContinueBack), Stop::Watch(watch));
    assert_eq!(word(&mut debuggee, 0, word_of_parent), 0);
    assert_eq!(go(&mut debuggee, Resume::ContinueBack), Stop::Beginning);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Watch(watch));
}

#[test]
fn a_program_takes_the_place_of_another_one() {
    let elf = debugged("REPLACED").unwrap();
    let check = symbol(&elf, "check");
    let (mut debuggee, _) = begin(target(elf, &[]));
    debuggee.stops.caught = Caught::Numbers([2043].into());
    debuggee.stops.add_breakpoint(check);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Call(2043));
    let before = moment(&mut debuggee);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Breakpoint { address: check });
    assert_eq!(go(&mut debuggee, Resume::ContinueBack), Stop::Call(2043));
    assert_eq!(moment(&mut debuggee), before);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Breakpoint { address: check });
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Exited(5));
}

#[test]
fn errors_stop_where_they_are() {
    let of_memory =
        "STORE_INTO_CODE STORE_OUTSIDE LOAD_OUTSIDE STACK_OVERFLOW JUMP_TO_ZERO JUMP_INTO_DATA".split(' ');
    let others = [
        ("NO_INSTRUCTION", 0, Signal::SIGILL),
        ("NO_SUCH_CALL", 0, Signal::SIGSYS),
        ("CHILD_TRAPS", 1, Signal::SIGSEGV),
    ];
    for (case, vm, fault) in of_memory.map(|case| (case, 0, Signal::SIGSEGV)).chain(others) {
        let (mut debuggee, _) = begin(target(failing(case, false).unwrap(), &[]));
        let stop = go(&mut debuggee, Resume::Continue);
        let is_it = |stop: &Stop, reported: bool| matches!(stop, Stop::Failed { fault: of, again, .. } if *of == fault && *again == reported);
        assert!(is_it(&stop, false), "{case}: {stop:?}");
        assert_eq!(debuggee.vm(), vm, "{case}");
        let at = moment(&mut debuggee);
        assert!(is_it(&go(&mut debuggee, Resume::Continue), true), "{case}");
        assert_eq!(go(&mut debuggee, Resume::StepBack(vm)), Stop::Stepped, "{case}");
        // An invalid instruction fails as soon as it is next.
        let mut stop = go(&mut debuggee, Resume::Step(vm));
        assert_eq!(moment(&mut debuggee), at, "{case}");
        if stop == Stop::Stepped {
            stop = go(&mut debuggee, Resume::Step(vm));
        }
        assert!(is_it(&stop, false), "{case}: {stop:?}");
        assert_eq!(moment(&mut debuggee), at, "{case}");
    }
}

#[test]
fn a_failing_exit_is_stopped_before_if_wanted() {
    let elf = debugged("SPOILED").unwrap();
    let (mut debuggee, _) = begin(Target { breaks_on_error: true, ..target(elf, &[]) });
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::FailingExit(5));
    assert_eq!(debuggee.next_call(0), Some(93));
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Exited(5));
}

#[test]
fn cycles_stop_once() {
    let elf = debugged("SPINS").unwrap();
    let (mut debuggee, _) = begin(target(elf, &["1000"]));
    debuggee.stops.cycles = Some(3_000);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Cycles);
    let cycles = debuggee.cycles();
    assert!((3_000..3_100).contains(&cycles), "{cycles}");
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Exited(0));
}

#[test]
fn a_limit_of_cycles_is_an_error_where_it_is_met() {
    let elf = debugged("SPINS").unwrap();
    let (mut debuggee, _) = begin(Target { cycles_max: 100_000, ..target(elf, &["1000000"]) });
    let stop = go(&mut debuggee, Resume::Continue);
    assert!(matches!(stop, Stop::Failed { fault: Signal::SIGXCPU, .. }), "{stop:?}");
    let cycles = debuggee.cycles();
    assert!((99_000..=100_000).contains(&cycles), "{cycles}");
}

/// Far enough for several images along the run, in both directions, with equal moments.
#[test]
fn far_moments_are_the_same_from_both_sides() {
    let elf = debugged("SPINS").unwrap();
    let (before, spin) = (symbol(&elf, "kept"), symbol(&elf, "spin"));
    let (mut debuggee, lines) = begin(target(elf.clone(), &["4000000"]));
    debuggee.stops.add_breakpoint(spin);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Breakpoint { address: spin });
    let at_spin = moment(&mut debuggee);
    let watch = WatchRange { address: before + 8, bytes: 8, access: WatchKind::Write };
    debuggee.stops.add_watch(watch);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Watch(watch));
    let behind = moment(&mut debuggee);
    assert!(behind.0 - at_spin.0 > 16_000_000, "{}", behind.0);
    assert_eq!(go(&mut debuggee, Resume::StepBack(0)), Stop::Stepped);
    assert_eq!(go(&mut debuggee, Resume::ContinueBack), Stop::Breakpoint { address: spin });
    assert_eq!(moment(&mut debuggee), at_spin);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Watch(watch));
    assert_eq!(moment(&mut debuggee), behind);
    assert_eq!(go(&mut debuggee, Resume::Continue), Stop::Exited(0));
    assert_eq!(*lines.lock().unwrap(), ["spun"]);
    // The cycles are those of a run without a debugger, and of one with other images.
    let (mut other, _) = begin(target(elf, &["4000000"]));
    assert_eq!(go(&mut other, Resume::Continue), Stop::Exited(0));
    assert_eq!(other.cycles(), debuggee.cycles());
}

/// A debugger that has already sent everything.
struct Sent {
    bytes: Vec<u8>,
    answers: Arc<Mutex<Vec<u8>>>,
}

impl Wire for Sent {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let bytes: Vec<u8> = self.bytes.drain(..self.bytes.len().min(into.len())).collect();
        into[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn is_waiting(&mut self) -> std::io::Result<bool> {
        Ok(!self.bytes.is_empty())
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.answers.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }
}

fn packet(text: &str) -> Vec<u8> {
    let sum = text.bytes().fold(0u8, u8::wrapping_add);
    format!("${text}#{sum:02x}").into_bytes()
}

#[test]
fn malformed_packets_get_an_error_and_end_nothing() {
    let malformed = "m, mzz,1 vCont;x Hgfffffffffffffffff G00 qRcmd,zz QCatchSyscalls:1;zz";
    let malformed = malformed.split(' ').map(packet).chain([b"$m0,1#zz".to_vec()]);
    let cases = malformed.map(|packet| (packet, "$E16#ac"));
    for (malformed, expected) in cases.chain([(packet("qSupported"), "PacketSize=")]) {
        let (debuggee, _) = begin(target(debugged("SPOILED").unwrap(), &[]));
        let answers = Arc::<Mutex<Vec<u8>>>::default();
        let bytes = [&malformed[..], &packet("?")[..], &packet("D")[..]].concat();
        let ended = serve(debuggee, Sent { bytes, answers: answers.clone() }, true).unwrap();
        let answers = String::from_utf8_lossy(&answers.lock().unwrap()).into_owned();
        let malformed = String::from_utf8_lossy(&malformed);
        assert_eq!(ended, antares_hosted::job::DebugEnd::Left, "{malformed}: {answers}");
        let stopped = answers.find(expected).and_then(|at| answers[at..].find("$T05"));
        assert!(stopped.is_some(), "{malformed}: {answers}");
    }
}
