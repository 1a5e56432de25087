//! One page with an interactive flame graph: search, zoom, differences, tables. It loads nothing and sends nothing.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use crate::{View, diff, limits::HTML_NODES_MAX};

const PAGE: &str = include_str!("flame.html");

pub(crate) fn write(view: &View<'_>, labels: &BTreeMap<String, String>, before: Option<&View<'_>>) -> String {
    let totals: Vec<u64> = view.totals().iter().map(|total| total.cycles).collect();
    // What is too small to be seen at any zoom that matters stays part of the function below it.
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
    });
    // No text of a guest may end the script element or begin another one.
    let data = data
        .to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    PAGE.replacen("/*DATA*/null", &data, 1)
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
