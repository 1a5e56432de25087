//! Coverage of the source of scripts, from any number of exact profiles: lines, functions and branches.

use std::collections::BTreeMap;

use antares_abi::CompileOptions;
use antares_profile::{Profile, ProfiledProgram};
use serde::Serialize;

use crate::{
    Programs, Symbols,
    branches::branches,
    dwarf::{LineRow, row_at},
    symbols::program,
};

/// Line table rows before an address to search for one that covers it.
const NESTED_MAX: usize = 64;

/// Execution counts of instructions, over all added runs.
#[derive(Debug, Default)]
pub struct SourceCoverage {
    counts: BTreeMap<ProfiledProgram, BTreeMap<u64, u64>>,
    programs: Programs,
    runs: u64,
}

/// A source file with code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoveredFile {
    /// Executions of each line: those of its most frequent instruction.
    pub lines: BTreeMap<u32, u64>,
    /// By name: the function's first line and its executions.
    pub functions: BTreeMap<String, (u32, u64)>,
    /// By line and index within the line.
    pub branches: BTreeMap<(u32, u32), CoveredBranch>,
    /// Branches that ran, but whose direction is unknown.
    pub undecided: u64,
}

/// A conditional branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoveredBranch {
    /// Number of executions.
    pub ran: u64,
    /// How often execution fell through, and how often it jumped.
    pub sides: [u64; 2],
}

/// Of how many how many ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoverageShare {
    /// All items.
    pub found: u64,
    /// Covered items.
    pub hit: u64,
}

impl CoverageShare {
    fn of(all: impl Iterator<Item = bool>) -> Self {
        all.fold(Self::default(), |share, is_hit| Self {
            found: share.found + 1,
            hit: share.hit + u64::from(is_hit),
        })
    }

    /// `87.50 %`; none where there is nothing.
    #[must_use]
    pub fn percent(self) -> Option<String> {
        // Hundredths, cut: all of it is 100 and nothing else is.
        let parts = (u128::from(self.hit) * 10_000).checked_div(self.found.into())?;
        Some(format!("{}.{:02} %", parts / 100, parts % 100))
    }
}

/// The shares of a file, or of several.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CoverageFigures {
    /// Lines.
    pub lines: CoverageShare,
    /// Functions.
    pub functions: CoverageShare,
    /// Sides of branches.
    pub branches: CoverageShare,
    /// Branches that ran and of which nobody can tell where they went; not among those above.
    pub undecided_branches: u64,
}

impl CoverageFigures {
    /// Those of all `files` together.
    pub fn of<'a>(files: impl Iterator<Item = &'a CoveredFile> + Clone) -> Self {
        let lines = files.clone().flat_map(|file| file.lines.values().map(|count| *count > 0));
        let functions = files.clone().flat_map(|file| file.functions.values().map(|(_, count)| *count > 0));
        let sides = files.clone().flat_map(|file| file.branches.values().flat_map(|branch| branch.sides));
        Self {
            lines: CoverageShare::of(lines),
            functions: CoverageShare::of(functions),
            branches: CoverageShare::of(sides.map(|count| count > 0)),
            undecided_branches: files.map(|file| file.undecided).sum(),
        }
    }
}

impl CoveredFile {
    /// Removes lines beyond the last one of the file.
    pub fn end_at(&mut self, last: usize) {
        let is_there = |line: u32| usize::try_from(line).is_ok_and(|line| line <= last);
        self.lines.retain(|line, _| is_there(*line));
        self.functions.retain(|_, (line, _)| is_there(*line));
        self.branches.retain(|(line, _), _| is_there(*line));
    }
}

impl SourceCoverage {
    /// Adds an exact profile: samples do not hit every line.
    pub fn add(&mut self, profile: &Profile, programs: &Programs) {
        self.runs += 1;
        let costs = profile.programs().iter().zip(profile.costs());
        for (program, costs) in costs.filter(|(_, costs)| !costs.is_empty()) {
            let counts = self.counts.entry(*program).or_insert_with(|| {
                let elf = program.elf.as_ref().and_then(|digest| programs.elf(digest));
                elf.into_iter().for_each(|elf| self.programs.add(elf));
                BTreeMap::new()
            });
            for (pc, cost) in costs {
                let count = counts.entry(pc).or_default();
                *count = count.saturating_add(cost.instructions);
            }
        }
    }

    /// Number of added profiles.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// The source files, by the compiler's names. Empty if no program has lines.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, CoveredFile> {
        let mut files = BTreeMap::new();
        for (program, counts) in &self.counts {
            let elf = program.elf.as_ref().and_then(|digest| self.programs.elf(digest));
            elf.into_iter().for_each(|elf| add_program(&mut files, elf, program.options(), counts));
        }
        files.remove("");
        files
    }
}

/// Adds the counts of one program to those of the others.
fn add_program(
    files: &mut BTreeMap<String, CoveredFile>,
    elf: &[u8],
    options: CompileOptions,
    counts: &BTreeMap<u64, u64>,
) {
    let symbols = Symbols::of(elf, options);
    let rows: Vec<LineRow> = symbols.rows().into_iter().filter(|row| row.line > 0).collect();
    if rows.is_empty() {
        return;
    }
    let mut lines: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for row in &rows {
        let ran = counts.range(row.address..row.end).map(|(_, count)| *count).max().unwrap_or(0);
        let line = lines.entry((&row.file, row.line)).or_default();
        *line = (*line).max(ran);
    }
    for ((file, line), ran) in lines {
        let count = of(files, file).lines.entry(line).or_default();
        *count = count.saturating_add(ran);
    }
    for (start, _, name) in symbols.functions() {
        let locations = symbols.locate(start);
        let Some(line) = locations.last().and_then(|location| location.line.clone()) else { continue };
        let ran = counts.get(&start).copied().unwrap_or(0);
        let entry = of(files, &line.file).functions.entry(name.to_owned()).or_insert((line.line, 0));
        entry.1 = entry.1.saturating_add(ran);
    }
    add_branches(files, elf, options, counts, &rows);
}

fn add_branches(
    files: &mut BTreeMap<String, CoveredFile>,
    elf: &[u8],
    options: CompileOptions,
    counts: &BTreeMap<u64, u64>,
    rows: &[LineRow],
) {
    let Some(program) = program(elf, options) else { return };
    let mut places: BTreeMap<(&str, u32), u32> = BTreeMap::new();
    for branch in branches(&program, counts) {
        let Some(row) = row_at(rows, branch.pc, NESTED_MAX) else { continue };
        let place = places.entry((&row.file, row.line)).or_default();
        *place += 1;
        let file = of(files, &row.file);
        let [Some(on), Some(to)] = branch.sides else {
            file.undecided += u64::from(branch.ran > 0);
            continue;
        };
        let entry = file.branches.entry((row.line, *place - 1)).or_default();
        entry.ran = entry.ran.saturating_add(branch.ran);
        let [before_on, before_to] = entry.sides;
        entry.sides = [before_on.saturating_add(on), before_to.saturating_add(to)];
    }
}

fn of<'a>(files: &'a mut BTreeMap<String, CoveredFile>, name: &str) -> &'a mut CoveredFile {
    files.entry(name.to_owned()).or_default()
}
