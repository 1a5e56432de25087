//! Lies and the corresponding truth for each kind of job. Each name is a row of a test.

use antares_abi::{BailoutReason, CompileLimits, Hints, Seen, Sha256Digest};
use antares_pool::NativeEnd;
use antares_pool::job::{
    BatchReport, CompileReport, CompileSummary, DEBUG_LINES_MAX, DiagnosisReport, EVIDENCE_BYTES_MAX,
    GroupError, GroupKind, GroupReport, HOT_PROGRAMS_MAX, HotProgram, KnownGroup, Lines, Omitted,
    PROFILE_BYTES_MAX, ProfileReport, ProfiledReport, RunOutcome, RunReport, RunWorkerJob, RunWorkerReport,
    SAMPLES_BYTES_MAX, Samples, VerifyOutcome, VerifyReport,
};
use antares_profile::{Frame, Profile, ProfiledProgram, Value};

#[path = "lies/transactions.rs"]
mod transactions;

pub(crate) use transactions::VERIFICATIONS;

/// The worker's message.
pub(crate) enum Said<R> {
    /// A report.
    Report(R),
    /// Bytes instead of a report.
    Bytes(Vec<u8>),
    /// Bytes instead of a frame.
    Raw(Vec<u8>),
    /// A failure with its reason.
    Failed(String),
}

/// Cycle limit of the jobs.
pub(crate) const CYCLES_MAX: u64 = 1_000_000;
/// Maximum bytes of the jobs' debug output.
pub(crate) const DEBUG_BYTES_MAX: u64 = 4096;
/// Cycles of a run.
const CYCLES: u64 = 600;
/// Output of a compile.
pub(crate) const OUTPUT: &[u8] = b"image";
/// Length beyond the maximum of any text.
const LONG: usize = 5000;

/// Length of a line that exceeds the limit together with its end.
fn debug_bytes() -> usize {
    usize::try_from(DEBUG_BYTES_MAX).unwrap_or(LONG)
}

fn long() -> String {
    "y".repeat(LONG)
}

/// A true report of a run.
#[must_use]
pub(crate) fn run() -> RunReport {
    RunReport {
        outcome: RunOutcome::Exit(0),
        cycles: CYCLES,
        load_cycles: 10,
        native_cycles: 0,
        interpreted_cycles: CYCLES,
        restarted: None,
        seen: None,
        debug: Lines::default(),
        load_us: 0,
        run_us: 0,
        samples: None,
    }
}

/// The groups of the transaction.
#[must_use]
pub(crate) fn groups() -> Vec<KnownGroup> {
    vec![
        KnownGroup { script_hash: [1; 32], kind: GroupKind::Lock, inputs: vec![0, 1], outputs: Vec::new() },
        KnownGroup { script_hash: [2; 32], kind: GroupKind::Type, inputs: vec![1], outputs: vec![0] },
    ]
}

/// A report of a group that accepts.
fn accepts(known: &KnownGroup) -> GroupReport {
    let KnownGroup { script_hash, kind, inputs, outputs } = known.clone();
    GroupReport {
        script_hash,
        kind,
        outcome: VerifyOutcome::Ok,
        exit_code: Some(0),
        error: None,
        cycles: CYCLES,
        native_cycles: 0,
        interpreted_cycles: CYCLES,
        restarted: None,
        debug: Lines::default(),
        inputs,
        outputs,
    }
}

/// A true report of a verification, after a change of its groups. Verdict and sum are those of the groups.
fn verified(change: impl FnOnce(&mut Vec<GroupReport>)) -> VerifyReport {
    let mut reports = groups().iter().map(accepts).collect();
    change(&mut reports);
    let is_ok = reports.iter().all(|group: &GroupReport| group.outcome == VerifyOutcome::Ok);
    VerifyReport::Done {
        outcome: if is_ok { VerifyOutcome::Ok } else { VerifyOutcome::Failed },
        cycles: reports.iter().map(|group| group.cycles).fold(0, u64::saturating_add),
        groups: reports,
        hot: Vec::new(),
        seen: Vec::new(),
        ran: Vec::new(),
        samples: None,
        read_us: 0,
        run_us: 0,
    }
}

/// Makes a group fail with this exit code.
fn fail(group: &mut GroupReport, code: i8) {
    let place = match group.kind {
        GroupKind::Lock => "Inputs[0].Lock",
        GroupKind::Type => "Inputs[1].Type",
    };
    (group.outcome, group.exit_code) = (VerifyOutcome::Failed, Some(code));
    group.error = Some(GroupError {
        kind: "ValidationFailure".to_owned(),
        vm_error: None,
        source: place.to_owned(),
        detail: "it does not accept".to_owned(),
    });
}

/// Changes the last group to the report after a failure of the one before it.
fn skip(group: &mut GroupReport) {
    (group.outcome, group.exit_code, group.cycles, group.interpreted_cycles) =
        (VerifyOutcome::NotRun, None, 0, 0);
}

/// A true report of a verification.
fn truth() -> VerifyReport {
    verified(|_| {})
}

/// Samples of the program with this digest.
fn samples(of: Sha256Digest) -> Samples {
    let mut profile = Profile::default();
    let program = profile.program(&ProfiledProgram { elf: Some(of), vm_version: 2, isa: 3 });
    if let Some(program) = program {
        profile.add(&[Frame::Code { program, pc: 0x1_0078 }], Value::cycles(CYCLES));
    }
    let encode = |profile: &Profile| profile.encode().unwrap_or_default();
    let (profile, claims) = (encode(&profile), encode(&Profile::default()));
    Samples { profile, claims, unseen_cycles: 0, mismatch_cycles: 0 }
}

/// A truth or a lie, by name.
type Row<T> = (&'static str, fn() -> T);

/// The script of all jobs.
pub(crate) const SCRIPT: &[u8] = b"a script";

fn natively(change: impl FnOnce(&mut RunReport)) -> RunReport {
    let mut report = RunReport { native_cycles: CYCLES, interpreted_cycles: 0, ..run() };
    change(&mut report);
    report
}

/// Lies about runs without native code.
pub(crate) const RUNS: &[Row<RunReport>] = &[
    ("cycles-max", || took(u64::MAX)),
    ("cycles-none", || took(0)),
    ("cycles-beyond", || took(CYCLES_MAX + 1)),
    ("cycles-far-beyond", || RunReport { outcome: RunOutcome::CyclesExceeded, ..took(1 << 60) }),
    ("tiers-less", || RunReport { interpreted_cycles: CYCLES - 1, ..run() }),
    ("tiers-wrap", || RunReport { native_cycles: u64::MAX, interpreted_cycles: CYCLES + 1, ..run() }),
    ("native-without", || natively(|_| {})),
    ("load-max", || RunReport { load_cycles: u64::MAX, ..run() }),
    ("time-hour", || RunReport { run_us: 3_600_000_000, ..run() }),
    ("time-max", || RunReport { load_us: u64::MAX, run_us: u64::MAX, ..run() }),
    ("error-unknown", || error("Evil\r\n\x1b[31m", None)),
    ("error-empty", || error("", None)),
    ("error-long-name", || error(&long(), None)),
    ("error-long", || error("External", Some(long()))),
    ("restart-without", || RunReport { restarted: Some(BailoutReason::BadAddress), ..run() }),
    ("seen-without", || RunReport { seen: Some(Seen { left: Some(2), hints: Hints::default() }), ..run() }),
    ("samples-unasked", || RunReport { samples: Some(samples(Sha256Digest::of(SCRIPT))), ..run() }),
    ("debug-bytes", || RunReport { debug: vec!["y".repeat(debug_bytes())].into(), ..run() }),
    ("debug-lines", || RunReport { debug: vec![String::new(); DEBUG_LINES_MAX + 1].into(), ..run() }),
    ("left-out-lines", || omitted(u64::MAX, u64::MAX)),
    ("left-out-no-lines", || omitted(0, 9)),
    ("left-out-bytes", || omitted(1, u64::MAX)),
    ("left-out-too-few", || omitted(9, 3)),
];

/// An interpreted run of this many cycles.
fn took(cycles: u64) -> RunReport {
    RunReport { cycles, interpreted_cycles: cycles, ..run() }
}

fn error(name: &str, detail: Option<String>) -> RunReport {
    RunReport { outcome: RunOutcome::Error { name: name.to_owned(), detail }, ..run() }
}

fn omitted(lines: u64, bytes: u64) -> RunReport {
    RunReport { debug: Lines::default().and_omitted(Omitted { lines, bytes }), ..run() }
}

/// Lies about sampled runs with native code.
pub(crate) const NATIVE_RUNS: &[Row<RunReport>] = &[
    ("both-tiers", || RunReport { cycles: 2 * CYCLES, native_cycles: CYCLES, ..run() }),
    ("restart-native", || natively(|run| run.restarted = Some(BailoutReason::Ecall))),
    ("seen-elsewhere", || RunReport {
        restarted: Some(BailoutReason::BadAddress),
        seen: Some(Seen { left: None, hints: Hints::default() }),
        ..run()
    }),
    ("samples-foreign", || natively(|run| run.samples = Some(samples(Sha256Digest::of(b"another's"))))),
    ("claims-foreign", || sampled(|own| own.claims = samples(Sha256Digest::of(b"another's")).profile)),
    ("samples-noise", || sampled(|own| own.profile = vec![7; 2000])),
    ("samples-long", || sampled(|own| own.profile = vec![0; SAMPLES_BYTES_MAX + 1])),
    ("samples-cycles", || sampled(|own| own.unseen_cycles = u64::MAX)),
];

/// A native run with samples of its own script, after a change of them.
fn sampled(change: impl FnOnce(&mut Samples)) -> RunReport {
    let mut own = samples(Sha256Digest::of(SCRIPT));
    change(&mut own);
    natively(|run| run.samples = Some(own))
}

/// Lies about batches of two inputs: their parts, and the reported number of runs.
pub(crate) const BATCHES: &[Row<(Vec<RunWorkerReport>, u64)>] = &[
    ("too-many-parts", || (vec![RunWorkerReport::Run(run()); 3], 3)),
    ("too-few-parts", || (vec![RunWorkerReport::Run(run())], 2)),
    ("other-count", || (vec![RunWorkerReport::Run(run()); 2], 1)),
    ("count-max", || (vec![RunWorkerReport::Run(run()); 2], u64::MAX)),
    ("part-of-another-kind", || (vec![RunWorkerReport::Batch(BatchReport { runs: 1 })], 1)),
    ("part-cycles-max", || (vec![RunWorkerReport::Run(run()), RunWorkerReport::Run(took(u64::MAX))], 2)),
    ("parts-time", || {
        let lie = RunReport { run_us: 1_800_000_000, ..run() };
        (vec![RunWorkerReport::Run(lie); 2], 2)
    }),
    ("parts-output", || {
        let talks = RunReport { debug: vec!["y".repeat(4000)].into(), ..run() };
        (vec![RunWorkerReport::Run(talks); 2], 2)
    }),
];

/// Lies about profiles of a run.
pub(crate) const PROFILES: &[Row<ProfileReport>] = &[
    ("native", || profiled(natively(|_| {}), Vec::new())),
    ("cycles-max", || profiled(took(u64::MAX), Vec::new())),
    ("verified", || ProfileReport { report: ProfiledReport::Verify(truth()), ..profiled(run(), Vec::new()) }),
    ("long", || profiled(run(), vec![0; PROFILE_BYTES_MAX + 1])),
];

fn profiled(run: RunReport, profile: Vec<u8>) -> ProfileReport {
    ProfileReport { report: ProfiledReport::Run(run), profile, mismatch_cycles: 0 }
}

/// Lies about diagnoses of a run, whose text may have a hundred bytes.
pub(crate) const DIAGNOSES: &[Row<DiagnosisReport>] = &[
    ("told-long", || diagnosed(Vec::new(), "y".repeat(101))),
    ("evidence-long", || diagnosed(vec![0; EVIDENCE_BYTES_MAX + 1], String::new())),
];

fn diagnosed(evidence: Vec<u8>, reported: String) -> DiagnosisReport {
    DiagnosisReport { report: profiled(run(), Vec::new()), evidence, reported }
}

/// Invalid reports of any kind, as answers to a run.
pub(crate) const NOISE: &[Row<Said<RunWorkerReport>>] = &[
    ("as-verification", || Said::Report(RunWorkerReport::Verify(truth()))),
    ("as-batch", || Said::Report(RunWorkerReport::Batch(BatchReport { runs: u64::MAX }))),
    ("as-profile", || Said::Report(RunWorkerReport::Profile(profiled(run(), Vec::new())))),
    ("as-diagnosis", || Said::Report(RunWorkerReport::Diagnose(diagnosed(Vec::new(), String::new())))),
    ("nothing", || Said::Bytes(Vec::new())),
    ("no-such-kind", || Said::Bytes(vec![9; 40])),
    ("no-such-outcome", || Said::Bytes(vec![0, 9, 0, 0, 0, 0, 0])),
    // A verification with more groups than there are bytes in memory.
    ("many-promised", || Said::Bytes([&[1, 0, 0, 1][..], &[0xff; 8], &[0x7f]].concat())),
    ("frame-without-end", || Said::Raw(vec![0xff; 4])),
    ("frame-too-long", || Said::Raw((64_u32 << 20).to_le_bytes().to_vec())),
    ("frame-empty", || Said::Raw(vec![0; 4])),
    ("frame-and-more", || Said::Raw(vec![1, 0, 0, 0, 0, 0])),
    ("part-unasked", || Said::Raw(vec![3, 0, 0, 0, 3, 2, 1])),
];

/// Lies about compiles up to a text.
pub(crate) const COMPILES: &[Row<CompileReport>] = &[
    ("other-digest", || {
        CompileReport::Done(CompileSummary { sha256: Sha256Digest::of(b"other"), ..summary() })
    }),
    ("other-length", || CompileReport::Done(CompileSummary { output_bytes: 4, ..summary() })),
    ("length-max", || CompileReport::Done(CompileSummary { output_bytes: u64::MAX, ..summary() })),
    ("code-max", || CompileReport::Done(CompileSummary { guest_code_bytes: u64::MAX, ..summary() })),
    ("functions-max", || CompileReport::Done(CompileSummary { functions: u64::MAX, ..summary() })),
    ("blocks-beyond", || {
        let blocks = CompileLimits::DEFAULT.blocks_max + 1;
        CompileReport::Done(CompileSummary { blocks, ..summary() })
    }),
    ("unproved-max", || CompileReport::Done(CompileSummary { unproved_functions: u64::MAX, ..summary() })),
    ("orders-max", || CompileReport::Done(CompileSummary { refused_orders: u64::MAX, ..summary() })),
    ("time-max", || CompileReport::Done(CompileSummary { compile_ms: u64::MAX, ..summary() })),
    ("refused-for-nothing", || compile_refused("boredom", String::new())),
    ("refused-code", || compile_refused("code", String::new())),
    ("refused-long", || compile_refused("elf", long())),
    ("failed-long", || CompileReport::Failed { detail: long() }),
];

fn compile_refused(reason: &str, detail: String) -> CompileReport {
    CompileReport::Refused { reason: reason.to_owned(), detail }
}

fn summary() -> CompileSummary {
    CompileSummary {
        sha256: Sha256Digest::of(OUTPUT),
        output_bytes: OUTPUT.len() as u64,
        guest_code_bytes: 8,
        functions: 1,
        blocks: 1,
        unproved_functions: 0,
        refused_orders: 0,
        compile_ms: 0,
    }
}

/// The row of this name.
fn row<T>(rows: &[Row<T>], name: &str) -> Result<T, String> {
    let found = rows.iter().find(|(known, _)| *known == name);
    found.map(|(_, lie)| lie()).ok_or_else(|| format!("there is no lie {name}"))
}

/// The parts that come before the answer to `job`.
#[must_use]
pub(crate) fn parts(job: &RunWorkerJob, lie: Option<&str>) -> Vec<RunWorkerReport> {
    match (job, lie) {
        (RunWorkerJob::Batch(_), Some(name)) => {
            row(BATCHES, name).map_or_else(|_| Vec::new(), |(parts, _)| parts)
        }
        (RunWorkerJob::Batch(job), None) => vec![RunWorkerReport::Run(run()); job.inputs.len()],
        _ => Vec::new(),
    }
}

/// The answer to `job`.
pub(crate) fn answer(job: &RunWorkerJob, lie: Option<&str>) -> Result<Said<RunWorkerReport>, String> {
    use RunWorkerReport::{Batch, Diagnose, Profile, Run, Verify};
    let Some(name) = lie else {
        return Ok(Said::Report(match job {
            RunWorkerJob::Run(_) => Run(run()),
            RunWorkerJob::Verify(_) => Verify(truth()),
            RunWorkerJob::Batch(job) => Batch(BatchReport { runs: job.inputs.len() as u64 }),
            RunWorkerJob::Profile(_) => Profile(profiled(run(), Vec::new())),
            RunWorkerJob::Diagnose(_) => Diagnose(diagnosed(Vec::new(), String::new())),
        }));
    };
    if let Some(text) = name.strip_prefix("fails-") {
        return Ok(Said::Failed(
            FAILURES.iter().find(|(known, _)| *known == text).map_or_else(String::new, |(_, text)| text()),
        ));
    }
    match job {
        RunWorkerJob::Run(_) => row(NOISE, name)
            .or_else(|_| row(RUNS, name).map(|run| Said::Report(Run(run))))
            .or_else(|_| row(NATIVE_RUNS, name).map(|run| Said::Report(Run(run)))),
        RunWorkerJob::Verify(_) => row(VERIFICATIONS, name).map(|report| Said::Report(Verify(report))),
        RunWorkerJob::Batch(_) => {
            row(BATCHES, name).map(|(_, runs)| Said::Report(Batch(BatchReport { runs })))
        }
        RunWorkerJob::Profile(_) => row(PROFILES, name).map(|report| Said::Report(Profile(report))),
        RunWorkerJob::Diagnose(_) => row(DIAGNOSES, name).map(|report| Said::Report(Diagnose(report))),
    }
}

/// Texts of failures: not lies, and at most one line of a log.
pub(crate) const FAILURES: &[Row<String>] = &[
    ("long", || "y".repeat(400_000)),
    ("lines", || "x\n2026-11-28T00:00:00Z ERROR forged: root logged in\r\n\x1b[31mred\u{202e}".to_owned()),
];

/// The answer to a compile.
pub(crate) fn compiled(lie: Option<&str>) -> Result<Said<CompileReport>, String> {
    match lie {
        None => Ok(Said::Report(CompileReport::Done(summary()))),
        Some("noise") => Ok(Said::Bytes(vec![9; 40])),
        Some(name) => row(COMPILES, name).map(Said::Report),
    }
}
