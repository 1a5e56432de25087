//! Sampled profiles: the meter stops native code at each sample point, and its location there accounts for
//! the cycles since the last one.
//!
//! Sampling adds nothing to native code, because the meter stops it anyway. Each period has one sample point
//! at an offset that a seeded pseudorandom generator picks, so no loop can synchronize with the samples. The
//! same run with the same seed has the same samples. Each cycle is equally likely to be a sample point, and
//! each point stands for one period of cycles. So the samples of many runs converge, whatever the length of
//! each run.

use crate::{
    limits::SAMPLED_FRAMES_MAX,
    lineage::Lineage,
    recording::{ROOT, Recorded, Recording, StackLocation},
    walk::{GuestFrame, Walk},
};

/// How a run is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Cycles between samples, on average; at least 1.
    pub period: u64,
    /// Seed of the generator that places the sample points.
    pub seed: u64,
}

/// A profile under construction.
#[derive(Debug)]
pub struct Sampler {
    period: u64,
    random: u64,
    /// Cycles observed so far.
    clock: u64,
    /// End of the period that contains `next`.
    period_end: u64,
    /// The next sample point.
    next: u64,
    /// Cycles that the sample points so far stand for.
    sampled: u64,
    /// Context of the last sample.
    last: Option<u32>,
    samples: u64,
    /// Frames and contexts of the last sample, outermost first: the next sample shares most of them.
    stack: Vec<(u32, u64)>,
    contexts: Vec<u32>,
    root: u32,
    lineage: Lineage,
    recording: Recording,
}

impl Sampler {
    /// Creates an empty sampler.
    #[must_use]
    pub fn new(sampling: Sampling) -> Self {
        let mut sampler = Self {
            period: sampling.period.max(1),
            random: sampling.seed,
            clock: 0,
            period_end: 0,
            next: 0,
            sampled: 0,
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

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the recording of a run of `cycles`. A run ends in the middle of a period. If that period has a
    /// sample, the cycles it stands for beyond the run are its claim on other runs. If it has none, its
    /// cycles are unknown and [`Recording::unseen`]. Cycles that could not be sampled are unknown, but not
    /// unseen.
    #[must_use]
    pub fn finish(mut self, cycles: u64) -> Recording {
        let beyond = self.sampled.saturating_sub(self.clock);
        if let Some(context) = self.last.filter(|_| beyond > 0) {
            self.recording.claim(context, beyond);
        }
        self.recording.overlook(self.clock.saturating_sub(self.sampled));
        self.recording.spend_unknown(cycles.saturating_sub(self.clock));
        self.recording
    }

    /// Adds a program to the recording and returns its number.
    pub(crate) fn program(&mut self, program: Recorded) -> u32 {
        self.recording.program(program)
    }

    /// The VMs of the script group.
    pub(crate) fn lineage(&mut self) -> &mut Lineage {
        &mut self.lineage
    }

    /// Records that a program was loaded into this VM.
    pub(crate) fn load(&mut self, vm: u64) {
        self.lineage.load(vm, &mut self.recording);
    }

    /// Cycles to the next sample point.
    pub(crate) fn distance(&self) -> i64 {
        i64::try_from(self.next.saturating_sub(self.clock)).unwrap_or(i64::MAX)
    }

    /// Advances the clock. Returns whether a sample is due.
    pub(crate) fn advance(&mut self, cycles: u64) -> bool {
        self.clock = self.clock.saturating_add(cycles);
        self.clock > self.next
    }

    /// Takes a sample: the cycles of all sample points passed since the last sample count for these frames,
    /// innermost first, or for a system call that the innermost frame makes. `root` is the context of the VM.
    pub(crate) fn sample(
        &mut self,
        root: u32,
        frames: &[GuestFrame],
        programs: &[u32],
        syscall: Option<u64>,
    ) {
        let mut context = self.context(root, frames, programs);
        if let Some(number) = syscall {
            context = self.recording.context(context, StackLocation::Syscall(number)).0;
        }
        let mut points = 0_u64;
        while self.next < self.clock {
            points += 1;
            self.choose();
        }
        let cycles = points.saturating_mul(self.period);
        self.recording.spend(context, cycles);
        self.sampled = self.sampled.saturating_add(cycles);
        self.last = Some(context);
        self.samples += 1;
    }

    /// The context of these frames, innermost first, on top of `root`.
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
            self.contexts.push(self.recording.context(below, StackLocation::Code { program, pc }).0);
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

/// Sampling state of one stay in native code.
#[derive(Debug)]
pub(crate) struct Sampled {
    pub(crate) sampler: Sampler,
    /// Context of the VM.
    pub(crate) root: u32,
    /// For each library of the machine, the number of its program in the recording.
    pub(crate) programs: Vec<u32>,
    pub(crate) walk: Walk,
    /// Cycles of the stay that the sampler has counted.
    pub(crate) seen: u64,
}

impl Sampled {
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
        assert_eq!((recording.cycles(), recording.unseen(), recording.claimed()), (70_000, 0, None));
        assert_eq!(recording.contexts().len(), 1 + 1 + 3);
    }

    #[test]
    fn over_many_runs_every_cycle_counts_once() {
        // Two locations in runs shorter than a period, and in runs that end in the middle of their second
        // period.
        for (cycles, edge) in [(60, 20), (130, 30), (200, 100)] {
            let (mut first, mut all) = (0, 0);
            for seed in 0..20_000 {
                let mut sampler = Sampler::new(Sampling { period: 100, seed });
                for at in 0..cycles {
                    if sampler.advance(1) {
                        sampler.sample(ROOT, &[(0, u64::from(at >= edge))], &[0], None);
                    }
                }
                let recording = sampler.finish(cycles);
                assert_eq!(recording.cycles(), cycles);
                let claim = recording.claimed().unwrap_or((ROOT, 0));
                for (context, at) in recording.contexts().iter().zip(0..) {
                    let counted = context.cycles + if claim.0 == at { claim.1 } else { 0 };
                    all += counted;
                    if context.place == (StackLocation::Code { program: 0, pc: 0 }) {
                        first += counted;
                    }
                }
            }
            let whole = 20_000 * cycles;
            assert!(all.abs_diff(whole) < whole / 50, "{all} of {whole}");
            let wanted = 20_000 * edge;
            assert!(first.abs_diff(wanted) < wanted / 20, "{first} of {wanted}, {cycles}");
        }
    }

    #[test]
    fn a_run_that_no_sample_hit_is_unknown() {
        let mut sampler = sampler(u64::MAX);
        assert!(!sampler.advance(10));
        let recording = sampler.finish(12);
        assert_eq!((recording.cycles(), recording.unknown().0, recording.unseen()), (12, 12, 10));
    }

    #[test]
    fn one_long_step_is_one_sample() {
        let mut sampler = sampler(10);
        assert!(sampler.advance(1000));
        sampler.sample(ROOT, &[(0, 4)], &[0], Some(2177));
        assert!(sampler.distance() >= 0);
        assert_eq!(sampler.samples(), 1);
        let recording = sampler.finish(1000);
        assert_eq!(recording.contexts()[2].place, StackLocation::Syscall(2177));
        // The last period may end after the run.
        let claim = recording.claimed().map_or(0, |(_, cycles)| cycles);
        assert_eq!(recording.contexts()[2].cycles + recording.unseen(), 1000);
        assert!(claim < 10 && (claim == 0 || recording.unseen() == 0));
    }
}
