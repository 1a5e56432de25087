//! Questions about values of a graph, as SMT-LIB. Names are by the order in which they come, so that
//! questions of the same shape are the same text.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
};

use antares_program::Op;

use crate::{
    encode::Line,
    graph::{Graph, Key, Value},
    memory::width,
    terms::{PRELUDE, loaded, number, result, stored},
};

/// What is looked at of two values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sight {
    /// All of them.
    Whole,
    /// The addresses that they are with these numbers.
    Address(i64, i64),
    /// What a store of this kind takes.
    Stored(Op),
    /// That there is anything to compare.
    Nothing,
}

/// Two values that are to look the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) values: [Value; 2],
    pub(crate) sight: Sight,
}

/// The question whether `goals` hold, where values are told by `depth` instructions before them and all of
/// those behind are unknown; by all of their window without one. `unsat` says that they do. None if there is
/// an instruction without a meaning here.
pub(crate) fn question(graph: &Graph, goals: &[Goal], depth: Option<usize>) -> Option<String> {
    let mut writer = Writer {
        graph,
        open: depth.map(|depth| near(graph, goals, depth)),
        names: HashMap::new(),
        bytes: HashMap::new(),
        text: String::from(PRELUDE),
    };
    let differs = goals.iter().map(|goal| writer.differs(goal)).collect::<Option<Vec<String>>>()?;
    let mut text = writer.text;
    let _ = writeln!(text, "(assert (or false\n  {}))\n(check-sat)", differs.join("\n  "));
    Some(text)
}

/// Values that are less than `depth` instructions before one of `goals`.
fn near(graph: &Graph, goals: &[Goal], depth: usize) -> HashSet<Value> {
    let mut found = HashSet::new();
    let mut edge: Vec<Value> = goals.iter().flat_map(|goal| goal.values).collect();
    for _ in 0..depth {
        edge.retain(|value| found.insert(*value));
        edge = edge.iter().filter_map(|value| graph.key(*value)).flat_map(|key| key.sources).collect();
    }
    found
}

struct Writer<'a> {
    graph: &'a Graph,
    /// Values that are told by their instructions; all without.
    open: Option<HashSet<Value>>,
    names: HashMap<Value, String>,
    /// Names of bytes in memory: from which value, how far, and behind how many stores.
    bytes: HashMap<(Value, i64, usize), String>,
    text: String,
}

impl Writer<'_> {
    fn differs(&mut self, goal: &Goal) -> Option<String> {
        if matches!(goal.sight, Sight::Nothing) {
            return Some("true".to_owned());
        }
        let [from, to] = goal.values;
        let (from, to) = (self.term(from)?, self.term(to)?);
        Some(match goal.sight {
            Sight::Whole | Sight::Nothing => format!("(distinct {from} {to})"),
            Sight::Address(a, b) => {
                format!("(distinct (bvadd {from} {}) (bvadd {to} {}))", number(a), number(b))
            }
            Sight::Stored(op) => format!("(distinct {} {})", stored(op, &from)?, stored(op, &to)?),
        })
    }

    fn unknown(&mut self, sort: &str) -> String {
        let name = format!("u{}", self.names.len() + self.bytes.len());
        let _ = writeln!(self.text, "(declare-fun {name} () {sort})");
        name
    }

    /// What a load gives: the bytes at its place.
    fn loaded(&mut self, key: &Key, version: usize) -> Option<String> {
        let width = i64::try_from(width(key.op)?).ok()?;
        let mut bytes = String::new();
        for at in (0..width).rev() {
            let place = (key.sources[0], key.imm.wrapping_add(at), version);
            let name = match self.bytes.get(&place) {
                Some(known) => known.clone(),
                None => {
                    let name = self.unknown("(_ BitVec 8)");
                    self.bytes.insert(place, name.clone());
                    name
                }
            };
            bytes = if bytes.is_empty() { name } else { format!("(concat {bytes} {name})") };
        }
        loaded(key.op, &bytes)
    }

    /// The term of `value`; whatever it is, if that is not open.
    fn term(&mut self, value: Value) -> Option<String> {
        if value == Value::ZERO {
            return Some(number(0));
        }
        if let Some(name) = self.names.get(&value) {
            return Some(name.clone());
        }
        let is_open = self.open.as_ref().is_none_or(|open| open.contains(&value));
        let Some(key) = self.graph.key(value).filter(|_| is_open) else {
            let name = self.unknown("W");
            self.names.insert(value, name.clone());
            return Some(name);
        };
        let term = match key.version {
            Some(version) => self.loaded(&key, version)?,
            None => {
                let [a, b] = key.sources;
                let (a, b) = (self.term(a)?, self.term(b)?);
                result(&Line { op: key.op, rd: 0, rs1: 0, rs2: 0, imm: key.imm }, &a, &b)?
            }
        };
        let name = format!("d{}", self.names.len());
        let _ = writeln!(self.text, "(define-fun {name} () W {term})");
        self.names.insert(value, name.clone());
        Some(name)
    }
}
