//! Assembly, between compiler and assembler: the same search and proofs, without a length to keep.
//!
//! ```text
//! statement   what a line says
//! liveness    registers that are used behind it, by the calling convention
//! names       registers, operations and numbers as words
//! ```
//! Compilers keep the convention; for what a person wrote it is an assumption.

mod liveness;
mod names;
mod statement;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use antares_abi::{CompileOptions, Isa};

use crate::{
    Left, Rewrite, RewriteError, SolverAnswer, Statement,
    arrange::Room,
    assembly::{
        names::{is_of_b, printed},
        statement::{Said, goes_between_names, is_name, read},
    },
    cost::Fusions,
    encode::Line,
    rewrite::{Leftovers, prove},
    search::{Machine, search},
};

/// Bytes of a file, at most.
pub const ASSEMBLY_BYTES_MAX: usize = 64 << 20;

/// Instructions of a window, at most.
const INSTRUCTIONS_MAX: usize = 600;

/// Registers assigned by chance, for each pair: without a profile every window may be the hot one.
const TRIES: u32 = 12;

/// Lets the assembler know the B extension for a while.
const WITH_B: [&str; 2] = ["\t.option push", "\t.option arch, +zba, +zbb, +zbs"];

/// Rewritten assembly.
#[derive(Clone, Debug)]
pub struct AssemblyPlan {
    lines: Vec<String>,
    /// The windows, those that save most first. Each counts as run once.
    pub rewrites: Vec<Rewrite>,
    replaced: Vec<Replaced>,
    /// What was left.
    pub left: Vec<Left>,
    /// Windows that were looked at.
    pub windows: usize,
}

/// Lines of the file that are others now.
#[derive(Clone, Debug)]
struct Replaced {
    lines: Range<usize>,
    /// Without what says nothing to code, which stays.
    by: Vec<String>,
}

/// A row of instructions that is entered at its start alone.
struct Window {
    lines: Range<usize>,
    instructions: Vec<Line>,
}

/// Finds what can be rewritten in the assembly `text`. `progress` is told how many windows of how many are
/// done, and ends the search by saying `false`.
///
/// # Errors
/// The text is too long, or jumps to places without a name.
pub fn plan_assembly(
    text: &str,
    options: CompileOptions,
    progress: impl Fn(usize, usize) -> bool,
) -> Result<AssemblyPlan, RewriteError> {
    if text.len() > ASSEMBLY_BYTES_MAX {
        return Err(RewriteError::TooLong { bytes: text.len() });
    }
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(at) = lines.iter().position(|line| goes_between_names(line)) {
        return Err(RewriteError::NoName { line: at + 1 });
    }
    let said = said(&lines);
    let live = liveness::before(&said);
    let windows = windows(&said);
    let functions = functions(&lines, &said);
    let machine = Machine { fusions: Fusions::of(options), has_b: options.isa.has(Isa::B), tries: TRIES };
    let (mut made, mut left) = (Vec::new(), Leftovers::default());
    for (index, Window { lines: place, instructions }) in windows.iter().enumerate() {
        if !progress(index, windows.len()) {
            break;
        }
        let live_out = live[place.end];
        let Some(found) = search(instructions, Room::Any, live_out, machine) else { continue };
        left.add(&found, 1);
        let Some(arranged) = found.arranged else { continue };
        let Some(by) = written(&arranged.lines) else { continue };
        // The proof is about what is written.
        let read_again = by.iter().map(|line| read(line, true)).filter_map(|said| match said {
            Said::Instructions(lines) => Some(lines),
            _ => None,
        });
        let new: Vec<Line> = read_again.flatten().collect();
        let before = functions.range(..=place.start).next_back().copied();
        let function = before.map_or("", |at| lines[at].trim().trim_end_matches(':')).to_owned();
        let rewrite = Rewrite {
            pc: place.start as u64 + 1,
            bytes: instructions.len(),
            function,
            runs: 1,
            cycles_before: found.before,
            cycles_after: arranged.cycles,
            rules: found.used,
            live_out,
            statement: Statement::new(instructions.clone(), new, live_out),
            ..Rewrite::default()
        };
        made.push((rewrite, Replaced { lines: place.clone(), by }));
    }
    made.sort_by_key(|(rewrite, _)| (std::cmp::Reverse(rewrite.saved()), rewrite.pc));
    let (rewrites, replaced) = made.into_iter().unzip();
    Ok(AssemblyPlan { lines, rewrites, replaced, left: left.all(), windows: windows.len() })
}

impl AssemblyPlan {
    /// As [`crate::Plan::prove`].
    pub fn prove(
        &mut self,
        threads: usize,
        solver: impl Fn(&Statement) -> SolverAnswer + Sync,
        progress: impl Fn(usize) + Sync,
    ) {
        prove(&mut self.rewrites, threads, solver, progress);
    }

    /// The text, in which only what was proved is changed.
    #[must_use]
    pub fn proved_text(&self) -> String {
        let pairs = self.rewrites.iter().zip(&self.replaced);
        let proved = pairs.filter(|(rewrite, _)| rewrite.is_proved == Some(true));
        let mut changes: Vec<&Replaced> = proved.map(|(_, replaced)| replaced).collect();
        changes.sort_by_key(|change| change.lines.start);
        let mut text = String::new();
        let mut add = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        let mut at = 0;
        for Replaced { lines, by } in changes {
            self.lines[at..lines.start].iter().for_each(|line| add(line));
            // Labels for the debugger and lines of the source, at the window's start.
            let stays = |line: &&String| !matches!(read(line, true), Said::Instructions(_));
            self.lines[lines.clone()].iter().filter(stays).for_each(|line| add(line));
            by.iter().for_each(|line| add(line));
            at = lines.end;
        }
        self.lines[at..].iter().for_each(|line| add(line));
        text
    }
}

/// What each line says; labels that only a debugger knows say nothing.
fn said(lines: &[String]) -> Vec<Said> {
    let is_arch = |line: &&String| line.trim_start().starts_with(".attribute") && line.contains("_zbb");
    let has_b = lines.iter().any(|line| is_arch(&line));
    let mut said: Vec<Said> = lines.iter().map(|line| read(line, has_b)).collect();
    let named = named(lines);
    for line in &mut said {
        if matches!(&*line, Said::Label(name) if name.starts_with(".L") && !named.contains(name.as_str())) {
            *line = Said::Nothing;
        }
    }
    said
}

/// Names that stand anywhere but in what is for a debugger, or before a colon.
fn named(lines: &[String]) -> HashSet<&str> {
    let mut names = HashSet::new();
    let mut is_debugging = false;
    for line in lines {
        let text = line.trim();
        let first = text.split_whitespace().next().unwrap_or("");
        match first {
            ".section" | ".pushsection" => is_debugging = text.contains(".debug_"),
            ".text" | ".data" | ".bss" | ".previous" | ".popsection" => is_debugging = false,
            _ => {}
        }
        if is_debugging || first == ".loc" || text.strip_suffix(':').is_some_and(is_name) {
            continue;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        names.extend(text.split(|c| !is_part(c)).filter(|name| !name.is_empty()));
    }
    names
}

/// Lines with the names of functions.
fn functions(lines: &[String], said: &[Said]) -> BTreeSet<usize> {
    let is_function = |at: &usize| matches!(&said[*at], Said::Label(name) if !name.starts_with('.'));
    (0..lines.len()).filter(is_function).collect()
}

fn windows(said: &[Said]) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let mut is_open = false;
    for (at, said) in said.iter().enumerate() {
        match said {
            Said::Nothing => {}
            Said::Instructions(lines) => {
                let goes_on = |window: &&mut Window| is_open && window.instructions.len() < INSTRUCTIONS_MAX;
                match windows.last_mut().filter(goes_on) {
                    Some(window) => {
                        window.instructions.extend(lines);
                        window.lines.end = at + 1;
                    }
                    None => windows.push(Window { lines: at..at + 1, instructions: lines.clone() }),
                }
                is_open = true;
            }
            _ => is_open = false,
        }
    }
    windows
}

/// `lines` as text.
fn written(lines: &[Line]) -> Option<Vec<String>> {
    let texts: Option<Vec<String>> =
        lines.iter().map(|line| printed(line).map(|text| format!("\t{text}"))).collect();
    let texts = texts?;
    if !lines.iter().any(|line| is_of_b(line.op)) {
        return Some(texts);
    }
    let start = WITH_B.map(str::to_owned);
    Some(start.into_iter().chain(texts).chain(["\t.option pop".to_owned()]).collect())
}
