//! The values of two windows in one graph, in which values that are claimed to be equal are one.

use std::collections::HashMap;

use antares_program::Op;

use crate::{
    encode::{Line, form, is_commutative},
    memory::Span,
    simulate::Samples,
    terms::is_unknown,
};

/// A value: what a register held at the start (below 32), or what an instruction computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Value(pub(crate) usize);

impl Value {
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) fn of_register(register: usize) -> Self {
        Self(register)
    }
}

/// An instruction on values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) op: Op,
    pub(crate) sources: [Value; 2],
    pub(crate) imm: i64,
    /// For a load from the first source and the number: how many stores it may see.
    pub(crate) version: Option<usize>,
}

/// That two values are equal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) known: Value,
    pub(crate) other: Value,
    /// Which instruction of both windows computes the second one.
    pub(crate) step: usize,
}

/// How many guesses were wrong, by the instruction that they are about.
pub(crate) type WrongGuesses = HashMap<usize, usize>;

/// All values, those of registers at the start first.
pub(crate) struct Graph {
    keys: Vec<Key>,
    samples: Vec<Samples>,
    by_key: HashMap<Key, Value>,
    by_samples: HashMap<Samples, Vec<Value>>,
    pub(crate) claims: Vec<Claim>,
    /// Whether values are one by a claim, and which of those that look alike are not; none if each value is
    /// one of its own.
    wrong: Option<WrongGuesses>,
    /// Whether the second window is executed. Values of one window that look alike may have use for their
    /// difference.
    is_second: bool,
    steps: usize,
}

impl Graph {
    pub(crate) fn new(wrong: Option<WrongGuesses>) -> Self {
        let samples: Vec<Samples> = (0..32)
            .map(|register| if register == 0 { Samples::zero() } else { Samples::of(register) })
            .collect();
        let by_samples = samples.iter().cloned().zip((0..32).map(|value| vec![Value(value)])).collect();
        Self {
            keys: Vec::new(),
            samples,
            by_key: HashMap::new(),
            by_samples,
            claims: Vec::new(),
            wrong,
            is_second: false,
            steps: 0,
        }
    }

    /// From here on instructions are those of the second window.
    pub(crate) fn begin_second(&mut self) {
        self.is_second = true;
    }

    /// `base` and a number, as a value that is no such sum and a number.
    pub(crate) fn address(&self, base: Value, offset: i64) -> (Value, i64) {
        let (mut base, mut offset) = (base, offset);
        while let Some(key) = self.key(base).filter(|key| key.op == Op::Addi) {
            offset = offset.wrapping_add(key.imm);
            base = key.sources[0];
        }
        (base, offset)
    }

    /// What a load of kind `op` from `span` gives behind `version` stores.
    pub(crate) fn load(&mut self, op: Op, span: &Span<Value>, version: usize) -> Value {
        let key = Key { op, sources: [span.root, Value::ZERO], imm: span.offset, version: Some(version) };
        let samples = self.samples[span.root.0].loaded(op, span.offset, version);
        self.add(key, samples)
    }

    /// What `line` computes of `sources`; none for what computes nothing.
    pub(crate) fn compute(&mut self, line: &Line, sources: [Value; 2]) -> Option<Value> {
        let form = form(line.op)?;
        let mut sources = if form.has_second() { sources } else { [sources[0], Value::ZERO] };
        if line.op == Op::Lui {
            sources[0] = Value::ZERO;
        }
        // A move is what it moves: what is loaded through a copy of a pointer is the same place.
        if let Some(moved) = moved(line, sources) {
            return Some(moved);
        }
        // Of what a question knows nothing, it does not know this either.
        if is_commutative(line.op) && is_unknown(line.op) {
            sources.sort();
        }
        let key = Key { op: line.op, sources, imm: line.imm, version: None };
        let [a, b] = sources.map(|source| &self.samples[source.0]);
        let samples = Samples::result(line, a, b)?;
        Some(self.add(key, samples))
    }

    fn add(&mut self, key: Key, samples: Samples) -> Value {
        let step = self.steps;
        self.steps += 1;
        if let Some(&known) = self.by_key.get(&key) {
            return known;
        }
        let value = Value(self.samples.len());
        self.keys.push(key);
        let known = self.guess(&key, &samples, step);
        let name = known.unwrap_or(value);
        if let Some(known) = known {
            self.claims.push(Claim { known, other: value, step });
        } else {
            self.by_samples.entry(samples.clone()).or_default().push(value);
        }
        self.samples.push(samples);
        self.by_key.insert(key, name);
        name
    }

    /// A value that may be that of `key`.
    fn guess(&self, key: &Key, samples: &Samples, step: usize) -> Option<Value> {
        let wrong = self.wrong.as_ref()?.get(&step).copied().unwrap_or(0);
        let turned = Key { sources: [key.sources[1], key.sources[0]], ..*key };
        let same = self.by_key.get(&turned).filter(|_| is_commutative(key.op)).copied();
        if same.is_some() {
            return same;
        }
        let alike = self.by_samples.get(samples).filter(|_| self.is_second && samples.is_telling())?;
        // The last first: sums with carries that hardly ever come follow each other.
        alike.iter().rev().nth(wrong).copied()
    }

    pub(crate) fn key(&self, value: Value) -> Option<Key> {
        value.0.checked_sub(32).and_then(|at| self.keys.get(at)).copied()
    }
}

/// The value that a move moves; none if `line` is no move.
fn moved(line: &Line, sources: [Value; 2]) -> Option<Value> {
    match (line.op, sources) {
        (Op::Addi, [source, _]) if line.imm == 0 => Some(source),
        (Op::Add, [Value::ZERO, source] | [source, Value::ZERO]) => Some(source),
        _ => None,
    }
}
