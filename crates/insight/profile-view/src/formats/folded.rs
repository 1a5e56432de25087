//! One line for each stack: functions from the outermost to the innermost, a space, cycles.

use crate::{View, printable::is_command};

pub(crate) fn write(view: &View<'_>) -> String {
    let mut lines: Vec<(String, u64)> = Vec::new();
    for (place, node) in view.tree().iter().enumerate() {
        if node.own.cycles == 0 {
            continue;
        }
        // A name has none of the characters that separate names and lines.
        let plain = |id| view.function(id).name.replace(';', ":").replace(is_command, "?");
        let names: Vec<String> = view.path(place).into_iter().map(plain).collect();
        lines.push((names.join(";"), node.own.cycles));
    }
    lines.sort();
    lines.iter().map(|(stack, cycles)| format!("{stack} {cycles}\n")).collect()
}
