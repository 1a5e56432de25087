//! What somebody types at a screen.

use std::collections::BTreeSet;

use antares_profile::syscall_name;

use super::{Hears, Look};
use crate::{Access, Caught, DebugError, Resume, Stop, WatchRange};

/// What there is to type.
const HELP: &str = "break PLACE, delete PLACE, watch PLACE [BYTES], unwatch, memory PLACE|stack, \
    catch CALL...|all|none, cycles N, vm N";
/// Bytes that are watched if nobody says how many.
const WATCHED_BYTES: u64 = 8;
/// Numbers of system calls that have names are below this.
const CALLS: u64 = 4_096;
/// Names of registers.
pub(crate) const REGISTERS: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

impl Look {
    /// Does what `text` says.
    pub(super) fn command(&mut self, text: &str, hears: Hears<'_>) -> Result<(), DebugError> {
        let words: Vec<_> = text.split_whitespace().collect();
        self.answer = match words.as_slice() {
            ["break" | "b", place] => self.set_point(place),
            ["delete" | "d", place] => self.delete_point(place),
            ["watch" | "w", place, rest @ ..] => self.watch(place, rest.first().copied()),
            ["unwatch"] => {
                self.debuggee.stops.remove_watches();
                "watches nothing".to_owned()
            }
            ["memory" | "m", "stack"] => {
                self.memory_at = None;
                String::new()
            }
            ["memory" | "m", place] => match self.place(place) {
                Some((address, _)) => {
                    self.memory_at = Some(address);
                    String::new()
                }
                None => no_place(place),
            },
            ["catch", calls @ ..] if !calls.is_empty() => self.catch(calls),
            ["cycles", count] => match count.parse::<u64>() {
                Ok(cycles) if cycles > self.debuggee.cycles() => {
                    self.debuggee.stops.stop_at_cycles(cycles);
                    let stop = self.go(Resume::Continue, hears)?;
                    self.stopped(&stop, false);
                    if stop == Stop::Cycles { String::new() } else { "it did not get there".to_owned() }
                }
                _ => format!("how many cycles, from {} on?", self.debuggee.cycles()),
            },
            ["vm", number] => match number.parse::<u64>().ok().filter(|vm| self.is_vm(*vm)) {
                Some(vm) => {
                    self.vm = vm;
                    String::new()
                }
                None => format!("there is no VM {number}"),
            },
            _ => HELP.to_owned(),
        };
        Ok(())
    }

    fn is_vm(&self, vm: u64) -> bool {
        self.debuggee.vms().any(|known| known == vm)
    }

    fn set_point(&mut self, place: &str) -> String {
        let addresses = self.code(place);
        for address in &addresses {
            self.points.insert(*address);
            self.debuggee.stops.add_breakpoint(*address);
        }
        match addresses.as_slice() {
            [] => no_place(place),
            [one] => format!("breakpoint at {one:#x}"),
            several => format!("breakpoints at {} addresses", several.len()),
        }
    }

    fn delete_point(&mut self, place: &str) -> String {
        let addresses = if place == "all" { self.points.iter().copied().collect() } else { self.code(place) };
        let before = self.points.len();
        for address in addresses {
            self.points.remove(&address);
            self.debuggee.stops.remove_breakpoint(address);
        }
        format!("{} breakpoints less", before - self.points.len())
    }

    /// Addresses of code at a place: also FILE:LINE, or a line of the file that is shown.
    fn code(&mut self, place: &str) -> Vec<u64> {
        let (file, line) = match place.rsplit_once(':') {
            Some((file, line)) => (Some(file.to_owned()), line),
            None => (None, place),
        };
        if let Ok(line) = line.parse::<u32>() {
            let pc = self.pc();
            let Some(names) = self.names(self.vm) else { return Vec::new() };
            let file = file.or_else(|| names.line(pc).map(|line| line.file));
            return file.map(|file| names.addresses(&file, line)).unwrap_or_default();
        }
        self.place(place).map(|(address, _)| address).into_iter().collect()
    }

    /// Address and size of a name, a register's value, or an address; perhaps with so many bytes behind.
    fn place(&mut self, text: &str) -> Option<(u64, Option<u64>)> {
        let (text, offset) = match text.split_once('+') {
            Some((text, offset)) => (text, number(offset)?),
            None => (text, 0),
        };
        let registers = self.debuggee.registers(self.vm)?;
        let register = REGISTERS.iter().position(|name| *name == text).map(|index| registers.general[index]);
        let (address, bytes) = match (number(text), register) {
            (Some(address), _) | (None, Some(address)) => (address, None),
            (None, None) if text == "pc" => (registers.pc, None),
            (None, None) => {
                let (address, bytes) = self.names(self.vm)?.find(text)?;
                (address, Some(bytes).filter(|_| offset == 0))
            }
        };
        Some((address.wrapping_add(offset), bytes))
    }

    fn watch(&mut self, place: &str, bytes: Option<&str>) -> String {
        let Some((address, known)) = self.place(place) else { return no_place(place) };
        let bytes = match bytes.map(number) {
            Some(None | Some(0)) => return "how many bytes?".to_owned(),
            Some(bytes) => bytes,
            None => known.filter(|bytes| *bytes > 0),
        };
        let bytes = bytes.unwrap_or(WATCHED_BYTES);
        self.debuggee.stops.add_watch(WatchRange { address, bytes, access: Access::Write });
        format!("watches {bytes} bytes at {address:#x}")
    }

    fn catch(&mut self, words: &[&str]) -> String {
        let mut numbers = BTreeSet::new();
        for word in words {
            let named = || (0..CALLS).find(|number| syscall_name(*number) == Some(word));
            match (*word, word.parse().ok().or_else(named)) {
                (_, Some(number)) => drop(numbers.insert(number)),
                ("all", None) => {
                    self.caught = Caught::All;
                    return "stops before every system call".to_owned();
                }
                ("none", None) => {
                    self.caught = Caught::None;
                    return "stops before no system call".to_owned();
                }
                _ => return format!("there is no system call {word}"),
            }
        }
        self.caught = Caught::Numbers(numbers);
        format!("stops before {}", words.join(", "))
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn no_place(text: &str) -> String {
    format!("there is no {text}")
}
