//! LLVM's sample profile as text (`SampleProfReader.h`): execution counts of the lines of each function,
//! relative to its first line, with inlined functions and calls. For `clang -fprofile-sample-use`; build the
//! guest with `-g`, preferably also with `-fdebug-info-for-profiling`.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use antares_profile::{Frame, NodeId};

use crate::{Line, View, dwarf::row_at};

/// Line table rows before an address to search for one that covers it.
const NESTED_MAX: usize = 16;

/// Line relative to the function's first line, and discriminator.
type Offset = (u32, u32);

#[derive(Debug, Default)]
struct Body {
    /// Execution counts of lines.
    lines: BTreeMap<Offset, u64>,
    calls: BTreeMap<Offset, BTreeMap<String, u64>>,
    inlined: BTreeMap<(Offset, String), Body>,
    /// Number of calls of the function.
    head: u64,
}

impl Body {
    fn total(&self) -> u64 {
        let inlined = self.inlined.values().map(Self::total);
        self.lines.values().copied().chain(inlined).fold(0, u64::saturating_add)
    }
}

/// `None` if no program has line numbers.
pub(crate) fn write(view: &View<'_>) -> Option<String> {
    let mut functions: BTreeMap<String, Body> = BTreeMap::new();
    for program in 0..u32::try_from(view.profile().programs().len()).unwrap_or(0) {
        if view.symbols(program).is_some_and(|symbols| symbols.has_lines()) {
            add_program(view, program, &mut functions);
        }
    }
    if functions.is_empty() {
        return None;
    }
    let mut sorted: Vec<(&String, &Body)> = functions.iter().collect();
    sorted.sort_by_key(|(name, body)| (Reverse(body.total()), *name));
    let mut text = String::new();
    for (name, body) in sorted {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}:{}:{}", body.total(), body.head);
        write_body(&mut text, body, 1);
    }
    Some(text)
}

fn write_body(text: &mut String, body: &Body, depth: usize) {
    let indent = " ".repeat(depth);
    for (offset, count) in &body.lines {
        let _ = write!(text, "{indent}{}: {count}", shown(*offset));
        for (callee, count) in body.calls.get(offset).into_iter().flatten() {
            let _ = write!(text, " {callee}:{count}");
        }
        text.push('\n');
    }
    for ((offset, name), inlined) in &body.inlined {
        let _ = writeln!(text, "{indent}{}: {name}:{}", shown(*offset), inlined.total());
        write_body(text, inlined, depth + 1);
    }
}

fn shown((line, discriminator): Offset) -> String {
    if discriminator == 0 { line.to_string() } else { format!("{line}.{discriminator}") }
}

fn add_program(view: &View<'_>, program: u32, functions: &mut BTreeMap<String, Body>) {
    let Some(symbols) = view.symbols(program) else { return };
    let (rows, starts) = (symbols.rows(), symbols.start_lines());
    let (mut counts, mut calls) = (BTreeMap::new(), HashMap::new());
    count(view, program, &mut counts, &mut calls);
    for (pc, ran) in counts {
        let locations = symbols.locate(pc);
        let Some(outermost) = locations.last() else { continue };
        let discriminator = row_at(&rows, pc, NESTED_MAX).map_or(0, |row| row.discriminator);
        let body = functions.entry(outermost.function.clone()).or_default();
        if symbols.extent(pc).is_some_and(|(start, _)| start == pc) {
            body.head = body.head.max(ran);
        }
        let mut body = body;
        // From the outermost function to the innermost one, which has the discriminator.
        for (index, location) in locations.iter().enumerate().rev() {
            let start = starts.get(&location.function).copied().unwrap_or(0);
            let discriminator = if index == 0 { discriminator } else { 0 };
            let Some(offset) = offset(location.line.as_ref(), start, discriminator) else { break };
            if let Some(inner) = index.checked_sub(1) {
                body = body.inlined.entry((offset, locations[inner].function.clone())).or_default();
                continue;
            }
            let line = body.lines.entry(offset).or_default();
            *line = (*line).max(ran);
            for (callee, times) in calls.get(&pc).into_iter().flatten() {
                let known = body.calls.entry(offset).or_default().entry(String::clone(callee)).or_default();
                *known = known.saturating_add(*times);
            }
        }
    }
}

/// LLVM stores 16 bits of the distance.
fn offset(line: Option<&Line>, start: u32, discriminator: u32) -> Option<Offset> {
    let line = line.filter(|line| line.line > 0)?;
    Some((line.line.wrapping_sub(start) & 0xffff, discriminator))
}

/// Counts executions of a program's instructions, and the functions that its calls reach.
fn count(
    view: &View<'_>,
    program: u32,
    counts: &mut BTreeMap<u64, u64>,
    calls: &mut HashMap<u64, BTreeMap<String, u64>>,
) {
    let nodes = view.profile().nodes();
    for (node, id) in nodes.iter().zip(0..) {
        let Frame::Code { program: own, pc } = node.frame else { continue };
        if own.0 != program {
            continue;
        }
        let ran = counts.entry(pc).or_default();
        *ran = ran.saturating_add(node.value.instructions);
        // Executions of a callee's first instruction are the number of calls from there.
        let is_entry = |pc: u64| {
            view.symbols(program).and_then(|symbols| symbols.extent(pc)).is_some_and(|(start, _)| start == pc)
        };
        if let Some(parent) = node.parent
            && let Frame::Code { program: own, pc: site } = nodes[parent.0 as usize].frame
            && own.0 == program
            && is_entry(pc)
            && let Some((callee, _)) = view.named(NodeId(id)).first()
        {
            let name = view.function(*callee).name.clone();
            let times = calls.entry(site).or_default().entry(name).or_default();
            *times = times.saturating_add(node.value.instructions);
        }
    }
}
