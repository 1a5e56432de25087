//! Each script group of a transaction in a worker of its own: a script that takes its worker over cannot
//! answer for the others.

use antares_pool::{
    NativeEnd, Pool, PoolError, Until, Verdict,
    job::{
        CellName, DEBUG_LINES_MAX, GroupKind, GroupReport, HOT_PROGRAMS_MAX, HotProgram, Lines, Samples,
        VerifyFiles, VerifyJob, VerifyOutcome, VerifyReport,
    },
};
use antares_profile::{Profile, Value};
use antares_transaction::Group;

/// Has the groups of a transaction verified one after another, each in a fresh worker, as one worker would
/// have. Which groups there are, and which cells they have, no worker says.
pub(crate) fn verify(
    pool: &Pool,
    groups: &[Group],
    job: &VerifyJob,
    files: &VerifyFiles<'_>,
    until: &Until,
) -> Result<Verdict<VerifyReport>, PoolError> {
    let mut whole = Whole::new(groups);
    for (number, group) in groups.iter().enumerate() {
        let own = whole.job(number, group, job);
        match pool.verify(&own, files, until.clone())? {
            Verdict::Done(report @ VerifyReport::Done { .. }) => {
                if let Err(detail) = whole.take(number, report) {
                    return Ok(Verdict::WorkerLost { detail });
                }
            }
            other => return Ok(other),
        }
        if whole.outcome != VerifyOutcome::Ok {
            break;
        }
    }
    Ok(Verdict::Done(whole.into_report()))
}

/// What is known so far.
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
    fn new(groups: &[Group]) -> Self {
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

    /// The job of a group: what those before it left.
    fn job(&self, number: usize, group: &Group, job: &VerifyJob) -> VerifyJob {
        let cell = match (group.inputs.first(), group.outputs.first()) {
            (Some(&input), _) => CellName::Input(input),
            (None, output) => CellName::Output(output.copied().unwrap_or(0)),
        };
        VerifyJob {
            group: Some((kind(group), cell)),
            cycles_max: job.cycles_max.saturating_sub(self.cycles),
            debug_bytes_max: job.debug_bytes_max.saturating_sub(self.debug_bytes),
            // Groups of one transaction are sampled at different points.
            sample_salt: job.sample_salt.wrapping_add(number as u64),
            is_alone: true,
            ..job.clone()
        }
    }

    /// Takes what the worker of group `number` says of that group, and of nothing else.
    fn take(&mut self, number: usize, report: VerifyReport) -> Result<(), String> {
        let VerifyReport::Done { groups, hot, seen, ran, samples, read_us, run_us, .. } = report else {
            return Ok(());
        };
        let Some(mine) = self.groups.get_mut(number) else { return Ok(()) };
        let mut told = groups.into_iter();
        let told = told.find(|told| (told.kind, told.script_hash) == (mine.kind, mine.script_hash));
        let told = told.filter(|told| (&told.inputs, &told.outputs) == (&mine.inputs, &mine.outputs));
        let Some(told) = told.filter(|told| told.outcome != VerifyOutcome::NotRun) else {
            return Err("it answered for another group than it was asked for".to_owned());
        };
        *mine = told;
        // As one worker for all would have said.
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
        Ok(())
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

/// The samples of all groups together.
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
            // None of its samples hit it.
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

fn kind(group: &Group) -> GroupKind {
    if group.is_type { GroupKind::Type } else { GroupKind::Lock }
}

fn not_run(group: &Group) -> GroupReport {
    GroupReport {
        script_hash: group.script_hash,
        kind: kind(group),
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
    use antares_pool::job::LeftOut;

    use super::*;

    fn group(number: u8) -> Group {
        let inputs = vec![u32::from(number)];
        Group { script_hash: [number; 32], is_type: false, inputs, outputs: Vec::new() }
    }

    /// What a worker says that was asked for group 1 of two.
    fn told(change: impl FnOnce(&mut Vec<GroupReport>)) -> VerifyReport {
        let mut groups: Vec<_> = [0, 1].map(|number| not_run(&group(number))).into();
        (groups[1].outcome, groups[1].exit_code, groups[1].cycles) = (VerifyOutcome::Ok, Some(0), 70);
        change(&mut groups);
        VerifyReport::Done {
            outcome: VerifyOutcome::Ok,
            cycles: 70,
            groups,
            hot: Vec::new(),
            seen: Vec::new(),
            ran: Vec::new(),
            samples: None,
            read_us: 1,
            run_us: 1,
        }
    }

    #[test]
    fn a_worker_answers_for_its_own_group_alone() {
        let groups = [group(0), group(1)];
        let mut whole = Whole::new(&groups);
        // It says that another one ended well; nobody asked.
        whole.take(1, told(|groups| groups[0].outcome = VerifyOutcome::Ok)).unwrap();
        assert_eq!(
            (whole.groups[0].outcome, whole.groups[1].outcome),
            (VerifyOutcome::NotRun, VerifyOutcome::Ok)
        );
        assert_eq!(whole.cycles, 70);
        // It did not run, has other cells, or is not there at all.
        let lies: [fn(&mut Vec<GroupReport>); 3] = [
            |groups| groups[1].outcome = VerifyOutcome::NotRun,
            |groups| groups[1].inputs = vec![0, 1],
            |groups| groups[1].script_hash = [7; 32],
        ];
        for lie in lies {
            assert!(Whole::new(&groups).take(1, told(lie)).is_err());
        }
    }

    #[test]
    fn lines_are_limited_over_all_groups() {
        let groups = [group(0), group(1)];
        let mut whole = Whole::new(&groups);
        whole.debug_lines = DEBUG_LINES_MAX;
        whole.take(1, told(|groups| groups[1].debug = vec!["line".to_owned()].into())).unwrap();
        assert_eq!((whole.outcome, whole.groups[1].debug.count()), (VerifyOutcome::Ok, 0));
        assert_eq!(whole.groups[1].debug.left_out(), LeftOut { lines: 1, bytes: 5 });
    }
}
