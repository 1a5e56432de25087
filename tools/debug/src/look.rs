//! A [`Debuggee`] as somebody at a screen sees it: lines, calls, and steps by line, forwards and backwards.

mod command;
mod names;
mod steps;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
};

use antares_hosted::look::{LookAsk, LookView};

use crate::{Caught, DebugError, Debuggee, Resume, Stop};
use names::Names;

/// System calls that are remembered, at most.
const CALLS_MAX: usize = 1 << 16;

/// What is told whether somebody wants to stop.
pub type Hears<'a> = &'a mut dyn FnMut() -> bool;

/// A debuggee, and what somebody at a screen knows of it.
pub struct Look {
    debuggee: Debuggee,
    /// The VM that is looked at.
    vm: u64,
    /// By the number of the program.
    names: HashMap<usize, Names>,
    /// Breakpoints that somebody has set.
    points: BTreeSet<u64>,
    caught: Caught,
    /// System calls that were come by, by the cycles of all before them, and the VM.
    calls: BTreeMap<(u64, u64), String>,
    /// Where the memory that is shown begins; none for the stack.
    memory_at: Option<u64>,
    stop: String,
    answer: String,
}

impl Look {
    /// Looks at `debuggee`.
    #[must_use]
    pub fn new(debuggee: Debuggee) -> Self {
        let vm = debuggee.vm();
        let (names, points, calls) = (HashMap::new(), BTreeSet::new(), BTreeMap::new());
        let (stop, answer) = ("begins".to_owned(), String::new());
        Self { debuggee, vm, names, points, caught: Caught::None, calls, memory_at: None, stop, answer }
    }

    /// Does what is asked for; what there is to see then. `hears` is asked now and then whether to stop.
    ///
    /// # Errors
    /// The run cannot go on.
    pub fn answer(&mut self, ask: &LookAsk, hears: Hears<'_>) -> Result<LookView, DebugError> {
        if *ask != LookAsk::Stop {
            (self.stop, self.answer) = (String::new(), String::new());
        }
        match ask {
            LookAsk::Go { far, back } => {
                let stop = if *back { self.back(*far, hears)? } else { self.on(*far, hears)? };
                self.stopped(&stop, *back);
            }
            LookAsk::Command(words) => self.command(words, hears)?,
            LookAsk::Stop => {}
        }
        Ok(self.view())
    }

    /// Tells why it stopped.
    fn stopped(&mut self, stop: &Stop, back: bool) {
        if !matches!(stop, Stop::Stepped) {
            self.vm = self.debuggee.vm();
        }
        self.stop = self.reason(stop, back);
    }

    /// On, or back, by what `how` says; system calls that are come by are remembered.
    fn go(&mut self, how: Resume, hears: Hears<'_>) -> Result<Stop, DebugError> {
        let is_back = matches!(how, Resume::StepBack(_) | Resume::ContinueBack);
        loop {
            self.note();
            let caught = if is_back { self.caught.clone() } else { Caught::All };
            self.debuggee.stops.catch(caught);
            let stop = self.debuggee.resume(how, hears)?;
            match stop {
                Stop::Call(number) if !is_back && !self.catches(number) => {}
                stop => return Ok(stop),
            }
        }
    }

    fn catches(&self, number: u64) -> bool {
        match &self.caught {
            Caught::None => false,
            Caught::All => true,
            Caught::Numbers(numbers) => numbers.contains(&number),
        }
    }

    /// Remembers the system call that comes next, if one does.
    fn note(&mut self) {
        let vm = self.debuggee.vm();
        let key = (self.debuggee.cycles(), vm);
        if self.calls.contains_key(&key) {
            return;
        }
        if let Some(text) = self.next_call(vm) {
            if self.calls.len() >= CALLS_MAX {
                self.calls.pop_first();
            }
            self.calls.insert(key, text);
        }
    }

    /// The last system calls before now.
    fn calls_before(&self, most: usize) -> Vec<String> {
        let now = (self.debuggee.cycles(), 0);
        let before = self.calls.range((Bound::Unbounded, Bound::Excluded(now))).rev().take(most);
        let mut calls: Vec<_> = before.map(|(_, text)| text.clone()).collect();
        calls.reverse();
        calls
    }

    /// The names of the program that `vm` runs.
    fn names(&mut self, vm: u64) -> Option<&mut Names> {
        let number = self.debuggee.program_number(vm)?;
        if !self.names.contains_key(&number) {
            let names = Names::of(self.debuggee.program_at(number)?, self.debuggee.vm_version());
            self.names.insert(number, names);
        }
        self.names.get_mut(&number)
    }

    fn pc(&mut self) -> u64 {
        self.debuggee.registers(self.vm).map_or(0, |registers| registers.pc)
    }
}

impl std::fmt::Debug for Look {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Look").field("debuggee", &self.debuggee).finish_non_exhaustive()
    }
}
