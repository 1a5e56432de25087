//! A compile in a sandboxed child: its results, its refusals, and the handling of failures.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa, parts_of};
use antares_compile_worker::sample;
use antares_pool::{
    Compiled, Pool, PoolConfig, Sealed, Verdict,
    job::{CompileJob, CompileLimits, CompileReport, CompileTask, Stage},
    verify_library,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn pool() -> Pool {
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_antares-compile-worker"));
    Pool::start(PoolConfig::new(worker, 2)).unwrap()
}

fn job(task: impl Into<CompileTask>, limits: CompileLimits) -> CompileJob {
    let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
    CompileJob { options, task: task.into(), hints: antares_abi::Hints::default(), limits }
}

fn compile(
    pool: &Pool,
    elf: &[u8],
    task: impl Into<CompileTask>,
    limits: CompileLimits,
) -> Verdict<Compiled> {
    let elf = Sealed::new("elf", elf).unwrap();
    pool.compile(&job(task, limits), &elf, Instant::now() + PATIENCE).unwrap()
}

/// A library by two children.
fn compile_in_parts(pool: &Pool, elf: &[u8]) -> Compiled {
    let (job, until) = (job(Stage::Library, CompileLimits::default()), Instant::now() + PATIENCE);
    done(pool.compile_in_parts(&job, &Sealed::new("elf", elf).unwrap(), 2, until).unwrap())
}

#[track_caller]
fn done(verdict: Verdict<Compiled>) -> Compiled {
    match verdict {
        Verdict::Done(compiled) => compiled,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_stage_comes_sealed() {
    let pool = pool();
    for stage in
        [Stage::Image, Stage::Program, Stage::Ir, Stage::Llvm, Stage::Asm, Stage::Object, Stage::Library]
    {
        let compiled = done(compile(&pool, &sample::elf(), stage, CompileLimits::default()));
        let CompileReport::Done(summary) = compiled.report else {
            panic!("{stage:?}: {:?}", compiled.report)
        };
        let output = compiled.output.unwrap();
        assert_eq!((output.digest(), output.len()), (summary.sha256, summary.output_bytes));
        if stage == Stage::Library {
            verify_library(&output, summary.sha256).unwrap();
        }
    }
}

#[test]
fn a_library_in_parts_is_the_same_library() {
    let pool = pool();
    // Bytes after an ELF have no meaning, but the size determines the number of parts.
    let mut elf = sample::elf();
    elf.resize(300 << 10, 0);
    assert_eq!(parts_of(elf.len() as u64), 4);
    let whole = done(compile(&pool, &elf, Stage::Library, CompileLimits::default()));
    let parts = compile_in_parts(&pool, &elf);
    let (CompileReport::Done(whole_summary), CompileReport::Done(summary)) = (&whole.report, &parts.report)
    else {
        panic!("{:?}, {:?}", whole.report, parts.report)
    };
    assert_eq!(parts.output.unwrap().digest(), whole.output.unwrap().digest());
    let [whole, parts] = [whole_summary, summary].map(|it| (it.sha256, it.functions, it.guest_code_bytes));
    assert_eq!(parts, whole);
}

#[test]
fn parts_that_are_none_do_not_link() {
    let pool = pool();
    let mut cut = 100_u64.to_le_bytes().to_vec();
    cut.extend([1, 2, 3]);
    let mut junk = 3_u64.to_le_bytes().to_vec();
    junk.extend([1, 2, 3]);
    for blob in [cut, junk, vec![1]] {
        let compiled = done(compile(&pool, &blob, CompileTask::Link, CompileLimits::default()));
        assert!(matches!(compiled.report, CompileReport::Failed { .. }), "{:?}", compiled.report);
    }
}

#[test]
fn junk_is_refused() {
    let pool = pool();
    let whole = done(compile(&pool, b"junk", Stage::Library, CompileLimits::default()));
    // In parts, once.
    for compiled in [whole, compile_in_parts(&pool, &[7; 200 << 10])] {
        assert!(matches!(compiled.report, CompileReport::Refused { .. }), "{:?}", compiled.report);
        assert!(compiled.output.is_none());
    }
}

#[test]
fn too_little_memory_fails_its_own_compile_only() {
    let pool = pool();
    // Less than what is already mapped: the first allocation from the kernel fails.
    let limits = CompileLimits { memory_bytes_max: 1 << 20, ..CompileLimits::default() };
    let verdict = compile(&pool, &sample::elf(), Stage::Library, limits);
    assert!(!matches!(verdict, Verdict::SandboxViolation { .. }), "{verdict:?}");
    done(compile(&pool, &sample::elf(), Stage::Library, CompileLimits::default()));
}

#[test]
fn a_compile_ends_at_its_own_deadline() {
    let pool = pool();
    let limits = CompileLimits { wall_ms_max: 0, ..CompileLimits::default() };
    // Seconds of work: a compile of a few instructions may finish before the clock is checked.
    let code = vec![0x0015_0513; 300_000];
    let verdict = compile(&pool, &sample::elf_of(&code), Stage::Library, limits);
    assert!(matches!(verdict, Verdict::DeadlineExceeded), "{verdict:?}");
}

/// Sends `signal` to the child of `zygote`, once a child has computed for a while.
fn signal_child(zygote: u32, signal: &str) {
    let path = format!("/proc/{zygote}/task/{zygote}/children");
    let end = Instant::now() + PATIENCE;
    let child = loop {
        assert!(Instant::now() < end, "no child");
        let children = std::fs::read_to_string(&path).unwrap();
        let Some(child) = children.split_whitespace().next() else { continue };
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        // In hundredths of a second, the twelfth field after the name.
        let user = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11));
        if user.is_some_and(|user| user.parse::<u64>().unwrap() >= 20) {
            break child.to_owned();
        }
    };
    assert!(std::process::Command::new("kill").args([signal, &child]).status().unwrap().success());
}

#[test]
fn a_compile_is_limited_by_what_it_computes_and_not_by_how_long_others_have_the_processor() {
    let test = std::env::current_exe().unwrap();
    let worker = test.ancestors().nth(2).unwrap().join("examples/slow-compiler");
    let pool = Pool::start(PoolConfig::new(worker, 2)).unwrap();
    let limits = CompileLimits { wall_ms_max: 3_000, ..CompileLimits::default() };
    let stopped = [&sample::elf()[..], b"w"].concat();
    let compiled = std::thread::scope(|scope| {
        let compile = scope.spawn(|| compile(&pool, &stopped, Stage::Object, limits));
        let zygote = pool.stats().zygote_pid.unwrap();
        signal_child(zygote, "-STOP");
        // Longer than the wall-clock limit.
        std::thread::sleep(Duration::from_millis(limits.wall_ms_max + 200));
        signal_child(zygote, "-CONT");
        compile.join().unwrap()
    });
    assert!(matches!(done(compiled).report, CompileReport::Done(_)));
    let computes = [&sample::elf()[..], b"c"].concat();
    let zygote = pool.stats().zygote_pid.unwrap();
    let before = ended_children_ticks(zygote);
    let verdict = compile(&pool, &computes, Stage::Object, limits);
    assert!(matches!(verdict, Verdict::DeadlineExceeded), "{verdict:?}");
    // By the time that it computed, and not by the backstop, which is ten times as long.
    let end = Instant::now() + PATIENCE;
    let spent = loop {
        assert!(Instant::now() < end, "the child is not waited for");
        match ended_children_ticks(zygote) - before {
            0 => std::thread::sleep(Duration::from_millis(5)),
            spent => break spent,
        }
    };
    let most = limits.wall_ms_max / 10 + 100;
    assert!((most / 2..=most).contains(&spent), "{spent} hundredths of a second");
}

/// Processor time of the children of `zygote` that have ended, hundredths of a second.
fn ended_children_ticks(zygote: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{zygote}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    fields.skip(13).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}
