//! One line for each stack: functions from the outermost to the innermost, a space, cycles.

use std::fmt::Write;

use crate::{View, printable::is_command};

pub(crate) fn write(view: &View<'_>) -> String {
    let mut lines: Vec<(String, u64)> = Vec::new();
    for (place, node) in view.tree().iter().enumerate() {
        if node.own.cycles == 0 {
            continue;
        }
        let names: Vec<String> =
            view.path(place).into_iter().map(|function| plain(&view.function(function).name)).collect();
        lines.push((names.join(";"), node.own.cycles));
    }
    lines.sort();
    lines.iter().fold(String::new(), |mut text, (stack, cycles)| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{stack} {cycles}");
        text
    })
}

/// A name without the characters that separate names and lines.
fn plain(name: &str) -> String {
    let clean = |character: char| match character {
        ';' => ':',
        character if is_command(character) => '?',
        character => character,
    };
    name.chars().map(clean).collect()
}
