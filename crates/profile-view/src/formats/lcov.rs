//! LCOV: how often each line of source ran, in the form of `geninfo`(1).

use std::{collections::BTreeMap, fmt::Write};

use antares_profile::Frame;

use crate::View;

#[derive(Default)]
struct File {
    /// How often a line ran: as often as the most frequent of its instructions.
    lines: BTreeMap<u32, u64>,
    /// By name: where the function begins, and how often that ran.
    functions: BTreeMap<String, (u32, u64)>,
}

/// None if no program has line numbers.
pub(crate) fn write(view: &View<'_>) -> Option<String> {
    let mut files: BTreeMap<String, File> = BTreeMap::new();
    for program in 0..u32::try_from(view.profile().programs().len()).unwrap_or(0) {
        add_program(view, program, &mut files);
    }
    files.remove("");
    if files.is_empty() {
        return None;
    }
    let mut text = String::new();
    for (name, file) in &files {
        // Writing to a string does not fail.
        let _ = writeln!(text, "TN:\nSF:{name}");
        for (function, (line, _)) in &file.functions {
            let _ = writeln!(text, "FN:{line},{function}");
        }
        for (function, (_, count)) in &file.functions {
            let _ = writeln!(text, "FNDA:{count},{function}");
        }
        let hit = file.functions.values().filter(|(_, count)| *count > 0).count();
        let _ = writeln!(text, "FNF:{}\nFNH:{hit}", file.functions.len());
        for (line, count) in &file.lines {
            let _ = writeln!(text, "DA:{line},{count}");
        }
        let hit = file.lines.values().filter(|count| **count > 0).count();
        let _ = writeln!(text, "LF:{}\nLH:{hit}\nend_of_record", file.lines.len());
    }
    Some(text)
}

fn add_program(view: &View<'_>, program: u32, files: &mut BTreeMap<String, File>) {
    let Some(symbols) = view.symbols(program) else { return };
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for node in view.profile().nodes() {
        if let Frame::Code { program: id, pc } = node.frame
            && id.0 == program
        {
            let count = counts.entry(pc).or_default();
            *count = count.saturating_add(node.value.instructions);
        }
    }
    for row in symbols.rows().iter().filter(|row| row.line > 0) {
        let ran = counts.range(row.address..row.end).map(|(_, count)| *count).max().unwrap_or(0);
        let file = files.entry(row.file.clone()).or_default();
        let line = file.lines.entry(row.line).or_default();
        *line = (*line).max(ran);
    }
    for (start, _, name) in symbols.functions() {
        let locations = symbols.locate(start);
        let Some(line) = locations.last().and_then(|location| location.line.clone()) else { continue };
        let ran = counts.get(&start).copied().unwrap_or(0);
        let file = files.entry(line.file).or_default();
        let entry = file.functions.entry(name.to_owned()).or_insert((line.line, 0));
        entry.1 = entry.1.saturating_add(ran);
    }
}
