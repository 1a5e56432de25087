//! The subcommands of gdb's `monitor`.

use std::collections::BTreeSet;

use antares_profile::syscall_name;
use gdbstub::{
    outputln,
    target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd},
};

use super::Session;
use crate::session::{Caught, DebugError};

const HELP: &str = "\
cycles             cycles of all VMs so far
break-at-cycles N  stop once, before the first instruction behind N cycles
catch CALL ...     stop before these system calls: names, numbers, all or none
call               the system call that comes next, and its arguments
vms                the VMs, and which of them runs
help               this";

impl MonitorCmd for Session {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), DebugError> {
        let text = String::from_utf8_lossy(command);
        let mut words = text.split_whitespace();
        match (words.next(), words.next()) {
            (Some("cycles"), None) => outputln!(out, "{}", self.debuggee.cycles()),
            (Some("break-at-cycles"), Some(cycles)) => match cycles.parse::<u64>() {
                Ok(cycles) if cycles > self.debuggee.cycles() => {
                    self.debuggee.stops.cycles = Some(cycles);
                    outputln!(out, "the next continue stops behind {cycles} cycles, if it gets there");
                }
                Ok(_) => outputln!(out, "that is behind us: {} cycles so far", self.debuggee.cycles()),
                Err(_) => outputln!(out, "how many cycles? {cycles} is no number"),
            },
            (Some("catch"), Some(first)) => {
                let said = self.catch([first].into_iter().chain(words));
                outputln!(out, "{said}");
            }
            (Some("call"), None) => outputln!(out, "{}", self.next_call()),
            (Some("vms"), None) => {
                let runs = self.debuggee.vm();
                let vms: Vec<_> = self.debuggee.vms().collect();
                for vm in vms {
                    let pc = self.debuggee.registers(vm).map_or(0, |registers| registers.pc);
                    let what = if vm == runs { "runs" } else { "waits" };
                    outputln!(out, "VM {vm} {what} at {pc:#x}");
                }
            }
            (None | Some("help"), None) => outputln!(out, "{HELP}"),
            _ => outputln!(out, "there is no such command; there is:\n{HELP}"),
        }
        Ok(())
    }
}

/// Upper limit of the numbers of named system calls.
const CALLS: u64 = 4_096;
/// Registers of a system call's arguments.
const ARGUMENTS: std::ops::Range<usize> = 10..16;

impl Session {
    /// Stops before the named calls from now on; returns the reply.
    fn catch<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> String {
        let mut numbers = BTreeSet::new();
        for word in words {
            let named = || (0..CALLS).find(|number| syscall_name(*number) == Some(word));
            match word.parse().ok().or_else(named) {
                Some(number) => drop(numbers.insert(number)),
                None if word == "all" => {
                    self.debuggee.stops.caught = Caught::All;
                    self.by_monitor = true;
                    return "stops before every system call".to_owned();
                }
                None if word == "none" => {
                    self.debuggee.stops.caught = Caught::None;
                    return "stops before no system call".to_owned();
                }
                None => return format!("there is no system call {word}"),
            }
        }
        let names: Vec<_> = numbers.iter().map(|number| call_name(*number)).collect();
        self.debuggee.stops.caught = Caught::Numbers(numbers);
        self.by_monitor = true;
        format!("stops before {}", names.join(", "))
    }

    /// The next system call.
    fn next_call(&mut self) -> String {
        let vm = self.debuggee.vm();
        let call = self.debuggee.next_call(vm).zip(self.debuggee.registers(vm));
        let Some((number, registers)) = call else { return format!("none: VM {vm} computes") };
        let arguments: Vec<_> =
            registers.general[ARGUMENTS].iter().map(|value| format!("{value:#x}")).collect();
        format!("VM {vm}: {}({})", call_name(number), arguments.join(", "))
    }
}

/// A system call's name and number.
fn call_name(number: u64) -> String {
    syscall_name(number).map_or_else(|| number.to_string(), |name| format!("{name} [{number}]"))
}
