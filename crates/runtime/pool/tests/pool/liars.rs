//! Workers that lie: their reports are not used, they end, and another tenant's next job succeeds.

use std::{collections::BTreeSet, os::unix::fs::symlink, path::PathBuf, time::Instant};

use antares_abi::{CompileLimits, CompileOptions, Hints, Isa};
use antares_pool::{
    Pool, PoolConfig, PoolError, Sealed, Verdict,
    job::{
        BatchJob, CellName, CompileJob, CompileReport, DiagnosisJob, GroupKind, ProfileJob, RunJob,
        RunReport, Stage, Tier, VerifyFiles, VerifyJob, VerifyReport,
    },
};
use bytes::Bytes;

#[path = "../../examples/lying-worker/lies.rs"]
#[allow(dead_code, reason = "what the worker says is its own")]
mod lies;

use crate::hostile::{self, PATIENCE};
use lies::{CYCLES_MAX, DEBUG_BYTES_MAX, SCRIPT};

/// A pool of lying workers with the program name `name`.
struct Liars {
    pool: Pool,
    folder: tempfile::TempDir,
}

impl Liars {
    fn start(name: &str) -> Self {
        let worker = hostile::example("lying-worker");
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join(name);
        symlink(worker, &path).unwrap();
        Self { pool: Pool::start(PoolConfig::new(path, 2)).unwrap(), folder }
    }

    /// Makes `tell` provoke the lie. It must be rejected and counted.
    #[track_caller]
    fn refute<R: std::fmt::Debug>(
        &self,
        lie: &str,
        tell: impl FnOnce(&Pool) -> Result<Verdict<R>, PoolError>,
    ) {
        let before = self.pool.stats();
        let verdict = tell(&self.pool.of_tenant("liar")).unwrap();
        let Verdict::FalseReport { detail } = &verdict else { panic!("{lie}: {verdict:?}") };
        assert!(detail.len() < 200 && !detail.contains(['\n', '\x1b']), "{lie}: {detail:?}");
        let after = self.pool.stats();
        let counted = [
            after.false_reports_total - before.false_reports_total,
            after.violations_total - before.violations_total,
        ];
        assert_eq!(counted, [1, 1], "{lie}");
        // It does not become idle.
        assert_eq!(after.resting, before.resting, "{lie}");
        let truth = self.pool.of_tenant("other").run(&run(None), &elf(), None, until()).unwrap();
        assert_eq!(truth, Verdict::Done(lies::run()), "{lie}");
    }
}

fn until() -> Instant {
    Instant::now() + PATIENCE
}

fn elf() -> Sealed {
    Sealed::new("elf", SCRIPT).unwrap()
}

fn options() -> CompileOptions {
    CompileOptions { vm_version: 2, isa: Isa::of_version(2) }
}

fn asked(lie: Option<&str>) -> Vec<u8> {
    lie.map_or_else(Vec::new, |lie| format!("lie:{lie};").into_bytes())
}

fn run(lie: Option<&str>) -> RunJob {
    RunJob {
        args: vec![asked(lie)],
        cycles_max: CYCLES_MAX,
        debug_bytes_max: DEBUG_BYTES_MAX,
        ..hostile::job("", "", &[])
    }
}

fn verification(lie: Option<&str>) -> VerifyJob {
    VerifyJob {
        cycles_max: CYCLES_MAX,
        debug_bytes_max: DEBUG_BYTES_MAX,
        transaction_bytes: 9,
        document: Bytes::from(asked(lie.or(Some("")))),
        groups: Some(lies::groups().into()),
        ..VerifyJob::default()
    }
}

fn names<T>(rows: &[(&'static str, T)]) -> Vec<&'static str> {
    let names: Vec<_> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    names
}

#[test]
fn lies_about_runs() {
    let liars = Liars::start("worker");
    for name in [names(lies::RUNS), names(lies::NOISE)].concat() {
        liars.refute(name, |pool| pool.run(&run(Some(name)), &elf(), None, until()));
    }
}

#[test]
fn lies_about_runs_in_native_code() {
    let liars = Liars::start("worker");
    let library = Sealed::new("library", b"nobody loads it").unwrap();
    for name in names(lies::NATIVE_RUNS) {
        let job = RunJob { sample_cycles: 1000, ..run(Some(name)) };
        liars.refute(name, |pool| pool.run(&job, &elf(), Some(&library), until()));
    }
    // The interpreter uses no native code, whatever files accompany the job.
    let job = RunJob { tier: Tier::Interpreter, ..run(Some("native-without")) };
    liars.refute("native-without", |pool| pool.run(&job, &elf(), Some(&library), until()));
}

#[test]
fn a_worker_that_rests_and_lies_later_is_not_believed_either() {
    let liars = Liars::start("worker");
    let pool = liars.pool.of_tenant("liar");
    for name in ["cycles-max", "as-verification", "frame-without-end"] {
        assert_eq!(pool.run(&run(None), &elf(), None, until()).unwrap(), Verdict::Done(lies::run()));
        assert_eq!(pool.stats().resting, 1);
        let started = pool.begin_run(&run(Some(name)), &elf(), None, until()).unwrap().unwrap();
        let verdict = started.wait().unwrap().unwrap();
        assert!(matches!(verdict, Verdict::FalseReport { .. }), "{verdict:?}");
        assert_eq!(pool.stats().resting, 0);
    }
    // A caller that does not trust a reused worker gets a new one.
    assert_eq!(pool.run(&run(None), &elf(), None, until()).unwrap(), Verdict::Done(lies::run()));
    let spawned = pool.stats().spawned_total;
    pool.of_fresh_workers().run(&run(None), &elf(), None, until()).unwrap();
    assert_eq!((pool.stats().spawned_total, pool.stats().resting), (spawned + 1, 1));
}

#[test]
fn lies_about_transactions() {
    let liars = Liars::start("worker");
    let verify = |pool: &Pool, job: &VerifyJob| pool.verify(job, &VerifyFiles::default(), until());
    for name in names(lies::VERIFICATIONS) {
        liars.refute(name, |pool| verify(pool, &verification(Some(name))));
    }
    // The job requests one group, but the report has all; the interpreter finds nothing hot.
    let truth = VerifyJob { document: Bytes::from_static(b"document"), ..verification(None) };
    for group in [(GroupKind::Type, CellName::Output(0)), (GroupKind::Lock, CellName::Input(9))] {
        let job = VerifyJob { group: Some(group), ..truth.clone() };
        liars.refute("all-groups", |pool| verify(pool, &job));
    }
    let job = VerifyJob { tier: Tier::Interpreter, ..verification(Some("hot-cycles")) };
    liars.refute("hot-cycles", |pool| verify(pool, &job));
    // A verdict needs groups, even if the supervisor has not parsed the transaction.
    let job = VerifyJob { groups: None, ..verification(Some("no-groups")) };
    liars.refute("no-groups", |pool| verify(pool, &job));
    let verdict = verify(&liars.pool, &truth).unwrap();
    assert!(matches!(verdict, Verdict::Done(VerifyReport::Done { .. })), "{verdict:?}");
}

#[test]
fn lies_about_batches() {
    let liars = Liars::start("worker");
    let job = |lie: Option<&str>| BatchJob {
        options: options(),
        tier: Tier::Auto,
        inputs: vec![vec![asked(lie)]; 2],
        cycles_max: CYCLES_MAX,
        debug_bytes_max: DEBUG_BYTES_MAX,
        output_bytes_max: 100,
        sample_cycles: 0,
        sample_salt: 0,
    };
    for name in names(lies::BATCHES) {
        liars.refute(name, |pool| {
            let end = pool.batch(&job(Some(name)), &elf(), None, until())?;
            // Runs before the lie are from the same worker.
            assert_eq!(end.reports, [], "{name}");
            Ok(end.verdict)
        });
    }
    let end = liars.pool.batch(&job(None), &elf(), None, until()).unwrap();
    assert_eq!(end.reports, vec![lies::run(); 2]);
}

#[test]
fn lies_about_profiles_and_diagnoses() {
    let liars = Liars::start("worker");
    let script = |lie: &str| Sealed::new("elf", &asked(Some(lie))).unwrap();
    for name in names(lies::PROFILES) {
        let job = ProfileJob::Run(run(None));
        liars.refute(name, |pool| pool.profile(&job, &script(name), &[], until()));
    }
    for name in names(lies::DIAGNOSES) {
        let (system_calls_max, steps_max, reported_bytes_max) = (1, 1, 100);
        let job = ProfileJob::Run(run(None));
        let job = DiagnosisJob { job, follow_from: 0, system_calls_max, steps_max, reported_bytes_max };
        liars.refute(name, |pool| pool.diagnose(&job, &script(name), until()));
    }
}

#[test]
fn lies_about_compiles() {
    let compilers = Liars::start("compile-worker");
    let runners = Liars::start("worker");
    let job = |stage: Stage| CompileJob {
        options: options(),
        task: stage.into(),
        hints: Hints::default(),
        limits: CompileLimits::default(),
    };
    let script = |lie: Option<&str>| Sealed::new("elf", &asked(lie)).unwrap();
    let lies = [names(lies::COMPILES), vec!["noise"]].concat();
    for name in lies {
        let before = compilers.pool.stats().false_reports_total;
        let verdict = compilers.pool.compile(&job(Stage::Image), &script(Some(name)), until()).unwrap();
        assert!(matches!(verdict, Verdict::FalseReport { .. }), "{name}: {verdict:?}");
        assert_eq!(compilers.pool.stats().false_reports_total, before + 1, "{name}");
        let truth = runners.pool.run(&run(None), &elf(), None, until()).unwrap();
        assert_eq!(truth, Verdict::Done(lies::run()), "{name}");
    }
    // A true report about a text; then the same for a library.
    let verdict = compilers.pool.compile(&job(Stage::Image), &script(None), until()).unwrap();
    let Verdict::Done(compiled) = &verdict else { panic!("{verdict:?}") };
    assert!(matches!(compiled.report, CompileReport::Done(_)));
    let verdict = compilers.pool.compile(&job(Stage::Library), &script(None), until()).unwrap();
    assert!(matches!(verdict, Verdict::FalseReport { .. }), "{verdict:?}");
}

#[test]
fn what_a_worker_says_of_its_failure_is_a_line_and_no_more() {
    let liars = Liars::start("worker");
    for name in names(lies::FAILURES) {
        let job = run(Some(&format!("fails-{name}")));
        let verdict: Verdict<RunReport> = liars.pool.run(&job, &elf(), None, until()).unwrap();
        let Verdict::WorkerLost { detail } = &verdict else { panic!("{name}: {verdict:?}") };
        assert!(detail.len() < 700, "{name}: {} bytes", detail.len());
        assert!(!detail.contains(['\n', '\r', '\x1b', '\u{202e}']), "{name}: {detail:?}");
    }
}

/// Lies of a zygote about its first child, one of those that the tests of the ledger have, and packets that are
/// none; see `zygote.rs` of the lying worker.
const ZYGOTES: &str = "supervisor-s-pid dead-pid-twice failed-later garbage cut too-long many-handles";

#[test]
fn lies_of_zygotes() {
    let honest = Liars::start("worker");
    let serve = |pool: &Pool, tenant: &str| pool.of_tenant(tenant).run(&run(None), &elf(), None, until());
    for lie in ZYGOTES.split(' ') {
        let liars = Liars::start(&format!("zygote-{lie}"));
        // No worker has read the job, so the next zygote's worker does it. Other tenants and pools go on.
        for (pool, tenant) in [(&liars.pool, "liar"), (&liars.pool, "other"), (&honest.pool, "other")] {
            assert_eq!(serve(pool, tenant).unwrap(), Verdict::Done(lies::run()), "{lie}");
        }
        let stats = liars.pool.stats();
        assert_eq!([stats.false_reports_total, stats.zygote_restarts_total], [1, 1], "{lie}");
        assert_eq!((stats.busy, stats.resting), (0, 2), "{lie}: its worker's slot is free");
        let reported = liars.folder.path().join(format!("zygote-{lie}.told"));
        let zygote = std::fs::read_to_string(reported).unwrap();
        assert!(!PathBuf::from(format!("/proc/{zygote}")).exists(), "{lie}: it is gone");
    }
}
