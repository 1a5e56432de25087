//! One page with an interactive flame graph: search, zoom, differences, tables, and the code of the
//! costliest functions, by line and by instruction. It loads nothing and sends nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::{
    View, diff,
    limits::{HTML_NODES_MAX, SOURCE_AROUND, SOURCE_LINE_BYTES_MAX},
    listing::{LineCosts, Listed, Listing, line_costs, listings},
    printable::is_command,
};

const PAGE: &str = include_str!("flame.html");

/// The page; `source` returns the text of a source file, by the compiler's name for the file.
#[must_use]
pub fn profile_page(
    view: &View<'_>,
    labels: &BTreeMap<String, String>,
    before: Option<&View<'_>>,
    source: &dyn Fn(&str) -> Option<String>,
) -> String {
    let totals: Vec<u64> = view.totals().iter().map(|total| total.cycles).collect();
    // Boxes too small to be visible count for the function below them.
    let mut sizes = totals.clone();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = sizes.get(HTML_NODES_MAX).map_or(0, |size| size + 1);
    let mut places: Vec<Option<usize>> = Vec::with_capacity(totals.len());
    let mut nodes: Vec<Value> = Vec::new();
    let earlier = before.map(totals_by_path).unwrap_or_default();
    for (place, node) in view.tree().iter().enumerate() {
        let parent = node.parent.map(|parent| places[parent]);
        let is_shown = totals[place] >= least && parent != Some(None);
        places.push(is_shown.then_some(nodes.len()));
        if !is_shown {
            continue;
        }
        let parent = parent.flatten().map_or(-1, |parent| i64::try_from(parent).unwrap_or(-1));
        let mut entry =
            vec![json!(parent), json!(node.function.0), json!(totals[place]), json!(node.own.cycles)];
        if before.is_some() {
            entry.push(json!(earlier.get(&path(view, place)).copied().unwrap_or(0)));
        }
        nodes.push(Value::Array(entry));
    }
    let names: Vec<Value> =
        view.functions().iter().map(|function| json!([function.name, function.file])).collect();
    let changes = before.map(|before| {
        let changes = diff(before, view).into_iter().take(200);
        changes
            .map(|change| json!([change.name, change.before.cycles, change.after.cycles]))
            .collect::<Vec<_>>()
    });
    let sum = view.profile().sum();
    let data = json!({
        "names": names, "nodes": nodes, "labels": labels, "changes": changes,
        "cycles": sum.cycles, "instructions": sum.instructions,
        "before": before.map(|before| before.profile().sum().cycles),
        "code": code(view, before, source),
    });
    // Text of a guest must not end the script element or start another one.
    let data = data.to_string().replace('<', "\\u003c").replace(is_command, "\u{fffd}");
    PAGE.replacen("/*DATA*/null", &data, 1)
}

/// The costliest functions, with their instructions and source lines.
fn code(view: &View<'_>, before: Option<&View<'_>>, source: &dyn Fn(&str) -> Option<String>) -> Value {
    let listings = listings(view, before);
    let (after, before) = (line_costs(view), before.map(line_costs));
    let mut files = Files { source, numbers: HashMap::new(), files: Vec::new() };
    let functions: Vec<Value> = listings
        .iter()
        .map(|listing| {
            let lines = files.lines(listing, &after, before.as_ref());
            let instructions: Vec<Value> =
                listing.instructions.iter().map(|listed| files.instruction(listed)).collect();
            json!({ "name": listing.name, "cycles": listing.cycles, "instructions": instructions, "lines": lines })
        })
        .collect();
    json!({ "files": files.files.iter().map(|(name, _)| name).collect::<Vec<_>>(), "functions": functions })
}

/// Source files, numbered, each read once.
struct Files<'a> {
    source: &'a dyn Fn(&str) -> Option<String>,
    numbers: HashMap<String, usize>,
    files: Vec<(String, Vec<String>)>,
}

impl Files<'_> {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let cut = |line: &str| line[..line.floor_char_boundary(SOURCE_LINE_BYTES_MAX)].to_owned();
        let text = (self.source)(name).map(|text| text.lines().map(cut).collect()).unwrap_or_default();
        self.files.push((name.to_owned(), text));
        self.numbers.insert(name.to_owned(), self.files.len() - 1);
        self.files.len() - 1
    }

    /// Address, text, cycles, executions, file, line, cycles before; -1 if unknown.
    fn instruction(&mut self, listed: &Listed) -> Value {
        let Listed { address, text, spent, before, line } = listed;
        let place = line.as_ref().map(|(file, line)| (json!(self.number(file)), json!(line)));
        let (file, line) = place.unwrap_or((json!(-1), json!(-1)));
        let address = format!("{address:#x}");
        json!([address, text, spent.cycles, spent.instructions, file, line, before])
    }

    /// The source lines of a function with their neighbours: file, line, cycles, cycles before, text.
    fn lines(&mut self, listing: &Listing, after: &LineCosts, before: Option<&LineCosts>) -> Vec<Value> {
        let own: BTreeSet<&(String, u32)> =
            listing.instructions.iter().filter_map(|listed| listed.line.as_ref()).collect();
        let mut shown: BTreeSet<(usize, u32)> = BTreeSet::new();
        for (name, line) in own {
            let file = self.number(name);
            let last = u32::try_from(self.files[file].1.len()).unwrap_or(u32::MAX);
            let around =
                line.saturating_sub(SOURCE_AROUND).max(1)..=line.saturating_add(SOURCE_AROUND).min(last);
            shown.extend(around.map(|line| (file, line)));
            shown.insert((file, *line));
        }
        let reported = shown.into_iter().map(|(file, line)| {
            let (name, text) = &self.files[file];
            let key = (name.clone(), line);
            let text = usize::try_from(line - 1).ok().and_then(|at| text.get(at));
            let cycles = |costs: &LineCosts| costs.get(&key).copied().unwrap_or(0);
            json!([file, line, cycles(after), before.map(cycles), text])
        });
        reported.collect()
    }
}

fn path(view: &View<'_>, place: usize) -> Vec<String> {
    view.path(place).into_iter().map(|function| view.function(function).name.clone()).collect()
}

fn totals_by_path(view: &View<'_>) -> HashMap<Vec<String>, u64> {
    let totals = view.totals();
    let mut by_path: HashMap<Vec<String>, u64> = HashMap::new();
    for (place, total) in totals.iter().enumerate() {
        let sum = by_path.entry(path(view, place)).or_default();
        *sum = sum.saturating_add(total.cycles);
    }
    by_path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The light and dark colours of a CSS variable of the page: red, green and blue from 0 to 1.
    fn colours(name: &str) -> Vec<[f64; 3]> {
        let before = format!("{name}: #");
        let values = PAGE.split(&before).skip(1).map(|rest| &rest[..6]);
        let part = |text: &str| f64::from(u8::from_str_radix(text, 16).unwrap()) / 255.0;
        values.map(|text| [part(&text[..2]), part(&text[2..4]), part(&text[4..])]).collect()
    }

    /// Contrast by the Web Content Accessibility Guidelines 2.1.
    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let linear =
            |part: f64| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
        let light = |[red, green, blue]: [f64; 3]| {
            0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
        };
        let (one, other) = (light(one), light(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn what_was_searched_for_can_be_read_in_both_forms() {
        let (grounds, texts) = (colours("--hit"), colours("--on-hit"));
        assert_eq!((grounds.len(), texts.len()), (2, 2));
        for (ground, text) in grounds.into_iter().zip(texts) {
            assert!(contrast(ground, text) >= 4.5, "{ground:?} {text:?}");
        }
        // Opacity would fade text and background together.
        assert!(!PAGE.contains("opacity"));
    }
}
