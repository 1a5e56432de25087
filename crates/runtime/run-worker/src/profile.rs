//! Profiles a run or a verification in a sandboxed child. Everything is interpreted.

use std::{
    cell::RefCell,
    hash::{DefaultHasher, Hash, Hasher},
    mem,
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use antares_pool::{
    Files, describe,
    job::{
        DiagnosisJob, DiagnosisReport, ProfileJob, ProfileReport, ProfiledReport, RunJob, SAMPLES_BYTES_MAX,
        SAMPLES_NODES_MAX, Samples, VerifyJob, VerifyReport,
    },
};
use antares_profile::evidence::Evidence;
use antares_profile::{Frame, Profile, Value, limits::NODES_MAX};
use antares_verifier::{
    Engine, GroupKind, GroupReport, StopHandle, TierCycles, TransactionLimits, TransactionReport, Verifier,
    VerifyOutcome, limits::SWITCH_CYCLES,
};
use antares_vm::{
    GroupRecording, ProfileSession, ProfiledMachine, Recording, RunScript, Watching,
    limits::{RECORDING_HEAP_BYTES, WATCHING_HEAP_BYTES},
    reserve_heap,
};
use bytes::Bytes;

use crate::{
    RunWorker,
    explain::{Ran, RanTransaction, explain},
    limits, verify,
};

/// Maximum bytes of arguments that affect the seed.
const SEED_BYTES_MAX: usize = 4096;

/// Heap for converting a recording to a profile: its tables, sorted once more, and its bytes.
const PROFILE_HEAP_BYTES: usize = 384 << 20;

impl RunWorker {
    pub(crate) fn profile(&mut self, job: ProfileJob, files: &Files) -> Result<ProfileReport, String> {
        if !reserve_heap(RECORDING_HEAP_BYTES + PROFILE_HEAP_BYTES) {
            return Err("cannot reserve heap".to_owned());
        }
        Ok(self.record(job, files, None)?.report)
    }

    pub(crate) fn diagnose(&mut self, job: DiagnosisJob, files: &Files) -> Result<DiagnosisReport, String> {
        if !reserve_heap(RECORDING_HEAP_BYTES + PROFILE_HEAP_BYTES + WATCHING_HEAP_BYTES) {
            return Err("cannot reserve heap".to_owned());
        }
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let watching = Watching {
            follow_from: job.follow_from,
            switch_cycles: SWITCH_CYCLES,
            system_calls_max: count(job.system_calls_max),
            steps_max: count(job.steps_max),
        };
        let Recorded { mut report, evidence, ran } = self.record(job.job, files, Some(watching))?;
        if job.reported_bytes_max == 0 {
            let evidence = evidence.map(Evidence::encode).transpose().map_err(|error| describe(&error))?;
            return Ok(DiagnosisReport {
                report,
                evidence: evidence.unwrap_or_default(),
                reported: String::new(),
            });
        }
        // Freed before the name lookup, which needs as much heap.
        report.profile = Vec::new();
        let reported =
            evidence.map(|evidence| explain(&evidence, &ran, &report.report, count(job.reported_bytes_max)));
        Ok(DiagnosisReport { report, evidence: Vec::new(), reported: reported.unwrap_or_default() })
    }

    fn record(
        &mut self,
        job: ProfileJob,
        files: &Files,
        watching: Option<Watching>,
    ) -> Result<Recorded, String> {
        match job {
            ProfileJob::Run(job) => self.profile_run(job, files, watching),
            ProfileJob::Verify(job) => self.profile_verification(&job, files, watching),
        }
    }

    fn profile_run(
        &mut self,
        job: RunJob,
        files: &Files,
        watching: Option<Watching>,
    ) -> Result<Recorded, String> {
        let args: Vec<Bytes> = job.args.into_iter().map(Bytes::from).collect();
        self.load(job.debug_bytes_max, files)?;
        // Taken, because a child with a recording is not reused.
        let loaded = self.loaded.take().ok_or("no script is loaded")?;
        let (vm_version, isa) = (job.options.vm_version, job.options.isa.0);
        let script = RunScript { elf: &loaded.elf, args: &args, vm_version, isa };
        let limits = limits(job.cycles_max, job.debug_bytes_max);
        let recorded = match watching {
            Some(watching) => self.machine.watch(&script, &limits, watching),
            None => self
                .machine
                .profile(&script, &limits)
                .map(|(report, recording)| (report, recording, Evidence::default())),
        };
        let (report, recording, evidence) = recorded.map_err(|error| describe(&error))?;
        let mut profile = recording.to_profile();
        let mismatch_cycles = balance(&mut profile, report.cycles);
        let elf = loaded.elf.clone();
        mem::forget((loaded, recording));
        let report = finish(ProfiledReport::Run(report), &profile, mismatch_cycles)?;
        Ok(Recorded { report, evidence: Some(evidence), ran: Ran::Script(elf) })
    }

    fn profile_verification(
        &mut self,
        job: &VerifyJob,
        files: &Files,
        watching: Option<Watching>,
    ) -> Result<Recorded, String> {
        let mut loaded = verify::load(job, files)?;
        // SAFETY: the run stage closes no descriptor.
        unsafe { self.run.lock_in(files.zygote()) }.map_err(|error| describe(&error))?;
        let start = Instant::now();
        let (mock, prepared) = match verify::read_and_prepare(job, &mut loaded) {
            Ok(read) => read,
            Err(refused) => return finish_refused(*refused),
        };
        let read_us = verify::micros(start);
        let groups = Rc::new(RefCell::new(Vec::new()));
        let session = watching.map_or_else(ProfileSession::new, ProfileSession::watching);
        let engine = Profiled { session, groups: groups.clone() };
        let limits = TransactionLimits { cycles_max: job.cycles_max, debug_bytes_max: job.debug_bytes_max };
        let start = Instant::now();
        let report = match Verifier::new(prepared, limits, engine, StopHandle::default()).verify(job.group) {
            Ok(report) => report,
            Err(error) => return finish_refused(verify::refused(&error)),
        };
        let run_us = verify::micros(start);
        let mut groups = groups.take();
        // If a group failed, it is the last one that ran.
        let evidence = groups.last_mut().and_then(|group| group.evidence.take());
        let (profile, mismatch_cycles) = of_groups(&report, groups);
        let report: VerifyReport = verify::to_report(report, verify::Found::default(), read_us, run_us);
        let report = finish(ProfiledReport::Verify(report), &profile, mismatch_cycles)?;
        Ok(Recorded {
            report,
            evidence,
            ran: Ran::Transaction(Box::new(RanTransaction { mock, rules: job.rules, group: job.group })),
        })
    }
}

/// The report, and evidence if it was requested and a script ran.
struct Recorded {
    report: ProfileReport,
    evidence: Option<Evidence>,
    ran: Ran,
}

fn finish_refused(refused: VerifyReport) -> Result<Recorded, String> {
    let report = finish(ProfiledReport::Verify(refused), &Profile::default(), 0)?;
    Ok(Recorded { report, evidence: None, ran: Ran::Nothing })
}

/// The seed of a run's sample points, from its arguments and the supervisor's salt. Without the salt, equal
/// runs would always sample the same instructions.
pub(crate) fn seed(args: &[Bytes], salt: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    salt.hash(&mut hasher);
    let mut left = SEED_BYTES_MAX;
    for arg in args {
        let part = &arg[..arg.len().min(left)];
        part.hash(&mut hasher);
        left -= part.len();
    }
    hasher.finish()
}

/// The samples of a run, if there are any.
pub(crate) fn samples_of_run(recording: &Recording, cycles: u64) -> Option<Samples> {
    if recording.contexts().len() == 1 {
        return None;
    }
    let mut profile = recording.to_profile_within(SAMPLES_NODES_MAX);
    let mismatch_cycles = balance(&mut profile, cycles);
    samples(&profile, &recording.claims(), (recording.unseen(), mismatch_cycles))
}

/// The samples of a verification, if there are any.
pub(crate) fn samples_of_groups(report: &TransactionReport, recordings: Vec<Recording>) -> Option<Samples> {
    if recordings.iter().all(|recording| recording.contexts().len() == 1) {
        return None;
    }
    // Cycles without a sample are unknown, not a mismatch: recordings were made without the total cycles.
    let unseen = recordings.iter().map(Recording::unseen).sum();
    let claims = claims_of_groups(report, &recordings);
    let of = |recording| GroupRecording { recording, switches: 0, evidence: None };
    let (profile, _) = of_groups(report, recordings.into_iter().map(of).collect());
    samples(&profile, &claims, (unseen, profile.sum().cycles.abs_diff(report.cycles)))
}

fn samples(
    profile: &Profile,
    claims: &Profile,
    (unseen_cycles, mismatch_cycles): (u64, u64),
) -> Option<Samples> {
    let profile = profile.encode().ok()?;
    let claims = claims.encode().ok()?;
    let fits = profile.len() + claims.len() <= SAMPLES_BYTES_MAX;
    fits.then_some(Samples { profile, claims, unseen_cycles, mismatch_cycles })
}

/// The claims of the groups' last samples, each under its group's frame.
fn claims_of_groups(report: &TransactionReport, recordings: &[Recording]) -> Profile {
    let mut all = Profile::default();
    let mut recordings = recordings.iter();
    let ran = report.groups.iter().zip(0..).filter(|(group, _)| group.outcome != VerifyOutcome::NotRun);
    for (group, index) in ran.filter(|(group, _)| !is_built_in(group)) {
        let claims = recordings.next().map(Recording::claims).filter(|claims| !claims.nodes().is_empty());
        if let Some(claims) = claims {
            let root = all.child(None, Frame::Group { is_type: group.kind == GroupKind::Type, index });
            all.merge_under(root, &claims);
        }
    }
    all
}

fn finish(report: ProfiledReport, profile: &Profile, mismatch_cycles: u64) -> Result<ProfileReport, String> {
    let profile = profile.encode().map_err(|error| describe(&error))?;
    Ok(ProfileReport { report, profile, mismatch_cycles })
}

/// Stacks of a group in addition to those of its recording.
const FRAMES_OF_GROUP: usize = 3;

/// The engine of a profiled transaction: one recording for each script group that runs in VMs.
struct Profiled {
    session: Arc<ProfileSession>,
    groups: Rc<RefCell<Vec<GroupRecording>>>,
}

impl Engine for Profiled {
    type Machine = ProfiledMachine;

    fn attempt<T>(&self, mut attempt: impl FnMut() -> T) -> T {
        self.session.attempt(&mut attempt)
    }

    fn take_counts(&self) -> Option<TierCycles> {
        self.groups.borrow_mut().push(self.session.take());
        None
    }
}

/// The profile of all groups, and the mismatch with their cycles.
fn of_groups(report: &TransactionReport, recordings: Vec<GroupRecording>) -> (Profile, u64) {
    let (mut all, mut mismatch) = (Profile::default(), 0_u64);
    // All recordings together must fit into one profile.
    let nodes_max = (NODES_MAX / recordings.len().max(1)).saturating_sub(FRAMES_OF_GROUP);
    let mut recordings = recordings.into_iter();
    for (group, index) in
        report.groups.iter().zip(0..).filter(|(group, _)| group.outcome != VerifyOutcome::NotRun)
    {
        let mut profile = if is_built_in(group) {
            let mut profile = Profile::default();
            profile.add(&[Frame::TypeId], Value::cycles(group.cycles));
            profile
        } else {
            let GroupRecording { recording, switches, .. } = recordings.next().unwrap_or_default();
            let mut profile = recording.to_profile_within(nodes_max);
            add_switches(&mut profile, group, switches);
            profile
        };
        mismatch = mismatch.saturating_add(balance(&mut profile, group.cycles));
        let frame = Frame::Group { is_type: group.kind == GroupKind::Type, index };
        let root = all.child(None, frame);
        all.merge_under(root, &profile);
    }
    (all.canonical(), mismatch)
}

/// Whether the group is the built-in type id script, which runs in no VM. A failed one has no cycles, and no
/// group runs after it.
fn is_built_in(group: &GroupReport) -> bool {
    group.cycles > 0 && group.native_cycles == 0 && group.interpreted_cycles == 0 && group.restarted.is_none()
}

/// Adds the cycles of VM suspensions and resumptions. A group that ends in an error may not have been charged
/// for the last ones.
fn add_switches(profile: &mut Profile, group: &GroupReport, switches: u64) {
    let counted = switches.saturating_mul(SWITCH_CYCLES);
    let missing = group.cycles.saturating_sub(profile.sum().cycles);
    let has_ended_well = group.exit_code.is_some();
    let charged = match has_ended_well {
        true => counted,
        false => counted.min(missing / SWITCH_CYCLES * SWITCH_CYCLES),
    };
    if charged > 0 {
        profile.add(&[Frame::Switch], Value::cycles(charged));
    }
}

/// Makes the profile's sum equal to the run's cycles, and returns the difference.
fn balance(profile: &mut Profile, cycles: u64) -> u64 {
    let sum = profile.sum().cycles;
    profile.add_other(Value::cycles(cycles.saturating_sub(sum)));
    sum.abs_diff(cycles)
}
