//! LCOV: execution counts of source lines, in the format of `geninfo`(1).

use std::{collections::BTreeMap, fmt::Write, iter};

use crate::{
    View,
    coverage::{CoverageFigures, CoveredFile, SourceCoverage},
    printable::is_command,
};

/// `None` if no program has line numbers.
pub(crate) fn write(view: &View<'_>) -> Option<String> {
    let mut coverage = SourceCoverage::default();
    coverage.add(view.profile(), view.programs());
    let files = coverage.files();
    (!files.is_empty()).then(|| write_lcov(&files))
}

/// A tracefile of `files`.
#[must_use]
pub fn write_lcov(files: &BTreeMap<String, CoveredFile>) -> String {
    let mut text = String::new();
    for (name, file) in files {
        // Names come from a script. Writing to a string does not fail.
        let _ = writeln!(text, "TN:\nSF:{}", name.replace(is_command, " "));
        for (function, (line, _)) in &file.functions {
            let _ = writeln!(text, "FN:{line},{}", function.replace(is_command, " "));
        }
        for (function, (_, count)) in &file.functions {
            let _ = writeln!(text, "FNDA:{count},{}", function.replace(is_command, " "));
        }
        let CoverageFigures { lines, functions, branches, .. } = CoverageFigures::of(iter::once(file));
        let _ = writeln!(text, "FNF:{}\nFNH:{}", functions.found, functions.hit);
        for ((line, place), branch) in &file.branches {
            for (side, count) in branch.sides.iter().enumerate() {
                // LCOV distinguishes branches that never ran from sides that were never taken.
                let count = if branch.ran == 0 { "-".to_owned() } else { count.to_string() };
                let _ = writeln!(text, "BRDA:{line},{place},{side},{count}");
            }
        }
        let _ = writeln!(text, "BRF:{}\nBRH:{}", branches.found, branches.hit);
        for (line, count) in &file.lines {
            let _ = writeln!(text, "DA:{line},{count}");
        }
        let _ = writeln!(text, "LF:{}\nLH:{}\nend_of_record", lines.found, lines.hit);
    }
    text
}
