//! Sampled profiles: native code is granted cycles up to the next sample point, and where it is then, the cycles since the last
//! one count.
//!
//! Nothing is added to native code: the meter stops it anyway. There is one sample point in each period, at a place inside of
//! it that a generator of numbers picks from a seed, so that no loop can keep in step; the same run has the same samples.

use crate::{
    limits::SAMPLED_FRAMES_MAX,
    lineage::Lineage,
    recording::{Place, ROOT, Recorded, Recording},
    walk::{GuestFrame, Walk},
};

/// How a run is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Cycles between samples, on average; at least 1.
    pub period: u64,
    /// What the places of the sample points follow from.
    pub seed: u64,
}

/// A profile in the making.
#[derive(Debug)]
pub struct Sampler {
    period: u64,
    random: u64,
    /// Cycles that were seen.
    clock: u64,
    /// End of the period that `next` lies in.
    period_end: u64,
    /// The next sample point.
    next: u64,
    /// Cycles since the last sample.
    pending: u64,
    /// Context of the last sample.
    last: Option<u32>,
    samples: u64,
    /// Frames and contexts of the last sample, the first one called by nothing: most of the next one is the same.
    stack: Vec<(u32, u64)>,
    contexts: Vec<u32>,
    root: u32,
    lineage: Lineage,
    recording: Recording,
}

impl Sampler {
    /// A sampler that has seen nothing.
    #[must_use]
    pub fn new(sampling: Sampling) -> Self {
        let mut sampler = Self {
            period: sampling.period.max(1),
            random: sampling.seed,
            clock: 0,
            period_end: 0,
            next: 0,
            pending: 0,
            last: None,
            samples: 0,
            stack: Vec::with_capacity(SAMPLED_FRAMES_MAX),
            contexts: Vec::with_capacity(SAMPLED_FRAMES_MAX),
            root: ROOT,
            lineage: Lineage::default(),
            recording: Recording::default(),
        };
        sampler.choose();
        sampler
    }

    /// How many samples there were.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// What was sampled of a run of `cycles`. Those behind the last sample count where that was; those of a run without one,
    /// and those that were spent where nobody could look, are unknown.
    #[must_use]
    pub fn finish(mut self, cycles: u64) -> Recording {
        match self.last {
            Some(context) => self.recording.spend(context, self.pending),
            None => self.recording.spend_unknown(self.pending),
        }
        self.recording.spend_unknown(cycles.saturating_sub(self.clock));
        self.recording
    }

    /// The number of a program in the recording.
    pub(crate) fn program(&mut self, program: Recorded) -> u32 {
        self.recording.program(program)
    }

    /// The VMs of the script group.
    pub(crate) fn lineage(&mut self) -> &mut Lineage {
        &mut self.lineage
    }

    /// A program was loaded into this VM.
    pub(crate) fn load(&mut self, vm: u64) {
        self.lineage.load(vm, &mut self.recording);
    }

    /// Cycles to the next sample point.
    pub(crate) fn distance(&self) -> i64 {
        i64::try_from(self.next.saturating_sub(self.clock)).unwrap_or(i64::MAX)
    }

    /// Time passes. Whether a sample is due.
    pub(crate) fn advance(&mut self, cycles: u64) -> bool {
        self.clock = self.clock.saturating_add(cycles);
        self.pending = self.pending.saturating_add(cycles);
        self.clock > self.next
    }

    /// A sample: all cycles since the last one count for these frames, the last one that was called first, or for a system
    /// call that the first of them makes. `root` is the context of the VM.
    pub(crate) fn sample(
        &mut self,
        root: u32,
        frames: &[GuestFrame],
        programs: &[u32],
        syscall: Option<u64>,
    ) {
        let mut context = self.context(root, frames, programs);
        if let Some(number) = syscall {
            context = self.recording.context(context, Place::Syscall(number)).0;
        }
        self.recording.spend(context, std::mem::take(&mut self.pending));
        self.last = Some(context);
        self.samples += 1;
        while self.next < self.clock {
            self.choose();
        }
    }

    /// The context of these frames, the last one that was called first, on `root`.
    pub(crate) fn context(&mut self, root: u32, frames: &[GuestFrame], programs: &[u32]) -> u32 {
        let number = |library: usize| programs.get(library).copied().unwrap_or(0);
        let stack = frames.iter().rev().map(|(library, pc)| (number(*library), *pc));
        let same = match self.root == root {
            true => self.stack.iter().zip(stack.clone()).take_while(|(old, new)| **old == *new).count(),
            false => 0,
        };
        self.root = root;
        self.stack.truncate(same);
        self.contexts.truncate(same);
        for (program, pc) in stack.skip(same) {
            let below = self.contexts.last().copied().unwrap_or(root);
            self.contexts.push(self.recording.context(below, Place::Code { program, pc }).0);
            self.stack.push((program, pc));
        }
        self.contexts.last().copied().unwrap_or(root)
    }

    /// Picks the sample point of the next period.
    fn choose(&mut self) {
        self.next = self.period_end.saturating_add(self.random() % self.period);
        self.period_end = self.period_end.saturating_add(self.period);
    }

    /// `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What one stay in native code needs to be sampled.
#[derive(Debug)]
pub(crate) struct Sampled {
    pub(crate) sampler: Sampler,
    /// Context of the VM.
    pub(crate) root: u32,
    /// By library of the machine, the number of its program in the recording.
    pub(crate) programs: Vec<u32>,
    pub(crate) walk: Walk,
    /// Cycles of the stay that the sampler has seen.
    pub(crate) seen: u64,
}

impl Sampled {
    /// A stay that has just begun.
    pub(crate) fn new(sampler: Sampler, root: u32, programs: Vec<u32>) -> Self {
        Self { sampler, root, programs, walk: Walk::default(), seen: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(period: u64) -> Sampler {
        Sampler::new(Sampling { period, seed: 7 })
    }

    #[test]
    fn samples_add_up_and_come_once_a_period() {
        let mut sampler = sampler(100);
        for step in 0..10_000 {
            if sampler.advance(7) {
                sampler.sample(ROOT, &[(0, step % 3), (0, 40)], &[0], None);
            }
        }
        // Points in neighbouring periods may be less than a step apart.
        assert!((650..=700).contains(&sampler.samples()), "{}", sampler.samples());
        let recording = sampler.finish(70_000);
        assert_eq!((recording.cycles(), recording.unknown().0), (70_000, 0));
        assert_eq!(recording.contexts().len(), 1 + 1 + 3);
    }

    #[test]
    fn a_run_that_no_sample_hit_is_unknown() {
        let mut sampler = sampler(u64::MAX);
        assert!(!sampler.advance(10));
        let recording = sampler.finish(12);
        assert_eq!((recording.cycles(), recording.unknown().0), (12, 12));
    }

    #[test]
    fn one_long_step_is_one_sample() {
        let mut sampler = sampler(10);
        assert!(sampler.advance(1000));
        sampler.sample(ROOT, &[(0, 4)], &[0], Some(2177));
        assert!(sampler.distance() >= 0);
        assert_eq!(sampler.samples(), 1);
        let recording = sampler.finish(1000);
        assert_eq!(recording.contexts()[2].place, Place::Syscall(2177));
        assert_eq!(recording.contexts()[2].cycles, 1000);
    }
}
