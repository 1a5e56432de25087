//! Compiles and runs on this machine, in jailed workers, without a service.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Hints, Isa, LoadedCode, Seen, Sha256Digest};
use antares_pool::{
    COMPILE_HEAD_START, NativeEnd, Pool, Sealed, Verdict as PoolVerdict,
    job::{HotProgram, LibraryOf, RunJob, RunReport, Tier, VerifyFiles, VerifyJob, VerifyReport},
};
use antares_transaction::{Environment, limits::PROGRAMS_MAX, programs};
use anyhow::{Context as _, anyhow};
use bytes::Bytes;

use crate::{
    commands::background_compile::{self, Wanted},
    failure::Failure,
    input::parsed_transaction::{self, ParsedTransaction},
    input::run_request::Request,
    input::verify_request,
    limits::DEADLINE_MS_DEFAULT,
    local::head_start::{self, First},
    local::native::{Code, Native, join},
    local::workers::{failed, seal, start},
    output::report::{Outcome, Report},
    output::verdict::{self, Interpreted, Verdict},
};

/// A script to run here.
struct Run<'a> {
    request: &'a Request,
    elf: Arc<Sealed>,
    job: &'a RunJob,
    code: Arc<Code>,
    /// Wall time of its run.
    time: Duration,
}

/// Runs a script: in the interpreter if that is quick; else in a jailed worker, with native code if the tier wants
/// it.
pub(crate) fn run(request: &Request) -> Result<Report, Failure> {
    let elf = Arc::new(seal(&request.elf)?);
    let job = request.job(request.tier);
    let mut child = head_start::run(request, &job, &elf);
    let time = request.deadline.unwrap_or(Duration::from_millis(DEADLINE_MS_DEFAULT));
    let until = Instant::now() + time;
    let run = Run { request, elf: elf.clone(), job: &job, code: Arc::new(Code::new(request.code)), time };
    let is_first = request.tier == Tier::Auto && run.code.is_first(&elf, request.options);
    let alone = match request.tier {
        Tier::Interpreter => time,
        _ if is_first => COMPILE_HEAD_START.min(time),
        _ => Duration::ZERO,
    };
    let is_short_until = head_start::is_short_until(request.deadline);
    let competes_until = if is_first { until } else { is_short_until };
    let (code, script, tier, options) = (run.code.clone(), elf.clone(), request.tier, request.options);
    let prepare = move || join(|| start("antares-run-worker"), || native_code(&code, &script, tier, options));
    let (pool, native) =
        match head_start::race(child.as_mut(), alone, competes_until, run.code.cancel(), prepare) {
            First::Prepared((pool, native)) => (pool?, native?),
            First::Interpreted(report) => {
                if is_first && Instant::now() > is_short_until {
                    run.improve_after();
                }
                return Ok(Report::of_worker(report, request.artifact()));
            }
        };
    // Without native code, a worker would not be faster than the child.
    match child.filter(|_| native.is_none()).and_then(|mut child| child.report(until)) {
        Some(report) => Ok(Report::of_worker(report, request.artifact())),
        None if native.is_none() && Instant::now() >= until => {
            Ok(report_of(request, PoolVerdict::DeadlineExceeded))
        }
        None => run.in_worker(&pool, native),
    }
}

/// Native code, if the tier wants it.
fn native_code(
    code: &Code,
    elf: &Sealed,
    tier: Tier,
    options: CompileOptions,
) -> Result<Option<Native>, Failure> {
    let find = || code.find(elf, options);
    match tier {
        Tier::Interpreter => Ok(None),
        Tier::Native => find().map(Some),
        Tier::Auto => Ok(find().map_err(|failure| code.report(&failure)).ok()),
    }
}

impl Run<'_> {
    fn in_worker(&self, pool: &Pool, native: Option<Native>) -> Result<Report, Failure> {
        let Self { request, elf, code, .. } = self;
        let is_spared = request.tier == Tier::Auto
            && native.as_ref().is_some_and(|native| code.kept.begins_interpreted(native.key));
        let used = native.as_ref().filter(|_| !is_spared);
        if is_spared {
            report_early_bailout();
        }
        let library = used.map(|native| &native.library);
        let mut seen = None;
        let mut verdict = pool.run(self.job, elf, library, Instant::now() + self.time).map_err(failed)?;
        if let PoolVerdict::Done(run) = &mut verdict {
            seen = run.seen.take();
            used.inspect(|native| code.kept.record_run(native.key, (&*run).into()));
        }
        let mut report = report_of(request, verdict);
        report.code_tier = used.map(|native| native.tier);
        report.compile_ms = native.as_ref().map_or(0, |native| native.made_ms);
        if let Some(native) = native {
            self.improve(code.learn(elf.digest(), request.options, &native, seen.as_ref()));
        }
        Ok(report)
    }

    /// Starts the compile for the next run, which waits for it: the interpreter finished this one first, but not soon.
    fn improve_after(&self) {
        eprintln!("antares: the interpreter had the answer before there was native code (compiling)");
        let (digest, options) = (self.elf.digest(), self.request.options);
        self.code.record_first(digest, options);
        self.improve(self.code.kept.hints(digest, options));
    }

    fn improve(&self, hints: Hints) {
        let (digest, options) = (self.elf.digest(), self.request.options);
        let wanted = Wanted { elf: &self.request.elf, digest, options, hints };
        background_compile::start(&self.code.kept, &[wanted]);
    }
}

fn report_of(request: &Request, verdict: PoolVerdict<RunReport>) -> Report {
    let ended = |outcome, detail| Report::without_figures(outcome, detail, request.artifact());
    match verdict {
        PoolVerdict::Done(run) => Report::of_worker(run, request.artifact()),
        PoolVerdict::DeadlineExceeded => ended(Outcome::DeadlineExceeded, None),
        PoolVerdict::SandboxViolation { detail } => ended(Outcome::SandboxViolation, Some(detail)),
        PoolVerdict::WorkerLost { detail } | PoolVerdict::FalseReport { detail } => {
            ended(Outcome::WorkerLost, Some(detail))
        }
    }
}

/// Verifies a transaction: in the interpreter if that is quick; else in a jailed worker, after compiling its
/// programs if the tier wants it.
pub fn verify(request: &verify_request::Request) -> Result<Verdict, Failure> {
    let mock = parsed_transaction::read(&request.json)?;
    if let Some(repeated) = mock.repeated_dep() {
        eprintln!("antares: {repeated}");
    }
    let mut child = head_start::verify(request, &mock);
    let until = head_start::is_short_until(request.deadline);
    let code = Arc::new(Code::new(request.code));
    let (finds, tier, environment) = (code.clone(), request.tier, request.environment);
    let read = move || {
        let parsed = ParsedTransaction::new(mock)?;
        let programs = programs_for(&parsed, tier, &environment, &finds)?;
        Ok::<_, Failure>((parsed, programs))
    };
    let prepare = move || join(|| start("antares-run-worker"), read);
    let (pool, read) = match head_start::race(child.as_mut(), Duration::ZERO, until, code.cancel(), prepare) {
        First::Prepared(prepared) => prepared,
        First::Interpreted(verdict) => return Ok(verdict),
    };
    drop(child);
    let (parsed, programs) = read?;
    verify_in(&pool?, (&code, programs), parsed, request)
}

/// Verifies transactions one by one with the same pool.
#[cfg(feature = "server")]
pub(crate) struct Transactions {
    code: Code,
    pool: Pool,
}

#[cfg(feature = "server")]
impl Transactions {
    pub(crate) fn start(code: crate::args::CodeArgs) -> Result<Self, Failure> {
        Ok(Self { code: Code::new(code), pool: start("antares-run-worker")? })
    }

    /// As [`verify`].
    pub(crate) fn verify(&self, request: &verify_request::Request) -> Result<Verdict, Failure> {
        let parsed = ParsedTransaction::parse(&request.json)?;
        let programs = programs_for(&parsed, request.tier, &request.environment, &self.code)?;
        verify_in(&self.pool, (&self.code, programs), parsed, request)
    }
}

fn verify_in(
    pool: &Pool,
    (code, programs): (&Code, Programs),
    mut parsed: ParsedTransaction,
    request: &verify_request::Request,
) -> Result<Verdict, Failure> {
    parsed.evict_for_space(programs.libraries.len() + programs.beside.len());
    let transaction = Sealed::new("transaction", &parsed.document())
        .context("cannot keep the transaction in memory")
        .map_err(Failure::Service)?;
    let job = VerifyJob {
        transaction_bytes: transaction.len(),
        libraries: programs.libraries.iter().map(|(of, _)| *of).collect(),
        cells: parsed.cells(),
        ..request.job()
    };
    let libraries = programs.libraries.iter().map(|(_, native)| &native.library);
    let (libraries, beside) =
        (libraries.collect::<Vec<&Sealed>>(), programs.beside.iter().collect::<Vec<_>>());
    let (document, cells) = (Some(&transaction), parsed.files());
    let files = VerifyFiles { document, libraries: &libraries, beside: &beside, cells: &cells };
    let deadline = Instant::now() + request.deadline.unwrap_or(Duration::from_millis(DEADLINE_MS_DEFAULT));
    let ended = |outcome, error: &str| Verdict::without_figures(outcome, error.to_owned());
    let (mut found, mut met) = (Vec::new(), Vec::new());
    let verdict = match pool.verify(&job, &files, deadline).map_err(failed)? {
        PoolVerdict::Done(VerifyReport::Done {
            outcome,
            cycles,
            groups,
            hot,
            seen,
            ran,
            read_us,
            run_us,
            ..
        }) => {
            let interpreted = hot.iter().map(|program| programs.interpreted(code, program)).collect();
            programs.record_ran(code, &ran);
            (found, met) = (seen, hot);
            Verdict { interpreted, ..Verdict::of_worker(outcome, cycles, groups, (read_us, run_us)) }
        }
        PoolVerdict::Done(VerifyReport::Refused { detail, .. }) => {
            return Err(Failure::Usage(anyhow!("the transaction cannot be used: {detail}")));
        }
        PoolVerdict::DeadlineExceeded => ended(verdict::Outcome::DeadlineExceeded, "deadline exceeded"),
        PoolVerdict::SandboxViolation { detail } => ended(verdict::Outcome::SandboxViolation, &detail),
        PoolVerdict::WorkerLost { detail } | PoolVerdict::FalseReport { detail } => {
            ended(verdict::Outcome::WorkerLost, &detail)
        }
    };
    programs.learn(code, &found, &met);
    Ok(verdict)
}

/// The services' reason for a program without native code.
const BAILS_OUT_EARLY: &str = "leaves_early";
const PASSED_OVER: &str = "passed_over";

/// The programs of a transaction that may have native code.
#[derive(Default)]
struct Programs {
    /// Native code to pass to the worker.
    libraries: Vec<(LibraryOf, Native)>,
    /// The program of each library.
    elfs: Vec<Elf>,
    /// Programs outside cells, in the order of their libraries.
    beside: Vec<Sealed>,
    /// Native code that is not passed because it bails out early.
    spared: Vec<(Elf, Native)>,
    /// Programs without native code to pass, and why.
    without: Vec<(Sha256Digest, &'static str)>,
}

/// A program with its compile options.
#[derive(Clone, PartialEq)]
struct Elf {
    bytes: Bytes,
    digest: Sha256Digest,
    options: CompileOptions,
}

impl Elf {
    fn wanted(&self, hints: Hints) -> Wanted<'_> {
        Wanted { elf: &self.bytes, digest: self.digest, options: self.options, hints }
    }
}

impl Programs {
    /// Whether a worker with `files` files accepts one more.
    fn has_capacity(&self, files: usize) -> bool {
        self.libraries.len() + self.beside.len() + files <= PROGRAMS_MAX
    }

    /// Records that a program has no native code.
    fn go_without(&mut self, program: Sha256Digest, failure: &Failure) -> Option<Native> {
        let is_refused = matches!(failure, Failure::Refused { .. });
        self.without.push((program, if is_refused { "compile_refused" } else { "compile_failed" }));
        None
    }

    /// Passes native code of a program on; none if it is known to bail out early.
    fn spare(&mut self, code: &Code, elf: &Elf, native: Native) -> Option<Native> {
        if !code.kept.begins_interpreted(native.key) {
            return Some(native);
        }
        report_early_bailout();
        self.without.push((elf.digest, BAILS_OUT_EARLY));
        self.spared.push((elf.clone(), native));
        None
    }

    /// Records how runs of native code ended, by number.
    fn record_ran(&self, code: &Code, ran: &[(u32, NativeEnd)]) {
        for (number, end) in ran {
            let library = usize::try_from(*number).ok().and_then(|number| self.libraries.get(number));
            library.inspect(|(_, native)| code.kept.record_run(native.key, *end));
        }
    }

    /// The report of a program that the interpreter ran.
    fn interpreted(&self, code: &Code, program: &HotProgram) -> Interpreted {
        let digest = Sha256Digest::of(&program.elf);
        let without = self.without.iter().find_map(|(of, why)| (*of == digest).then_some(*why));
        let has_code = self.elfs.iter().any(|elf| elf.digest == digest);
        let why = match without {
            Some(why) => why,
            None if has_code => PASSED_OVER,
            None if code.kept.path().is_none() => "not_kept",
            None => "new",
        };
        Interpreted {
            sha256: digest.to_string(),
            loaded_at: LoadedCode::read(&program.elf).map(|code| code.start),
            size_bytes: program.elf.len() as u64,
            cycles: program.cycles,
            why: why.to_owned(),
        }
    }

    /// Caches what a run `found` out by number, and the hot programs that it `met`. Starts full compiles of
    /// all.
    fn learn(&self, code: &Code, found: &[(u32, Seen)], met: &[HotProgram]) {
        let known = self.elfs.iter().zip(&self.libraries).zip(0..);
        let known = known.map(|((elf, (_, native)), number)| {
            let seen = found.iter().find(|(library, _)| *library == number).map(|(_, seen)| seen);
            elf.wanted(code.learn(elf.digest, elf.options, native, seen))
        });
        let spared = self.spared.iter().map(|(elf, native)| elf.wanted(native.hints.clone()));
        let mut wanted: Vec<_> = known.chain(spared).collect();
        // A dynamic program may run in any version that the transaction's own programs do.
        let versions: BTreeMap<u32, CompileOptions> =
            self.elfs.iter().map(|elf| (elf.options.vm_version, elf.options)).collect();
        for options in versions.into_values() {
            let others = self.elfs.iter().filter(|other| other.options == options);
            let others: Vec<_> = others.map(|elf| elf.digest).collect();
            for program in met {
                let (elf, digest) = (&program.elf, Sha256Digest::of(&program.elf));
                let hints = code.meet(program, &others, options);
                wanted.push(Wanted { elf, digest, options, hints });
            }
        }
        background_compile::start(&code.kept, &wanted);
    }
}

/// Native code of the programs that a transaction may run, if the tier wants it. The interpreter runs a program that
/// the compiler refuses, and names its error.
fn programs_for(
    parsed: &ParsedTransaction,
    tier: Tier,
    environment: &Environment,
    code: &Code,
) -> Result<Programs, Failure> {
    let mut found = Programs::default();
    if tier == Tier::Interpreter {
        return Ok(found);
    }
    for program in programs(&parsed.mock, environment) {
        let own;
        let sealed = match parsed.file(&program.data_hash) {
            Some(file) => file,
            None => {
                own = seal(&program.elf)?;
                &own
            }
        };
        for vm_version in program.vm_versions {
            let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
            let mut native = match code.find(sealed, options) {
                Ok(_) if !found.has_capacity(1) => return Ok(found),
                Ok(native) => Some(native),
                Err(failure @ Failure::Refused { .. }) => found.go_without(sealed.digest(), &failure),
                Err(failure) if tier == Tier::Auto => {
                    code.report(&failure);
                    found.go_without(sealed.digest(), &failure)
                }
                Err(failure) => return Err(failure),
            };
            let elf = Elf { bytes: program.elf.clone(), digest: sealed.digest(), options };
            if tier == Tier::Auto {
                native = native.and_then(|native| found.spare(code, &elf, native));
            }
            if let Some(native) = native {
                found.libraries.push((LibraryOf::Cell { data_hash: program.data_hash }, native));
                found.elfs.push(elf);
            }
        }
    }
    add_dynamic_programs(&mut found, code)?;
    Ok(found)
}

/// Adds the dynamic programs of earlier runs. Native code of them is optional.
fn add_dynamic_programs(found: &mut Programs, code: &Code) -> Result<(), Failure> {
    let known = found.elfs.iter().chain(found.spared.iter().map(|(elf, _)| elf));
    let met = known.flat_map(|elf| {
        let programs = code.kept.dynamic_programs(elf.digest, elf.options);
        programs.into_iter().map(|program| (Bytes::from(program), elf.options))
    });
    let met: Vec<(Bytes, CompileOptions)> = met.collect();
    for (bytes, options) in met {
        let program = seal(&bytes)?;
        let elf = Elf { bytes, digest: program.digest(), options };
        if found.elfs.contains(&elf) {
            continue;
        }
        if !found.has_capacity(2) {
            found.without.push((elf.digest, PASSED_OVER));
            continue;
        }
        let native = match code.find(&program, options) {
            Ok(native) => found.spare(code, &elf, native),
            Err(failure) => found.go_without(elf.digest, &failure),
        };
        if let Some(native) = native {
            found.libraries.push((LibraryOf::Beside, native));
            found.beside.push(program);
            found.elfs.push(elf);
        }
    }
    Ok(())
}

fn report_early_bailout() {
    eprintln!(
        "antares: running in the interpreter alone: the last runs left native code early ({BAILS_OUT_EARLY})"
    );
}
