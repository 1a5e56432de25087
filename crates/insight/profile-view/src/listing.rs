//! The code of a profile's hot functions: instructions and source lines with their cycles.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use antares_profile::Value;
use antares_program::Decoder;

use crate::{
    Symbols, View,
    dwarf::{LineRow, row_at},
    limits::{LISTED_FUNCTIONS_MAX, LISTED_INSTRUCTIONS_MAX},
};

/// Line table rows before an address to search for one that covers it.
const NESTED_MAX: usize = 64;

/// A non-inlined function, instruction by instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) name: String,
    pub(crate) cycles: u64,
    /// By address.
    pub(crate) instructions: Vec<Listed>,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) address: u64,
    pub(crate) text: String,
    pub(crate) spent: Value,
    /// Its cost in another profile of the same code.
    pub(crate) before: Option<u64>,
    /// Its file and line, of the innermost inlined function.
    pub(crate) line: Option<(String, u32)>,
}

/// Cycles by file and line.
pub(crate) type LineCosts = HashMap<(String, u32), u64>;

/// The functions with the highest own cost, of all programs of a view.
pub(crate) fn listings(view: &View<'_>, before: Option<&View<'_>>) -> Vec<Listing> {
    let mut found: Vec<(u64, u32, u64, u64)> = Vec::new();
    let costs = view.profile().costs();
    for (program, spent) in (0..).zip(&costs) {
        if let Some(symbols) = view.symbols(program) {
            let functions = symbols.functions().map(|(start, end, _)| {
                let cycles =
                    spent.range(start..end).map(|(_, value)| value.cycles).fold(0, u64::saturating_add);
                (cycles, program, start, end)
            });
            found.extend(functions.filter(|(cycles, ..)| *cycles > 0));
        }
    }
    found.sort_by_key(|(cycles, program, start, _)| (Reverse(*cycles), *program, *start));
    found.truncate(LISTED_FUNCTIONS_MAX);
    let mut left = LISTED_INSTRUCTIONS_MAX;
    let mut rows: HashMap<u32, Vec<LineRow>> = HashMap::new();
    let mut listings = Vec::new();
    for (cycles, program, start, end) in found {
        let (Some(symbols), Some(costs)) = (view.symbols(program), costs.get(program as usize)) else {
            continue;
        };
        let rows = rows.entry(program).or_insert_with(|| line_rows(symbols));
        let earlier = before.and_then(|before| same_program(view, before, program));
        let list = Lister { costs, rows, earlier };
        let instructions = list.list(view, program, (start, end), left).unwrap_or_default();
        left -= instructions.len();
        let name = symbols.locate(start).pop().map(|location| location.function).unwrap_or_default();
        if !instructions.is_empty() {
            listings.push(Listing { name, cycles, instructions });
        }
    }
    listings
}

/// Cycles of each source line, over all its code.
pub(crate) fn line_costs(view: &View<'_>) -> LineCosts {
    let mut costs = LineCosts::new();
    for (program, spent) in (0..).zip(view.profile().costs()) {
        let Some(rows) = view.symbols(program).map(line_rows) else { continue };
        for (pc, value) in spent {
            if let Some(line) = line_at(&rows, pc) {
                let cost = costs.entry(line).or_default();
                *cost = cost.saturating_add(value.cycles);
            }
        }
    }
    costs
}

fn line_rows(symbols: &Symbols) -> Vec<LineRow> {
    symbols.rows().into_iter().filter(|row| row.line > 0 && !row.file.is_empty()).collect()
}

fn line_at(rows: &[LineRow], pc: u64) -> Option<(String, u32)> {
    row_at(rows, pc, NESTED_MAX).map(|row| (row.file.clone(), row.line))
}

/// Costs of the same code in another profile; `None` if that profile ran other code.
fn same_program(view: &View<'_>, before: &View<'_>, program: u32) -> Option<BTreeMap<u64, Value>> {
    let own = view.profile().programs().get(program as usize)?.elf?;
    let place = before.profile().programs().iter().position(|other| other.elf == Some(own))?;
    Some(before.profile().costs().swap_remove(place))
}

struct Lister<'a> {
    costs: &'a BTreeMap<u64, Value>,
    rows: &'a [LineRow],
    earlier: Option<BTreeMap<u64, Value>>,
}

impl Lister<'_> {
    /// Lists the instructions of a function, at most `most`.
    fn list(
        &self,
        view: &View<'_>,
        program: u32,
        (start, end): (u64, u64),
        most: usize,
    ) -> Option<Vec<Listed>> {
        let image = view.programs().image(view.profile().programs().get(program as usize)?)?;
        let mut decoder = Decoder::new(&image);
        let (mut pc, mut listed) = (start, Vec::new());
        while pc < end && listed.len() < most {
            let Some(instruction) = decoder.decode(pc) else {
                pc += 2;
                continue;
            };
            listed.push(Listed {
                address: pc,
                text: instruction.to_string(),
                spent: self.costs.get(&pc).copied().unwrap_or_default(),
                before: self.earlier.as_ref().map(|earlier| earlier.get(&pc).map_or(0, |value| value.cycles)),
                line: line_at(self.rows, pc),
            });
            let next = pc + u64::from(instruction.length).max(2);
            // A jump into the middle of a fused pair leaves cycles there.
            pc = self.costs.range(pc + 1..next).next().map_or(next, |(inner, _)| *inner);
        }
        Some(listed)
    }
}
