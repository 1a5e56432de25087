//! What a screen asks for: steps by line lead back the way they came, over calls and into them.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

use antares_debug::{Debuggee, Look, Target};
use antares_guests::debugged;
use antares_hosted::look::{Far, LookAsk, LookView};
use antares_transaction::{AsLock, Environment};
use antares_verifier::{CellName, GroupKind};

fn look(case: &str, args: &[&str]) -> Look {
    let elf = debugged(case).unwrap();
    let mock = AsLock { elf: elf.into(), ..AsLock::default() }.to_mock().unwrap();
    let target = Target {
        mock,
        environment: Environment::of_version(2),
        kind: GroupKind::Lock,
        cell: CellName::Input(0),
        args: args.iter().map(|arg| arg.as_bytes().to_vec().into()).collect(),
        cycles_max: 1_000_000_000,
        only_prints: false,
        breaks_on_error: false,
    };
    Look::new(Debuggee::new(target, Box::new(|_, _| ())).unwrap())
}

fn go(look: &mut Look, far: Far, back: bool) -> LookView {
    look.answer(&LookAsk::Go { far, back }, &mut || false).unwrap()
}

fn command(look: &mut Look, text: &str) -> LookView {
    look.answer(&LookAsk::Command(text.to_owned()), &mut || false).unwrap()
}

/// Cycles, place and line.
fn moment(view: &LookView) -> (u64, u64, u32) {
    (view.cycles, view.pc, view.frames.first().map_or(0, |frame| frame.line))
}

#[test]
fn steps_by_line_lead_back_the_way_they_came() {
    for (case, args) in [("SPOILED", &[][..]), ("SPINS", &["300"])] {
        for far in [Far::Line, Far::Over] {
            let mut look = look(case, args);
            command(&mut look, "break script");
            let mut seen = vec![moment(&go(&mut look, Far::On, false))];
            command(&mut look, "delete all");
            loop {
                let view = go(&mut look, far, false);
                if view.stop.starts_with("exited") {
                    break;
                }
                seen.push(moment(&view));
            }
            assert!(seen.len() > 4, "{case}: {seen:?}");
            // The end is no line's beginning: from there to the last one.
            while moment(&look.view()).0 > seen.last().unwrap().0 {
                go(&mut look, Far::Instruction, true);
            }
            for expected in seen.iter().rev().skip(1) {
                assert_eq!(moment(&go(&mut look, far, true)), *expected, "{case} {far:?} {seen:?}");
            }
        }
    }
}

#[test]
fn calls_are_left_both_ways_and_told() {
    let mut look = look("SPOILED", &[]);
    command(&mut look, "break store");
    let inside = go(&mut look, Far::On, false);
    let names: Vec<_> = inside.frames.iter().map(|frame| frame.function.as_str()).collect();
    assert_eq!(names, ["store", "fill", "script", "_start"]);
    let before = go(&mut look, Far::Out, true);
    assert_eq!(before.frames[0].function, "fill");
    assert_eq!(moment(&go(&mut look, Far::Instruction, false)), moment(&inside));
    command(&mut look, "delete store");
    let behind = go(&mut look, Far::Out, false);
    assert_eq!(behind.frames[0].function, "fill");
    assert!(behind.cycles > inside.cycles);
    assert_eq!(behind.calls, ["VM 0 debug(0x100d8)"]);
    // What comes later is not told of before.
    let ended = go(&mut look, Far::On, false);
    assert_eq!(ended.stop, "exited with 5");
    assert_eq!(ended.calls.len(), 3);
    command(&mut look, "break fill");
    assert_eq!(go(&mut look, Far::On, true).calls, ["VM 0 debug(0x100d8)"]);
}

#[test]
fn what_makes_no_sense_is_answered() {
    let mut look = look("SPOILED", &[]);
    for (text, answer) in [
        ("", "break PLACE"),
        ("break nowhere", "there is no nowhere"),
        ("break 0x", "there is no 0x"),
        ("break no.c:7", "there is no no.c:7"),
        ("delete all", "0 breakpoints less"),
        ("watch kept none", "how many bytes?"),
        ("watch kept 0", "how many bytes?"),
        ("watch kept", "watches 40 bytes"),
        ("memory nowhere", "there is no nowhere"),
        ("catch nothing", "there is no system call nothing"),
        ("cycles 1", "how many cycles"),
        ("vm 7", "there is no VM 7"),
        ("memory 0xffffffffffffffff", ""),
    ] {
        let view = command(&mut look, text);
        assert!(view.answer.starts_with(answer), "{text}: {}", view.answer);
    }
    assert!(look.view().memory.is_empty());
    let written = command(&mut look, "cycles 1000000");
    assert!(written.stop.contains("was written") && written.answer == "it did not get there", "{written:?}");
    let back = go(&mut look, Far::On, true);
    assert!(back.stop.contains("is about to be written"), "{}", back.stop);
}
