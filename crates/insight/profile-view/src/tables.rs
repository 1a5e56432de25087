//! Tables of a view: functions by cost, callers and callees, and differences from another view.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write,
};

use antares_profile::Value;

use crate::{FunctionId, View, limits::ROWS_MAX};

/// A function and its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its file; empty if unknown.
    pub file: String,
    /// Its own cost.
    pub own: Value,
    /// Its cost including callees; recursive calls count once.
    pub total: Value,
}

/// Callers and callees of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallGraph {
    /// Its own cost.
    pub own: Value,
    /// Its cost including callees.
    pub total: Value,
    /// Callers with the cost of their calls, most cycles first.
    pub callers: Vec<Edge>,
    /// Callees with their cost including their own callees, most cycles first.
    pub callees: Vec<Edge>,
}

/// One side of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The other function; empty if the function has no caller.
    pub name: String,
    /// Cost of these calls.
    pub value: Value,
}

/// A function in two profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// Its own cost in the first profile.
    pub before: Value,
    /// Its own cost in the second profile.
    pub after: Value,
}

impl Change {
    /// Additional cycles in the second profile.
    #[must_use]
    pub fn cycles(&self) -> i128 {
        i128::from(self.after.cycles) - i128::from(self.before.cycles)
    }
}

impl View<'_> {
    /// Functions by own cost, most cycles first; at most `rows` and [`ROWS_MAX`].
    #[must_use]
    pub fn top(&self, rows: usize) -> Vec<Row> {
        let mut costs: HashMap<FunctionId, (Value, Value)> = HashMap::new();
        let totals = self.totals();
        for (index, node) in self.tree().iter().enumerate() {
            let cost = costs.entry(node.function).or_default();
            cost.0 = cost.0.plus(node.own);
            if !self.is_below(index, node.function) {
                cost.1 = cost.1.plus(totals[index]);
            }
        }
        let mut table: Vec<Row> = costs
            .into_iter()
            .map(|(id, (own, total))| {
                let function = self.function(id);
                Row { name: function.name.clone(), file: function.file.clone(), own, total }
            })
            .collect();
        let key = |row: &Row| (Reverse(row.own), Reverse(row.total), row.name.clone(), row.file.clone());
        table.sort_by_key(key);
        table.truncate(rows.min(ROWS_MAX));
        table
    }

    /// Whether `function` is on the stack below the node `index`.
    fn is_below(&self, index: usize, function: FunctionId) -> bool {
        let tree = self.tree();
        let mut next = tree[index].parent;
        while let Some(place) = next {
            if tree[place].function == function {
                return true;
            }
            next = tree[place].parent;
        }
        false
    }

    /// Callers and callees of all functions with this name; `None` if there is no such function.
    #[must_use]
    pub fn call_graph(&self, name: &str) -> Option<CallGraph> {
        let ids: HashSet<FunctionId> = (0..)
            .zip(self.functions())
            .filter(|(_, function)| function.name == name)
            .map(|(id, _)| FunctionId(id))
            .collect();
        if ids.is_empty() {
            return None;
        }
        let totals = self.totals();
        let mut graph = CallGraph::default();
        let (mut callers, mut callees): (BTreeMap<String, Value>, BTreeMap<String, Value>) =
            Default::default();
        let named = |place: usize| self.function(self.tree()[place].function).name.clone();
        let add = |map: &mut BTreeMap<String, Value>, name: String, value: Value| {
            let sum = map.entry(name).or_default();
            *sum = sum.plus(value);
        };
        for (index, node) in self.tree().iter().enumerate() {
            if ids.contains(&node.function) {
                graph.own = graph.own.plus(node.own);
                if !ids.iter().any(|id| self.is_below(index, *id)) {
                    graph.total = graph.total.plus(totals[index]);
                    add(&mut callers, node.parent.map(named).unwrap_or_default(), totals[index]);
                }
            } else if let Some(parent) = node.parent
                && ids.contains(&self.tree()[parent].function)
            {
                add(&mut callees, named(index), totals[index]);
            }
        }
        graph.callers = sorted(callers);
        graph.callees = sorted(callees);
        Some(graph)
    }
}

fn sorted(edges: BTreeMap<String, Value>) -> Vec<Edge> {
    let mut edges: Vec<Edge> = edges.into_iter().map(|(name, value)| Edge { name, value }).collect();
    edges.sort_by_key(|edge| Reverse(edge.value));
    edges.truncate(ROWS_MAX);
    edges
}

/// Costs of equally named functions in two profiles, the largest difference first. Omits unchanged ones.
#[must_use]
pub fn diff(before: &View<'_>, after: &View<'_>) -> Vec<Change> {
    let mut costs: BTreeMap<&str, [Value; 2]> = BTreeMap::new();
    for (side, view) in [before, after].into_iter().enumerate() {
        for node in view.tree() {
            let cost = &mut costs.entry(&view.function(node.function).name).or_default()[side];
            *cost = cost.plus(node.own);
        }
    }
    let changes = costs.into_iter().filter(|(_, [before, after])| before.cycles != after.cycles);
    let mut changes: Vec<Change> =
        changes.map(|(name, [before, after])| Change { name: name.to_owned(), before, after }).collect();
    changes.sort_by_key(|change| Reverse(change.cycles().unsigned_abs()));
    changes
}

/// A Markdown table of the `rows` largest changes, with a line for the total.
#[must_use]
pub fn diff_markdown(before: &View<'_>, after: &View<'_>, rows: usize) -> String {
    let (old, new) = (before.profile().sum().cycles, after.profile().sum().cycles);
    let changes = diff(before, after);
    let mut text =
        String::from("| function | cycles before | cycles after | change | |\n|---|---:|---:|---:|---:|\n");
    let shown = rows.min(ROWS_MAX);
    for change in changes.iter().take(shown) {
        let (old, new) = (change.before.cycles, change.after.cycles);
        let name = change.name.replace('|', "\\|").replace('`', "'");
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "| `{name}` | {old} | {new} | {:+} | {} |", change.cycles(), percent(old, new));
    }
    if changes.len() > shown {
        let _ = writeln!(text, "| {} more | | | | |", changes.len() - shown);
    }
    let change = i128::from(new) - i128::from(old);
    let _ =
        writeln!(text, "| **all** | **{old}** | **{new}** | **{change:+}** | **{}** |", percent(old, new));
    text
}

fn percent(before: u64, after: u64) -> String {
    if before == 0 {
        return if after == 0 { "0.00 %".to_owned() } else { "new".to_owned() };
    }
    if after == 0 {
        return "gone".to_owned();
    }
    // Hundredths of a percent, without floating point, so that results are equal everywhere.
    let parts = (i128::from(after) - i128::from(before)) * 10_000 / i128::from(before);
    let sign = if parts < 0 { '-' } else { '+' };
    format!("{sign}{}.{:02} %", parts.unsigned_abs() / 100, parts.unsigned_abs() % 100)
}

#[cfg(test)]
mod tests {
    use antares_profile::{Frame, Profile};

    use super::*;
    use crate::Programs;

    fn profile(stacks: &[(&[Frame], u64)]) -> Profile {
        let mut profile = Profile::default();
        for (stack, cycles) in stacks {
            profile.add(stack, Value::cycles(*cycles));
        }
        profile
    }

    const A: Frame = Frame::Spawn { index: 1 };
    const B: Frame = Frame::Spawn { index: 2 };

    #[test]
    fn recursion_counts_once() {
        let profile = profile(&[(&[A], 1), (&[A, B], 2), (&[A, B, A], 4)]);
        let programs = Programs::default();
        let view = View::new(&profile, &programs);
        let top = view.top(10);
        let row = |name: &str| top.iter().find(|row| row.name == name).unwrap();
        assert_eq!((row("[spawn #1]").own.cycles, row("[spawn #1]").total.cycles), (5, 7));
        assert_eq!((row("[spawn #2]").own.cycles, row("[spawn #2]").total.cycles), (2, 6));
        let graph = view.call_graph("[spawn #1]").unwrap();
        assert_eq!((graph.own.cycles, graph.total.cycles), (5, 7));
        assert_eq!(graph.callees, [Edge { name: "[spawn #2]".to_owned(), value: Value::cycles(6) }]);
        assert_eq!(graph.callers.len(), 1);
        assert!(view.call_graph("nobody").is_none());
    }

    #[test]
    fn differences_are_by_name_and_largest_first() {
        let (old, new) = (profile(&[(&[A], 100), (&[B], 50)]), profile(&[(&[A], 99), (&[Frame::Load], 7)]));
        let programs = Programs::default();
        let (old, new) = (View::new(&old, &programs), View::new(&new, &programs));
        let changes: Vec<(String, i128)> =
            diff(&old, &new).iter().map(|change| (change.name.clone(), change.cycles())).collect();
        let expected = [("[spawn #2]", -50), ("[load]", 7), ("[spawn #1]", -1)];
        assert_eq!(changes, expected.map(|(name, cycles)| (name.to_owned(), cycles)));
        let text = diff_markdown(&old, &new, 2);
        assert!(text.contains("| `[load]` | 0 | 7 | +7 | new |"), "{text}");
        assert!(text.contains("| 1 more |"), "{text}");
        assert!(text.contains("| **all** | **150** | **106** | **-44** | **-29.33 %** |"), "{text}");
    }
}
