//! Valid libraries with a few changed bits, until the check of machine code accepts one, which then runs in a
//! sandboxed child. It may return anything, loop or die. It must not reach a system call that the sandbox
//! forbids.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa};
use antares_codecheck::check;
use antares_compiler::Stage;
use antares_pool::{
    Pool, PoolConfig, PoolError, Sealed, Verdict,
    job::{RunJob, Tier},
    worker_path,
};
use antares_tests::{
    generate::Random,
    guests,
    native::{code_of, output},
};

/// Runs of changed libraries, for each script and generator.
const RUNS: usize = 250;
/// Maximum number of changed libraries to check for these runs.
const ATTEMPTS_MAX: usize = 60_000;
/// Time limit of a run.
const PATIENCE: Duration = Duration::from_millis(150);
/// Start of the message about wild native code.
const WILD: &str = "native code touched memory";
const OPTIONS: CompileOptions = CompileOptions { vm_version: 2, isa: Isa(7) };

/// Range of the code in the file.
fn code(library: &[u8]) -> Range<usize> {
    let code = code_of(library);
    // Breakpoints fill the rest.
    let filled = library[code.clone()].iter().rposition(|byte| *byte != 0xcc).unwrap();
    code.start..code.start + filled + 1
}

/// One to three changes: a bit, a byte, or a byte copied from elsewhere in the code.
fn changed(library: &[u8], random: &mut Random) -> Vec<u8> {
    let code = code(library);
    let mut changed = library.to_vec();
    let bytes = u32::try_from(code.len()).unwrap();
    let place = |random: &mut Random| code.start + usize::try_from(random.below(bytes)).unwrap();
    for _ in 0..=random.below(3) {
        let at = place(random);
        match random.below(3) {
            0 => changed[at] ^= 1 << random.below(8),
            1 => changed[at] = u8::try_from(random.below(256)).unwrap(),
            _ => changed[at] = library[place(random)],
        }
    }
    changed
}

/// Outcomes of the runs of changed libraries.
#[derive(Debug, Default)]
struct Ends {
    passed: usize,
    looked_at: usize,
    answered: usize,
    lost: usize,
    late: usize,
    wild: usize,
}

fn run(pool: &Pool, name: &str, stage: Stage, seed: u64) -> Ends {
    let elf = guests::bytes(name).unwrap();
    let library = output(&elf, OPTIONS, stage).unwrap().bytes;
    check(&library).unwrap();
    let elf = Sealed::new("elf", &elf).unwrap();
    let job = RunJob {
        options: OPTIONS,
        tier: Tier::Native,
        args: vec![b"7".to_vec()],
        cycles_max: 10_000_000,
        debug_bytes_max: 4096,
        sample_cycles: 0,
        sample_salt: 0,
    };
    let (mut random, mut ends) = (Random::new(seed), Ends::default());
    while ends.passed < RUNS && ends.looked_at < ATTEMPTS_MAX {
        ends.looked_at += 1;
        let changed = changed(&library, &mut random);
        if changed == library || check(&changed).is_err() {
            continue;
        }
        ends.passed += 1;
        let sealed = Sealed::new("library", &changed).unwrap();
        match pool.run(&job, &elf, Some(&sealed), Instant::now() + PATIENCE) {
            // Its zygote is being replaced, not because of a library.
            Err(PoolError::Busy { .. }) => {}
            // Changed code may leave cycles uncounted, so that the report contradicts itself.
            Ok(Verdict::Done(_) | Verdict::FalseReport { .. }) => ends.answered += 1,
            Ok(Verdict::DeadlineExceeded) => ends.late += 1,
            Ok(Verdict::WorkerLost { .. }) => ends.lost += 1,
            // The handler reports an access to unmapped memory, not a system call.
            Ok(Verdict::SandboxViolation { detail }) if detail.starts_with(WILD) => ends.wild += 1,
            other => panic!("{name}, {stage:?}, seed {seed}, change {}: {other:?}", ends.looked_at),
        }
    }
    ends
}

#[test]
fn what_the_check_lets_pass_reaches_no_system_call() {
    let worker = worker_path("antares-run-worker").expect("cargo build --workspace builds it");
    let pool = Pool::start(PoolConfig::new(worker, 2)).unwrap();
    let seed = std::env::var("ANTARES_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap());
    for name in ["exit-imc", "fib-imc"] {
        for stage in [Stage::Library, Stage::Baseline] {
            let ends = run(&pool, name, stage, seed);
            println!("{name}, {stage:?}: {ends:?}");
            // The check refuses most changes, and some of the accepted libraries answer.
            assert!(ends.passed >= RUNS / 2 && ends.answered > 0, "{ends:?}");
        }
    }
}
