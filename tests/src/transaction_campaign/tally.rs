//! Statistics of a campaign: outcomes of scenarios, their actions, and the native share.

use std::{
    cell::Cell as Slot,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use bytes::Bytes;
use ckb_script::types::Machine;
use ckb_vm::{DefaultMachine, DefaultMachineRunner, Error, elf::ProgramMetadata};

use super::{
    compare::{Agreed, Verdict},
    orders::Verb,
    scenario::{Limit, Scenario},
};

/// Minimum of many swaps.
const MANY: u64 = 10;

/// Counts of scenarios.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Scenarios without a difference.
    pub equal: u64,
    /// Scenarios with a difference.
    pub different: u64,
    /// Scenarios by the text of the error, or `ok`.
    pub endings: BTreeMap<String, u64>,
    /// Scenarios by latest version.
    pub versions: BTreeMap<u32, u64>,
    /// Scenarios that ran entirely natively.
    pub native: u64,
    /// Scenarios in which loaded code ran natively.
    pub loaded: u64,
    /// Scenarios with a group that restarted in the interpreter, by reason.
    pub restarts: BTreeMap<String, u64>,
    /// Scenarios with suspended and resumed VMs.
    pub swapped: u64,
    /// Such scenarios with many suspensions.
    pub swapped_often: u64,
    /// Such scenarios that ran entirely natively.
    pub swapped_natively: u64,
    /// Number of resumed VMs.
    pub swaps: u64,
    /// Scenarios that paused.
    pub paused: u64,
    /// Scenarios with a tight limit.
    pub limited: u64,
    /// Executed and printed orders by verb, and how many of their system calls failed.
    pub verbs: BTreeMap<Verb, (u64, u64)>,
    /// Cycles of the full tier, native and interpreted.
    pub cycles: (u64, u64),
}

impl Tally {
    /// Counts a scenario without a difference.
    pub fn count(&mut self, scenario: &Scenario, agreed: &Agreed) {
        self.equal += 1;
        *self.versions.entry(scenario.newest).or_default() += 1;
        let ending = match &agreed.verdict.result {
            Ok(_) => "ok".to_owned(),
            Err(text) => ending(text),
        };
        *self.endings.entry(ending).or_default() += 1;
        let is_native = agreed.restarts.is_empty() && agreed.native_cycles > 0;
        self.native += u64::from(is_native);
        self.loaded += u64::from(agreed.has_native_loaded);
        for reason in BTreeSet::from_iter(&agreed.restarts) {
            *self.restarts.entry(reason.clone()).or_default() += 1;
        }
        self.swaps += agreed.swaps;
        self.swapped += u64::from(agreed.swaps > 0);
        self.swapped_often += u64::from(agreed.swaps >= MANY);
        self.swapped_natively += u64::from(agreed.swaps > 0 && is_native);
        self.paused += u64::from(agreed.pauses > 0);
        self.limited += u64::from(scenario.limit != Limit::Wide);
        self.cycles.0 += agreed.native_cycles;
        self.cycles.1 += agreed.interpreted_cycles;
        for (verb, result) in agreed.verdict.debug.iter().filter_map(|line| executed(line)) {
            let (count, failed) = self.verbs.entry(verb).or_default();
            *count += 1;
            *failed += u64::from(result != 0);
        }
    }
}

/// Number of spawned VMs, according to the printed lines.
pub(super) fn spawned(verdict: &Verdict) -> usize {
    verdict.debug.iter().filter(|line| executed(line) == Some((Verb::Spawn, 0))).count()
}

/// The kind of an error in ckb-script's text.
fn ending(text: &str) -> String {
    let cause = text.split("cause: ").nth(1).unwrap_or(text);
    let end = cause.find(|letter: char| letter.is_ascii_digit()).unwrap_or(cause.len());
    cause[..end].chars().take(60).collect::<String>().trim().to_owned()
}

/// The verb and the upper half of the result in an actor's line.
fn executed(line: &str) -> Option<(Verb, u64)> {
    let mut words = line.split(' ').map(|word| u64::from_str_radix(word, 16));
    let (Some(Ok(what)), Some(Ok(result))) = (words.next(), words.next()) else { return None };
    let verb = Verb::from_repr(what as usize & 0xff)?;
    let is_pair = matches!(
        verb,
        Verb::Spawn | Verb::Pipe | Verb::Transfer | Verb::Wait | Verb::Exec | Verb::Inherit | Verb::Load
    );
    Some((verb, if is_pair { result >> 32 } else { 0 }))
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} equal, {} different", self.equal, self.different)?;
        writeln!(
            f,
            "natively to the end {}, with native loaded code {}; {} million cycles natively, {} interpreted; restarts {:?}",
            self.native,
            self.loaded,
            self.cycles.0 / 1_000_000,
            self.cycles.1 / 1_000_000,
            self.restarts
        )?;
        writeln!(
            f,
            "VMs put aside in {} ({} of them natively to the end, {} at least {MANY} times), {} times; paused {}; limited {}",
            self.swapped, self.swapped_natively, self.swapped_often, self.swaps, self.paused, self.limited
        )?;
        writeln!(f, "newest versions {:?}", self.versions)?;
        for (ending, count) in &self.endings {
            writeln!(f, "{count:8} {ending}")?;
        }
        for (verb, (count, failed)) in &self.verbs {
            writeln!(f, "{count:8} {verb:?}, {failed} not 0")?;
        }
        Ok(())
    }
}

thread_local! {
    /// Number of created machines, and of loaded programs.
    static COUNTS: Slot<(u64, u64)> = const { Slot::new((0, 0)) };
}

/// ckb-script's own machine, with counting: a machine that loads no program belongs to a resumed VM.
pub(super) struct Counted(Machine);

impl Counted {
    /// Resets the counts of this thread.
    pub(super) fn start() {
        COUNTS.set((0, 0));
    }

    /// Number of resumed VMs since then.
    pub(super) fn swaps() -> u64 {
        let (made, loaded) = COUNTS.get();
        made.saturating_sub(loaded)
    }
}

impl DefaultMachineRunner for Counted {
    type Inner = <Machine as DefaultMachineRunner>::Inner;

    fn new(machine: DefaultMachine<Self::Inner>) -> Self {
        COUNTS.set((COUNTS.get().0 + 1, COUNTS.get().1));
        Self(Machine::new(machine))
    }

    fn machine(&self) -> &DefaultMachine<Self::Inner> {
        DefaultMachineRunner::machine(&self.0)
    }

    fn machine_mut(&mut self) -> &mut DefaultMachine<Self::Inner> {
        self.0.machine_mut()
    }

    fn run(&mut self) -> Result<i8, Error> {
        DefaultMachineRunner::run(&mut self.0)
    }

    fn load_program_with_metadata(
        &mut self,
        program: &Bytes,
        metadata: &ProgramMetadata,
        args: impl ExactSizeIterator<Item = Result<Bytes, Error>>,
    ) -> Result<u64, Error> {
        COUNTS.set((COUNTS.get().0, COUNTS.get().1 + 1));
        self.0.load_program_with_metadata(program, metadata, args)
    }
}
