//! Which functions are worth to be written again with longer windows, and the file with them.

use std::{collections::BTreeMap, ops::Range};

use antares_program::{Function, Program};

use crate::{
    Rewrite, RewriteError,
    arrange::{Arranged, Room},
    copies::{Copy, LOWEST, Laid, NewWindow, PAGE, lay_out},
    patch::Patches,
    plan::{Hot, Place, Searched},
    search::{Found, Machine, search},
};

/// Bytes of copies, at most.
const BYTES_MAX: u64 = 256 << 10;

/// Windows that are looked at again: hot ones, of whose function something is gained.
const WINDOWS_MAX: usize = 2000;

/// Functions that are there twice.
#[derive(Clone, Debug)]
pub(crate) struct Grown {
    copies: Vec<Copy>,
    program: Program,
    /// Where the windows are in the file, by number.
    windows: Vec<Range<usize>>,
    /// Copies end below this address.
    limit: u64,
}

/// What growing gives.
pub(crate) struct Copied {
    pub(crate) grown: Option<Grown>,
    pub(crate) rewrites: Vec<Rewrite>,
}

/// A window of a function that may be written again.
struct Longer<'a> {
    hot: &'a Hot,
    /// What it is where it may be longer, if that is cheaper.
    found: Option<Cheaper>,
    gain: u64,
}

struct Cheaper {
    found: Found,
    arranged: Arranged,
}

/// Writes functions of `elf` again where `cycles`, which windows take in their places, can be undercut.
/// `machine` says what a window is searched for, or that the time is over.
///
/// # Errors
/// There is no room below the script.
pub(crate) fn grow(
    program: Program,
    elf: &[u8],
    cycles: &[Searched],
    hot: &[Hot],
    machine: impl Fn(&Hot) -> Option<Machine>,
) -> Result<Copied, RewriteError> {
    let patches = Patches::new(elf);
    let limit = patches.first_address().unwrap_or(0);
    if limit < LOWEST + PAGE {
        return Err(RewriteError::NoRoom { first: limit });
    }
    let mut by_function: BTreeMap<usize, Vec<Longer<'_>>> = BTreeMap::new();
    for searched in cycles.iter().take(WINDOWS_MAX) {
        let hot = &hot[searched.index];
        let Some(machine) = machine(hot) else { break };
        let longer = longer(hot, searched.cycles, machine);
        if let Some(function) = function_of(&program, hot.window.pc) {
            by_function.entry(function).or_default().push(longer);
        }
    }
    let mut grown = Grown { copies: Vec::new(), program, windows: Vec::new(), limit };
    let mut rewrites = Vec::new();
    for (function, windows) in by_function {
        let gain: u64 = windows.iter().map(|window| window.gain).fold(0, u64::saturating_add);
        let first = grown.windows.len();
        let numbered = windows.iter().enumerate();
        let new = numbered.map(|(at, longer)| (longer.hot.window.pc, longer.window(first + at))).collect();
        let bytes_at = |pc: u64, length: usize| {
            let place = patches.place(pc, length).ok()?;
            patches.elf.get(place..place + length)
        };
        let (functions, vm_version) = (&grown.program.functions, grown.program.options.vm_version);
        let Some(copy) = Copy::of(&functions[function], vm_version, &new, bytes_at) else { continue };
        // Loading costs a cycle for four bytes, in each run.
        if gain <= copy.bytes_max() / 2 || !grown.takes(copy, elf) {
            continue;
        }
        for (at, window) in windows.iter().enumerate() {
            let place = patches.place(window.hot.window.pc, window.hot.window.length)?;
            grown.windows.push(place..place + window.hot.window.length);
            if let Some(Cheaper { found, arranged }) = &window.found {
                rewrites.push(window.hot.rewrite(found, arranged, Place::Copy(first + at)));
            }
        }
    }
    if rewrites.is_empty() {
        return Ok(Copied { grown: None, rewrites });
    }
    Ok(Copied { grown: Some(grown), rewrites })
}

/// The window at `hot`, which takes `now` cycles where it is.
fn longer(hot: &Hot, now: u64, machine: Machine) -> Longer<'_> {
    let found = search(&hot.window.lines, Room::Any, hot.window.live_out, machine);
    let cheaper = found.and_then(|found| {
        let arranged = found.arranged.clone().filter(|arranged| arranged.cycles < now)?;
        Some(Cheaper { found, arranged })
    });
    let gain = cheaper.as_ref().map_or(0, |cheaper| now - cheaper.arranged.cycles);
    Longer { hot, found: cheaper, gain: gain.saturating_mul(hot.runs) }
}

/// The function that the instruction at `pc` is in.
fn function_of(program: &Program, pc: u64) -> Option<usize> {
    let has = |function: &Function| {
        function.blocks.iter().any(|block| {
            let last = block.instructions.last().map_or(0, |last| last.0.0);
            (block.pc.0..=last).contains(&pc)
        })
    };
    program.functions.iter().position(has)
}

impl<'a> Longer<'a> {
    /// What stands for it in a copy, as window `number`.
    fn window(&'a self, number: usize) -> NewWindow<'a> {
        let bytes = self.found.as_ref().map(|cheaper| cheaper.arranged.bytes.as_slice());
        NewWindow { number, length: self.hot.window.length, bytes }
    }
}

impl Grown {
    /// Adds `copy`, if all of it has a place then.
    fn takes(&mut self, copy: Copy, elf: &[u8]) -> bool {
        self.copies.push(copy);
        let is_fine = self.laid(elf, |_| true).is_some_and(|laid| laid.bytes.len() as u64 <= BYTES_MAX);
        if !is_fine {
            self.copies.pop();
        }
        is_fine
    }

    /// The copies, in which windows that `takes` refuses are as in `elf`.
    fn laid(&self, elf: &[u8], takes: impl Fn(usize) -> bool) -> Option<Laid> {
        lay_out(&self.copies, self.limit, |number| {
            let place = self.windows.get(number).filter(|_| !takes(number))?;
            elf.get(place.clone())
        })
    }

    /// Addresses of windows in the copies, by number.
    pub(crate) fn places(&self, elf: &[u8], takes: impl Fn(usize) -> bool) -> BTreeMap<usize, u64> {
        self.laid(elf, takes).map(|laid| laid.windows).unwrap_or_default()
    }

    /// `elf` with the copies, in which windows that `takes` refuses are as they are there.
    pub(crate) fn write(&self, elf: &[u8], takes: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
        let mut patches = Patches::new(elf);
        self.laid(elf, takes)?.write(&self.program, &mut patches)?;
        Some(patches.elf)
    }
}
