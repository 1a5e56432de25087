//! Statistics of a campaign.

use std::{collections::BTreeMap, fmt};

use super::compare::Equal;

/// Programs of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindTally {
    /// Compared programs.
    pub programs: u64,
    /// Programs that ran natively to their exit.
    pub native: u64,
    /// Guest cycles.
    pub cycles: u64,
    /// Guest cycles in native code.
    pub native_cycles: u64,
    pub outcomes: BTreeMap<String, u64>,
    /// Reasons of bailouts.
    pub restarts: BTreeMap<&'static str, u64>,
}

/// Statistics of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Compared programs.
    pub programs: u64,
    /// Programs that ran natively to their exit.
    pub native: u64,
    /// Statistics by kind.
    pub kinds: BTreeMap<String, KindTally>,
    /// ELFs that the compiler refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Compiled libraries. The check of machine code has accepted each of them: its first refusal ends a
    /// campaign.
    pub libraries: u64,
}

fn add<K: Ord>(to: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
    from.into_iter().for_each(|(name, count)| *to.entry(name).or_default() += count);
}

impl Tally {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: Self) {
        self.programs += other.programs;
        self.native += other.native;
        self.libraries += other.libraries;
        add(&mut self.refused, other.refused);
        for (name, seen) in other.kinds {
            let kind = self.kinds.entry(name).or_default();
            kind.programs += seen.programs;
            kind.native += seen.native;
            kind.cycles += seen.cycles;
            kind.native_cycles += seen.native_cycles;
            add(&mut kind.outcomes, seen.outcomes);
            add(&mut kind.restarts, seen.restarts);
        }
    }

    /// Counts a program of the kind `name`.
    pub fn count(&mut self, name: String, equal: &Equal) {
        let is_native = u64::from(equal.native_cycles > 0);
        self.programs += 1;
        self.native += is_native;
        let kind = self.kinds.entry(name).or_default();
        kind.programs += 1;
        kind.native += is_native;
        kind.cycles += equal.cycles;
        kind.native_cycles += equal.native_cycles;
        let outcome = equal.outcome.split('(').next().unwrap_or_default().to_owned();
        *kind.outcomes.entry(outcome).or_default() += 1;
        if let Some(reason) = equal.restarted {
            *kind.restarts.entry(reason.name()).or_default() += 1;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} programs equal, {} of them natively to the exit", self.programs, self.native)?;
        for (name, kind) in &self.kinds {
            let KindTally { programs, native, cycles, .. } = kind;
            writeln!(f, "{name:<10} {programs:>8} programs, {native:>8} natively, {cycles:>12} cycles")?;
            writeln!(f, "{:<10} outcomes {:?}", "", kind.outcomes)?;
            writeln!(f, "{:<10} native code left {:?}", "", kind.restarts)?;
        }
        writeln!(f, "{} libraries, 0 refused by the check of machine code", self.libraries)?;
        write!(f, "refused by the compiler: {:?}", self.refused)
    }
}
