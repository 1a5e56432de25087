//! Tests of the public API: equal outcomes in both tiers, custom system calls, native code from elsewhere.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use antares::{
    End, Engine, Error, Flow, Guest, Outcome, Run, Sandbox, Script, SignedArtifact, Syscalls, Trap,
    TrustedKeys, VmVersion,
};
use antares_abi::{CodeTier, CompileOptions, Hints, Isa, Sha256Digest};
use antares_compiler::{CompileLimits, Request, Stage};
use antares_trust::{Facts, Keyring};

/// The parts of an outcome that must not depend on the tier: end, cycles and debug lines.
fn reported(outcome: &Outcome) -> (End, u64, u64, Vec<String>) {
    (outcome.end.clone(), outcome.cycles, outcome.load_cycles, outcome.debug.clone())
}

/// Runs `script` natively and in the interpreter; asserts equal outcomes and returns the native one.
#[track_caller]
fn run_in_both(script: &Script, run: &Run) -> Outcome {
    let native = script.run(run.clone()).unwrap();
    let interpreted = script.run(run.clone().interpreted()).unwrap();
    assert_eq!(reported(&native), reported(&interpreted));
    assert_eq!(interpreted.native_cycles, 0);
    native
}

#[test]
fn outcomes_are_the_same_in_both_tiers() {
    let engine = Engine::new();
    let elf = antares_guests::bytes("fib").unwrap();
    for version in [VmVersion::V0, VmVersion::V1, VmVersion::V2] {
        for script in [
            engine.compile(elf.clone(), version).unwrap(),
            engine.compile_quickly(elf.clone(), version).unwrap(),
        ] {
            let outcome = run_in_both(&script, &Run::new().arg("15"));
            // In version 0 its stack is out of bounds, which is its outcome.
            let exits = version != VmVersion::V0;
            assert_eq!(matches!(outcome.end, End::Exited(_)), exits, "{outcome:?}");
            assert_eq!(outcome.native_cycles, if exits { outcome.cycles } else { 0 });
            let short = run_in_both(&script, &Run::new().arg("15").max_cycles(outcome.cycles - 1));
            assert_eq!(short.end, End::CyclesExceeded);
        }
    }
    let lines = engine.compile(antares_guests::bytes("debug").unwrap(), VmVersion::V2).unwrap();
    assert_eq!(run_in_both(&lines, &Run::new().arg("3")).debug.len(), 4);
    assert!(matches!(
        engine.compile(&b"no ELF"[..], VmVersion::V2),
        Err(Error::Refused { reason: "elf", .. })
    ));
    let broken = engine.script(&b"no ELF"[..], VmVersion::V2).run(Run::new()).unwrap();
    assert!(matches!(broken.end, End::Trapped(trap) if trap.name() == "ElfParseError"));
}

#[test]
fn the_fence_says_what_this_process_says() {
    let worker = antares_pool::worker_path("antares-run-worker").unwrap();
    let sandbox = Sandbox::start(&worker, 1).unwrap();
    let engine = Engine::new();
    let elf = antares_guests::bytes("fib").unwrap();
    let time = Duration::from_secs(100);
    for script in
        [engine.compile_quickly(elf.clone(), VmVersion::V2).unwrap(), engine.script(elf, VmVersion::V2)]
    {
        let run = Run::new().arg("15");
        let here = script.run(run.clone()).unwrap();
        let sandboxed = sandbox.run(&script, &run, time).unwrap();
        assert_eq!((reported(&sandboxed), sandboxed.native_cycles), (reported(&here), here.native_cycles));
        let short = sandbox.run(&script, &run.clone().max_cycles(here.cycles - 1), time).unwrap();
        assert_eq!(short.end, End::CyclesExceeded);
        let interpreted = sandbox.run(&script, &run.interpreted(), time).unwrap();
        assert_eq!((reported(&interpreted), interpreted.native_cycles), (reported(&here), 0));
    }
    let lines = engine.script(antares_guests::bytes("debug").unwrap(), VmVersion::V2);
    let run = Run::new().arg("3");
    assert_eq!(reported(&sandbox.run(&lines, &run, time).unwrap()), reported(&lines.run(run).unwrap()));
}

#[test]
fn what_the_fence_cannot_do_is_an_error() {
    let error = |result: Result<Outcome, Error>| result.unwrap_err().to_string();
    let worker = antares_pool::worker_path("antares-run-worker").unwrap();
    let sandbox = Sandbox::start(&worker, 1).unwrap();
    // An endless loop.
    let endless = Engine::new()
        .script(antares_guests::assemble(".globl _start\n_start: j _start\n").unwrap(), VmVersion::V2);
    let run = Run::new().max_cycles(u64::MAX);
    assert!(error(sandbox.run(&endless, &run, Duration::from_secs(3))).contains("not over in time"));
    let own = run.syscalls(Arc::new(Mutex::new(Sums::default())));
    assert!(error(sandbox.run(&endless, &own, Duration::from_secs(9))).contains("in your process alone"));
    let nothing = Sandbox::start(std::path::Path::new("/nowhere/worker"), 1).unwrap_err();
    assert!(
        matches!(nothing, Error::Sandbox(_)) && nothing.to_string().contains("/nowhere/worker"),
        "{nothing}"
    );
}

/// Sums up the bytes that scripts pass.
#[derive(Default)]
struct Sums {
    begun: u32,
    sum: u64,
}

impl Syscalls for Sums {
    fn begin(&mut self) {
        self.begun += 1;
        self.sum = 0;
    }

    fn call(&mut self, guest: &mut Guest<'_>) -> Result<Flow, Trap> {
        match guest.number() {
            5000 => {
                let length = usize::try_from(guest.arg(1)).unwrap_or(usize::MAX);
                let bytes = guest.read(guest.arg(0), length)?;
                self.sum += bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
                guest.charge(1000)?;
                guest.set_result(self.sum);
                Ok(Flow::Continue)
            }
            5001 => {
                guest.write(guest.arg(0), &self.sum.to_le_bytes())?;
                guest.set_result(0);
                Ok(Flow::Continue)
            }
            5002 => Err(Trap::new("not today")),
            _ => Ok(Flow::NotMine),
        }
    }
}

/// A script that makes call `number` with these arguments, and exits with its result.
fn calling(number: u32, first: &str, second: &str, behind: &str) -> Vec<u8> {
    let text = format!(
        ".global _start\n_start:\n li a7, 5000\n la a0, bytes\n li a1, 3\n ecall\n \
         li a7, {number}\n {first}\n {second}\n ecall\n {behind}\n li a7, 93\n ecall\n\
         .data\nbytes: .byte 1, 2, 3\n.balign 8\nroom: .dword 0\n"
    );
    antares_guests::assemble(&text).unwrap()
}

#[test]
fn system_calls_of_ones_own() {
    let engine = Engine::new();
    let run = |elf: Vec<u8>, cycles_max: u64| {
        let script = engine.compile(elf, VmVersion::V2).unwrap();
        let sums: Arc<Mutex<Sums>> = Arc::default();
        let outcome = run_in_both(&script, &Run::new().syscalls(sums.clone()).max_cycles(cycles_max));
        let begun = sums.lock().unwrap().begun;
        (outcome, begun)
    };
    let (outcome, begun) = run(calling(5000, "la a0, bytes", "li a1, 2", ""), 100_000);
    assert_eq!(outcome.end, End::Exited(6 + 3));
    assert_eq!((outcome.native_cycles, begun), (outcome.cycles, 2), "once in each tier");
    assert!(outcome.cycles > 3 * 500 + 2 * 1000);
    let (written, _) = run(calling(5001, "la a0, room", "", "la a1, room\n ld a0, 0(a1)"), 100_000);
    assert_eq!(written.end, End::Exited(6));
    // Cycles charged by a call count against the limit.
    assert_eq!(run(calling(5000, "la a0, bytes", "li a1, 2", ""), 2_900).0.end, End::CyclesExceeded);

    let trapped = |elf| match run(elf, 100_000).0.end {
        End::Trapped(trap) => (trap.name().to_owned(), trap.detail().map(str::to_owned)),
        end => panic!("{end:?}"),
    };
    let own = ("External".to_owned(), Some("not today".to_owned()));
    assert_eq!(trapped(calling(5002, "", "", "")), own);
    assert_eq!(trapped(calling(5003, "", "", "")), ("InvalidEcall".to_owned(), Some("5003".to_owned())));
    for (first, second) in
        [("li a0, -8", "li a1, 9"), ("li a0, 0", "li a1, -1"), ("li a0, 4194304", "li a1, 1")]
    {
        assert_eq!(trapped(calling(5000, first, second, "")).0, "MemOutOfBound", "{first} {second}");
    }
    // System calls cannot write code either.
    assert_eq!(trapped(calling(5001, "la a0, _start", "", "")).0, "MemWriteOnExecutablePage");
}

#[test]
fn a_run_that_begins_again_says_so() {
    // Static recovery cannot resolve this jump: native code bails out, and the interpreter restarts the
    // script.
    let text = ".global _start\n_start:\n li a7, 5000\n la a0, bytes\n li a1, 3\n ecall\n la a1, table\n \
                ld a1, 0(a1)\n xor a1, a1, a0\n jr a1\n nop\nhidden:\n li a7, 93\n ecall\n\
                .data\nbytes: .byte 1, 2, 3\n.balign 8\ntable: .dword hidden + 6 - 2 * (6 & hidden)\n";
    let elf = antares_guests::assemble(text);
    // If the assembler rejects the expression, use the prepared guest.
    let elf = elf.unwrap_or_else(|_| antares_guests::hidden().unwrap());
    let script = Engine::new().compile(elf, VmVersion::V2).unwrap();
    let sums: Arc<Mutex<Sums>> = Arc::default();
    let outcome = script.run(Run::new().syscalls(sums.clone())).unwrap();
    let begun = sums.lock().unwrap().begun;
    assert_eq!(outcome.native_cycles, 0, "{outcome:?}");
    assert_eq!(begun, 2);
    assert_eq!(reported(&outcome), reported(&script.run(Run::new().syscalls(sums).interpreted()).unwrap()));
}

#[test]
fn a_run_inside_of_a_system_call() {
    struct Inner(Script);
    impl Syscalls for Inner {
        fn call(&mut self, guest: &mut Guest<'_>) -> Result<Flow, Trap> {
            let outcome = self.0.run(Run::new().arg("7")).map_err(|error| Trap::new(error.to_string()))?;
            guest.set_result(u64::from(matches!(outcome.end, End::Exited(_))));
            Ok(Flow::Continue)
        }
    }
    let engine = Engine::new();
    let inner = engine.compile(antares_guests::bytes("fib").unwrap(), VmVersion::V2).unwrap();
    let outer = engine.compile(calling(5000, "", "", ""), VmVersion::V2).unwrap();
    let outcome = run_in_both(&outer, &Run::new().syscalls(Arc::new(Mutex::new(Inner(inner)))));
    assert_eq!(outcome.end, End::Exited(1));
}

#[test]
fn a_profile_adds_up_to_the_run() {
    let engine = Engine::new();
    let script = engine.compile(antares_guests::bytes("fib").unwrap(), VmVersion::V2).unwrap();
    let run = Run::new().arg("15");
    let (outcome, profile) = script.profile(run.clone()).unwrap();
    assert_eq!(reported(&outcome), reported(&script.run(run).unwrap()));
    assert_eq!(profile.cycles(), outcome.cycles);
    let functions = profile.functions(usize::MAX);
    assert_eq!(functions.iter().map(|function| function.self_cycles).sum::<u64>(), outcome.cycles);
    assert!(functions.iter().any(|function| function.name == "main"), "{functions:?}");
    let folded = profile.folded();
    let cycles = folded.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
    assert_eq!(cycles.sum::<u64>(), outcome.cycles);
    assert!(profile.flame_graph().contains("<svg") || profile.flame_graph().contains("<html"));
    // Custom calls cost the same in a profile.
    let asks = engine.script(calling(5000, "la a0, bytes", "li a1, 2", ""), VmVersion::V2);
    let sums: Arc<Mutex<Sums>> = Arc::default();
    let (outcome, profile) = asks.profile(Run::new().syscalls(sums)).unwrap();
    assert_eq!((outcome.end, profile.cycles()), (End::Exited(9), outcome.cycles));
}

/// Offset of the executable segment in a shared object.
fn code_at(object: &[u8]) -> usize {
    let word = |at: usize| u32::from_le_bytes(object[at..at + 4].try_into().unwrap()) as usize;
    let headers = (0..usize::from(object[56])).map(|number| word(32) + 56 * number);
    let (loads, executes) = (1, 1);
    let code = headers.into_iter().find(|&header| word(header) == loads && word(header + 4) & executes != 0);
    word(code.unwrap() + 8)
}

#[test]
fn native_code_from_elsewhere_needs_a_signature() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    let signer = Keyring::open_or_make(&ours).unwrap();
    Keyring::open_or_make(&theirs).unwrap();
    let elf = antares_guests::bytes("fib").unwrap();
    let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
    let request =
        Request { options, stage: Stage::Library, hints: Hints::default(), limits: CompileLimits::default() };
    let library = antares_compiler::compile(&elf, &request).unwrap().bytes;
    let script = Sha256Digest::of(&elf);
    let sign = |library: &[u8]| {
        let key = Sha256Digest::for_artifact(script, options, CodeTier::Full);
        let facts = Facts { key, script, digest: Sha256Digest::of(library), length: library.len() as u64 };
        SignedArtifact { library: library.to_vec(), manifest: signer.sign(&facts, u64::MAX).unwrap() }
    };
    let good = sign(&library);
    let trusted = TrustedKeys::read(ours.join("trusted.json")).unwrap();
    let engine = Engine::new();
    let loaded = engine.load(elf.clone(), VmVersion::V2, &good, &trusted).unwrap();
    let outcome = run_in_both(&loaded, &Run::new().arg("15"));
    assert_eq!(outcome.native_cycles, outcome.cycles);

    #[track_caller]
    fn refuse(result: Result<Script, Error>, why: &str) {
        let text = result.unwrap_err().to_string();
        assert!(text.contains(why), "{text}");
    }
    let other = antares_guests::bytes("exit").unwrap();
    refuse(engine.load(other, VmVersion::V2, &good, &trusted), "refused");
    refuse(engine.load(elf.clone(), VmVersion::V1, &good, &trusted), "refused");
    let strangers = TrustedKeys::read(theirs.join("trusted.json")).unwrap();
    refuse(engine.load(elf.clone(), VmVersion::V2, &good, &strangers), "refused");
    let mut changed = good.clone();
    changed.library[5000] ^= 1;
    refuse(engine.load(elf.clone(), VmVersion::V2, &changed, &trusted), "refused");
    // A signature does not make an invalid library acceptable: this one contains a system call.
    let mut hostile = library.clone();
    let code = code_at(&hostile);
    hostile[code..code + 2].copy_from_slice(&[0x0f, 0x05]);
    refuse(engine.load(elf, VmVersion::V2, &sign(&hostile), &trusted), "refused");
    assert!(matches!(TrustedKeys::read(folder.path().join("none")), Err(Error::Keys(_))));
}
