//! Each script group of a transaction in its own worker: a script that takes over its worker cannot answer
//! for the others.

use antares_pool::{
    NativeEnd, Pool, PoolError, Until, Verdict,
    job::{
        CellName, DEBUG_LINES_MAX, GroupReport, HOT_PROGRAMS_MAX, HotProgram, KnownGroup, Lines, Samples,
        VerifyFiles, VerifyJob, VerifyOutcome, VerifyReport,
    },
};
use antares_profile::{Profile, Value};

/// Verifies the groups of a transaction one after another, each in a fresh worker, with the result that one
/// worker would give.
pub(crate) fn verify(
    pool: &Pool,
    groups: &[KnownGroup],
    job: &VerifyJob,
    files: &VerifyFiles<'_>,
    until: &Until,
) -> Result<Verdict<VerifyReport>, PoolError> {
    let mut whole = Whole::new(groups);
    for (number, group) in groups.iter().enumerate() {
        let own = whole.job(number, group, job);
        match pool.verify(&own, files, until.clone())? {
            Verdict::Done(report @ VerifyReport::Done { .. }) => whole.take(number, report),
            other => return Ok(other),
        }
        if whole.outcome != VerifyOutcome::Ok {
            break;
        }
    }
    Ok(Verdict::Done(whole.into_report()))
}

/// Results so far.
struct Whole {
    outcome: VerifyOutcome,
    cycles: u64,
    debug_bytes: u64,
    debug_lines: usize,
    groups: Vec<GroupReport>,
    hot: Vec<HotProgram>,
    seen: Vec<(u32, antares_abi::Seen)>,
    ran: Vec<(u32, NativeEnd)>,
    samples: Sampled,
    times_us: (u64, u64),
}

impl Whole {
    fn new(groups: &[KnownGroup]) -> Self {
        Self {
            outcome: VerifyOutcome::Ok,
            cycles: 0,
            debug_bytes: 0,
            debug_lines: 0,
            groups: groups.iter().map(not_run).collect(),
            hot: Vec::new(),
            seen: Vec::new(),
            ran: Vec::new(),
            samples: Sampled::default(),
            times_us: (0, 0),
        }
    }

    /// The job of a group, with what earlier groups left of the limits.
    fn job(&self, number: usize, group: &KnownGroup, job: &VerifyJob) -> VerifyJob {
        let cell = match (group.inputs.first(), group.outputs.first()) {
            (Some(&input), _) => CellName::Input(input),
            (None, output) => CellName::Output(output.copied().unwrap_or(0)),
        };
        VerifyJob {
            group: Some((group.kind, cell)),
            cycles_max: job.cycles_max.saturating_sub(self.cycles),
            debug_bytes_max: job.debug_bytes_max.saturating_sub(self.debug_bytes),
            // Groups of one transaction are sampled at different points.
            sample_salt: job.sample_salt.wrapping_add(number as u64),
            is_alone: true,
            ..job.clone()
        }
    }

    /// Adds the report of group `number`. The pool has checked that it covers this group alone.
    fn take(&mut self, number: usize, report: VerifyReport) {
        let VerifyReport::Done { mut groups, hot, seen, ran, samples, read_us, run_us, .. } = report else {
            return;
        };
        let Some(mine) = self.groups.get_mut(number).filter(|_| number < groups.len()) else { return };
        *mine = groups.swap_remove(number);
        // As one worker for all groups would cut it.
        mine.debug.cut(DEBUG_LINES_MAX - self.debug_lines);
        self.debug_lines += mine.debug.count();
        self.outcome = mine.outcome;
        self.cycles = self.cycles.saturating_add(mine.cycles);
        self.debug_bytes = self.debug_bytes.saturating_add(mine.debug.bytes());
        self.samples.add(samples.as_deref(), mine);
        self.hot.extend(hot);
        self.seen.extend(seen);
        self.ran.extend(ran);
        self.times_us.0 = self.times_us.0.saturating_add(read_us);
        self.times_us.1 = self.times_us.1.saturating_add(run_us);
    }

    fn into_report(mut self) -> VerifyReport {
        self.hot.sort_by_key(|program| std::cmp::Reverse(program.cycles));
        self.hot.truncate(HOT_PROGRAMS_MAX);
        VerifyReport::Done {
            outcome: self.outcome,
            cycles: self.cycles,
            groups: self.groups,
            hot: self.hot,
            seen: self.seen,
            ran: self.ran,
            samples: self.samples.into_samples().map(Box::new),
            read_us: self.times_us.0,
            run_us: self.times_us.1,
        }
    }
}

/// The combined samples of all groups.
#[derive(Default)]
struct Sampled {
    profile: Profile,
    claims: Profile,
    unseen_cycles: u64,
    mismatch_cycles: u64,
    is_any: bool,
}

impl Sampled {
    fn add(&mut self, samples: Option<&Samples>, group: &GroupReport) {
        let decoded = samples.and_then(|samples| {
            Some((samples, Profile::decode(&samples.profile).ok()?, Profile::decode(&samples.claims).ok()?))
        });
        let Some((samples, profile, claims)) = decoded else {
            // No sample hit it.
            self.profile.add_other(Value::cycles(group.cycles));
            self.unseen_cycles = self.unseen_cycles.saturating_add(group.native_cycles);
            return;
        };
        self.is_any = true;
        self.profile.merge(&profile);
        self.claims.merge(&claims);
        self.unseen_cycles = self.unseen_cycles.saturating_add(samples.unseen_cycles);
        self.mismatch_cycles = self.mismatch_cycles.saturating_add(samples.mismatch_cycles);
    }

    fn into_samples(self) -> Option<Samples> {
        let Self { profile, claims, unseen_cycles, mismatch_cycles, is_any } = self;
        let (profile, claims) = (profile.encode().ok()?, claims.encode().ok()?);
        is_any.then_some(Samples { profile, claims, unseen_cycles, mismatch_cycles })
    }
}

fn not_run(group: &KnownGroup) -> GroupReport {
    GroupReport {
        script_hash: group.script_hash,
        kind: group.kind,
        outcome: VerifyOutcome::NotRun,
        exit_code: None,
        error: None,
        cycles: 0,
        native_cycles: 0,
        interpreted_cycles: 0,
        restarted: None,
        debug: Lines::default(),
        inputs: group.inputs.clone(),
        outputs: group.outputs.clone(),
    }
}

#[cfg(test)]
mod tests {
    use antares_pool::job::{GroupKind, Omitted};

    use super::*;

    #[test]
    fn lines_are_limited_over_all_groups() {
        let group = |number: u8| {
            let inputs = vec![u32::from(number)];
            KnownGroup { script_hash: [number; 32], kind: GroupKind::Lock, inputs, outputs: Vec::new() }
        };
        let known = [group(0), group(1)];
        let mut whole = Whole::new(&known);
        whole.debug_lines = DEBUG_LINES_MAX;
        let mut groups: Vec<_> = known.iter().map(not_run).collect();
        groups[1] = GroupReport {
            outcome: VerifyOutcome::Ok,
            debug: vec!["line".to_owned()].into(),
            ..groups[1].clone()
        };
        let report = VerifyReport::Done {
            outcome: VerifyOutcome::Ok,
            cycles: 70,
            groups,
            hot: Vec::new(),
            seen: Vec::new(),
            ran: Vec::new(),
            samples: None,
            read_us: 1,
            run_us: 1,
        };
        whole.take(1, report);
        assert_eq!((whole.outcome, whole.groups[1].debug.count()), (VerifyOutcome::Ok, 0));
        assert_eq!(whole.groups[1].debug.omitted(), Omitted { lines: 1, bytes: 5 });
    }
}
