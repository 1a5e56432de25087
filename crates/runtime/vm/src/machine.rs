//! The machine: loads a script, picks the tier, runs it, and restarts it in the interpreter after a bailout.

use std::{ops::Range, time::Instant};

use antares_abi::{BailoutReason, FrameAt, Seen, Tier};
use antares_hosted::job::DebugLog;
use antares_profile::evidence::Evidence;
use bytes::Bytes;
use ckb_vm::{
    CoreMachine, DefaultMachineBuilder, DefaultMachineRunner, Error, ISA_A, ISA_B, ISA_MOP, SupportMachine,
    Syscalls,
    cost_model::estimate_cycles,
    elf::parse_elf,
    machine::{VERSION0, VERSION2, asm::AsmMachine},
};

use crate::{
    Library, Outcome, Recording, Report, VmError,
    bailout::Bailout,
    calls::Calls,
    code::Code,
    debug::{DebugPrint, SharedLog},
    enter,
    host::{self, Attempted, Start},
    limits::NATIVE_STACK_BYTES,
    loader,
    memory::Core,
    observed::{self, Observed},
    outcome::failure,
    pages::Pages,
    prepare_thread,
    recording::{ROOT, Recorded},
    sampler::{Sampled, Sampler, Sampling},
    stack::NativeStack,
    tracer::{Into, Tracer},
    watch::{End, Watch, Watching},
};

/// The program and options to run.
#[derive(Clone, Copy, Debug)]
pub struct RunScript<'a> {
    /// The ELF file.
    pub elf: &'a Bytes,
    /// Arguments as the guest sees them (argv, without a program name).
    pub args: &'a [Bytes],
    /// VM version: 0, 1 or 2.
    pub vm_version: u32,
    /// ISA flags as in ckb-vm: a sum of 1 (B), 2 (MOP) and 4 (A).
    pub isa: u8,
}

/// Limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Cycle limit, excluding cycles for loading.
    pub cycles_max: u64,
    /// Maximum stored debug output in bytes; each line counts one more than its bytes.
    pub debug_bytes_max: u64,
}

/// Guest memory, native stack and interpreter, mapped once and cleared before each run.
pub struct Machine {
    vm: AsmMachine<Core>,
    stack: NativeStack,
    log: SharedLog,
    /// The profile of the current run, if it is sampled.
    sampled: Option<Sampled>,
}

/// How one of the tiers ended a run.
struct Ended {
    outcome: Outcome,
    restarted: Option<BailoutReason>,
    seen: Option<Seen>,
    native: bool,
}

impl Ended {
    fn interpreted(outcome: Outcome) -> Self {
        Self { outcome, restarted: None, seen: None, native: false }
    }
}

impl Machine {
    /// Maps a machine with the default native stack ([`NATIVE_STACK_BYTES`]) and prepares the calling thread.
    ///
    /// # Errors
    /// When the kernel refuses address space or signal handling.
    pub fn new() -> Result<Self, VmError> {
        Self::with_native_stack(NATIVE_STACK_BYTES)
    }

    /// Like [`Machine::new`], with a native stack of `bytes`. The size decides only at which recursion depth
    /// the interpreter takes over.
    ///
    /// # Errors
    /// As [`Machine::new`].
    pub fn with_native_stack(bytes: usize) -> Result<Self, VmError> {
        Self::build(bytes, None)
    }

    /// Like [`Machine::new`], with `calls` in addition to the built-in system calls. They are initialized
    /// each time a program is loaded, so twice in a run that bails out and restarts.
    ///
    /// # Errors
    /// As [`Machine::new`].
    pub fn with_calls(calls: Box<dyn Syscalls<Core>>) -> Result<Self, VmError> {
        Self::build(NATIVE_STACK_BYTES, Some(calls))
    }

    fn build(stack_bytes: usize, calls: Option<Box<dyn Syscalls<Core>>>) -> Result<Self, VmError> {
        prepare_thread()?;
        let log = SharedLog::default();
        let mut builder = DefaultMachineBuilder::new(Core::map(enter::table)?)
            .instruction_cycle_func(Box::new(estimate_cycles))
            .syscall(Box::new(DebugPrint(log.clone())));
        if let Some(calls) = calls {
            builder = builder.syscall(calls);
        }
        let stack = NativeStack::map(stack_bytes)?;
        Ok(Self { vm: AsmMachine::new(builder.build()), stack, log, sampled: None })
    }

    /// Runs `script` once, from cleared memory. Native code runs if `tier` allows it and `library` was
    /// compiled for the script's VM version and ISA. The caller guarantees that `library` was compiled from
    /// the script's ELF.
    ///
    /// After [`Machine::new`] on this thread, the only system calls are `madvise(MADV_DONTNEED)`, the return
    /// from signals, and heap calls (see [`reserve_heap`](crate::reserve_heap)).
    ///
    /// # Errors
    /// Fails if the request is invalid ([`VmError::VmVersion`], [`VmError::Isa`], [`VmError::NoLibrary`],
    /// [`VmError::LibraryMismatch`]). Any behavior of the script itself is a [`Report`].
    pub fn run(
        &mut self,
        script: &RunScript<'_>,
        limits: &Limits,
        tier: Tier,
        library: Option<&Library>,
    ) -> Result<Report, VmError> {
        check(script)?;
        let library = choose(script, tier, library)?;
        self.report(script, limits, |machine| machine.execute(script, limits, library))
    }

    /// Loads the program, has `run` run it, and reports both.
    fn report(
        &mut self,
        script: &RunScript<'_>,
        limits: &Limits,
        run: impl FnOnce(&mut Self) -> Ended,
    ) -> Result<Report, VmError> {
        prepare_thread()?;
        let micros = |since: Instant| u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        let started = Instant::now();
        let loaded = self.load(script, limits);
        let load_us = micros(started);
        let started = Instant::now();
        let (load_cycles, ended) = match loaded {
            Ok(bytes) => (bytes.div_ceil(4), run(self)),
            Err(error) => (0, Ended::interpreted(failure(error))),
        };
        let cycles = self.vm.machine.cycles();
        Ok(Report {
            outcome: ended.outcome,
            cycles,
            load_cycles,
            native_cycles: if ended.native { cycles } else { 0 },
            interpreted_cycles: if ended.native { 0 } else { cycles },
            restarted: ended.restarted,
            seen: ended.seen,
            debug: self.log.lock().take(),
            load_us,
            run_us: micros(started),
            samples: None,
        })
    }

    /// Like [`Machine::run`], with samples of native code. The recording adds up to the report's cycles;
    /// interpreted cycles are unknown in it. The library must have its frames ([`Library::with_frames`]).
    ///
    /// # Errors
    /// As [`Machine::run`].
    pub fn run_sampled(
        &mut self,
        script: &RunScript<'_>,
        limits: &Limits,
        (tier, library): (Tier, Option<&Library>),
        sampling: Sampling,
    ) -> Result<(Report, Recording), VmError> {
        let mut sampler = Sampler::new(sampling);
        let (vm_version, isa) = (script.vm_version, script.isa);
        let program = sampler.program(Recorded::new(Some(script.elf.clone()), vm_version, isa));
        self.sampled = Some(Sampled::new(sampler, ROOT, vec![program]));
        let result = self.run(script, limits, tier, library);
        let sampled = self.sampled.take();
        let report = result?;
        let is_whole = report.native_cycles == report.cycles;
        let sampler = sampled.filter(|_| is_whole).map_or_else(|| Sampler::new(sampling), |s| s.sampler);
        let recording = sampler.finish(report.cycles);
        Ok((report, recording))
    }

    /// Runs `script` once in the interpreter, from cleared memory, and records how often each code ran and
    /// its callers. The report equals that of [`Machine::run`]; the recording adds up to its cycles.
    ///
    /// # Errors
    /// As [`Machine::run`].
    pub fn profile(
        &mut self,
        script: &RunScript<'_>,
        limits: &Limits,
    ) -> Result<(Report, Recording), VmError> {
        self.record(script, limits, None)
    }

    /// As [`Machine::profile`], with evidence of how the run ended.
    ///
    /// # Errors
    /// As [`Machine::run`].
    pub fn watch(
        &mut self,
        script: &RunScript<'_>,
        limits: &Limits,
        watching: Watching,
    ) -> Result<(Report, Recording, Evidence), VmError> {
        let mut watch = Watch::new(watching);
        let (report, recording) = self.record(script, limits, Some(&mut watch))?;
        let evidence = watch.finish(&recording);
        Ok((report, recording, evidence))
    }

    fn record(
        &mut self,
        script: &RunScript<'_>,
        limits: &Limits,
        watch: Option<&mut Watch>,
    ) -> Result<(Report, Recording), VmError> {
        check(script)?;
        let mut recording = Recording::default();
        let report = self.report(script, limits, |machine| {
            Ended::interpreted(machine.trace(script, &mut recording, watch))
        })?;
        Ok((report, recording))
    }

    /// Runs and records the loaded program, which is `script`.
    fn trace(
        &mut self,
        script: &RunScript<'_>,
        recording: &mut Recording,
        mut watch: Option<&mut Watch>,
    ) -> Outcome {
        let (vm_version, isa) = (script.vm_version, script.isa);
        let program = recording.program(Recorded::new(Some(script.elf.clone()), vm_version, isa));
        let mut calls = Calls::new(ROOT, program, 0);
        let mut tracer = Tracer::new(&self.vm.machine);
        let vm = &mut self.vm.machine;
        if let Some(watch) = watch.as_deref_mut() {
            watch.begin(vm, 0, 0);
        }
        let into = Into { calls: &mut calls, recording, execs: &mut 0, watch: watch.as_deref_mut() };
        let result = tracer.run(vm, into);
        if let Some(watch) = watch {
            watch.end(vm, &End { id: 0, calls: &calls, result: &result }, recording);
        }
        outcome(result)
    }

    /// Wipes guest memory, registers, the native stack and debug output of the last run. The next run clears
    /// all but the stack anyway; call this on a machine that idles.
    pub fn clear(&mut self) {
        self.vm.machine.inner_mut().clear();
        self.stack.wipe();
        *self.log.lock() = DebugLog::new(0);
    }

    /// Guest memory after the last run.
    #[must_use]
    pub fn memory(&self) -> &[u8] {
        self.vm.machine.memory().bytes()
    }

    /// Guest registers after the last run. After an exit in native code only `a0..a7` are current.
    #[must_use]
    pub fn registers(&self) -> &[u64; 32] {
        self.vm.machine.memory().guest_registers()
    }

    /// Guest pc after the last run.
    #[must_use]
    pub fn pc(&self) -> u64 {
        *self.vm.machine.pc()
    }

    /// Clears the machine and loads the program. Returns the number of bytes loaded.
    fn load(&mut self, script: &RunScript<'_>, limits: &Limits) -> Result<u64, Error> {
        *self.log.lock() = DebugLog::new(limits.debug_bytes_max);
        let core = self.vm.machine.inner_mut();
        core.reset(script.isa, script.vm_version, limits.cycles_max);
        let metadata = parse_elf::<u64>(script.elf, script.vm_version)?;
        let lean = loader::without_zeros(core, &metadata);
        self.vm.machine.load_program_with_metadata(script.elf, &lean, script.args.iter().cloned().map(Ok))
    }

    /// Runs the loaded program in the available tiers.
    fn execute(&mut self, script: &RunScript<'_>, limits: &Limits, library: Option<&Library>) -> Ended {
        let Some(library) = library else { return self.interpret() };
        let Some(thunk) = library.entry(self.pc()) else {
            let bailout = Bailout { target: Some(self.pc()), ..BailoutReason::UnknownTarget.into() };
            return self.interpret_after(&bailout, library);
        };
        let bailout = match self.run_native(library, thunk) {
            Ok(outcome) => return Ended { outcome, restarted: None, seen: None, native: true },
            Err(bailout) => bailout,
        };
        if bailout.reason == BailoutReason::StackOverflow {
            self.stack.clear();
        }
        match self.load(script, limits) {
            Ok(_) => self.interpret_after(&bailout, library),
            Err(error) => Ended { restarted: Some(bailout.reason), ..Ended::interpreted(failure(error)) },
        }
    }

    /// Runs the loaded program in native code. An error gives the reason for a restart in the interpreter,
    /// which alone defines cycles, registers and memory of a script that does not exit.
    fn run_native(&mut self, library: &Library, thunk: *const u8) -> Result<Outcome, Bailout> {
        let mut code = OneLibrary { library, texts: [library.text()] };
        let core = self.vm.machine.inner_mut();
        let protected = code.protected(core);
        core.protect(protected);
        let (vm, sampled) = (&mut self.vm.machine, self.sampled.as_mut());
        let attempted = host::attempt(vm, &self.stack, &mut code, Start::Thunk(thunk), u64::MAX, sampled);
        match attempted {
            Attempted::Exited => Ok(Outcome::Exit(self.vm.machine.exit_code())),
            Attempted::Failed(Error::CyclesExceeded) => Err(BailoutReason::OutOfCycles.into()),
            Attempted::Bailout(bailout) => Err(bailout),
            Attempted::Done => {
                Err(Bailout { target: Some(self.pc()), ..BailoutReason::UnknownTarget.into() })
            }
            _ => Err(BailoutReason::Ecall.into()),
        }
    }

    fn interpret(&mut self) -> Ended {
        Ended::interpreted(outcome(self.vm.run()))
    }

    /// Runs the loaded program in the interpreter after a bailout, and collects the jump targets that native
    /// code did not know.
    fn interpret_after(&mut self, bailout: &Bailout, library: &Library) -> Ended {
        let restarted = Some(bailout.reason);
        if !matches!(bailout.reason, BailoutReason::UnknownTarget | BailoutReason::Unsupported) {
            return Ended { restarted, ..self.interpret() };
        }
        let mut observed = Observed::new();
        observed.record_bailout(bailout);
        let result = observed::run(&mut self.vm.machine, &mut observed);
        let seen = Some(observed.seen(|_| true, |address| library.entry(address).is_some()));
        Ended { outcome: outcome(result), restarted, seen, native: false }
    }
}

/// Converts an interpreter result to an outcome.
fn outcome(result: Result<i8, Error>) -> Outcome {
    result.map_or_else(failure, Outcome::Exit)
}

/// The code of a machine that runs a single script.
struct OneLibrary<'a> {
    library: &'a Library,
    texts: [Range<usize>; 1],
}

impl OneLibrary<'_> {
    /// Executable pages that the library's stores may not recognize as executable.
    fn protected(&self, core: &Core) -> Pages {
        if self.library.stores_anywhere() { core.executable() } else { Pages::default() }
    }
}

impl Code for OneLibrary<'_> {
    fn texts(&self) -> &[Range<usize>] {
        &self.texts
    }

    fn frame(&self, address: usize, frame: &mut FrameAt) -> Option<usize> {
        self.library.frame(address, frame).then_some(0)
    }

    fn thunk(&self, pc: u64) -> Option<*const u8> {
        self.library.entry(pc)
    }

    fn changed(&mut self, _core: &mut Core) -> bool {
        // No system call of a standalone script makes pages executable.
        true
    }

    fn is_sealed(&self, core: &Core) -> bool {
        core.protected() == self.protected(core)
    }
}

/// Validates the script's VM version and ISA flags.
fn check(script: &RunScript<'_>) -> Result<(), VmError> {
    if script.vm_version > VERSION2 {
        return Err(VmError::VmVersion(script.vm_version));
    }
    if script.isa & !(ISA_A | ISA_B | ISA_MOP) != 0 {
        return Err(VmError::Isa(script.isa));
    }
    Ok(())
}

/// Selects the library to start with, if native code is to run.
fn choose<'a>(
    script: &RunScript<'_>,
    tier: Tier,
    library: Option<&'a Library>,
) -> Result<Option<&'a Library>, VmError> {
    // ckb-vm refuses this pair when it starts to run, whatever the code.
    let refused = script.vm_version == VERSION0 && script.isa & ISA_MOP != 0;
    let fits = |library: &Library| {
        let is_same = (library.vm_version(), library.isa()) == (script.vm_version, u32::from(script.isa));
        // This machine does not open counters.
        is_same && !library.is_counted()
    };
    match (tier, library) {
        (Tier::Native, None) => Err(VmError::NoLibrary),
        (Tier::Native, Some(library)) if !fits(library) => Err(VmError::LibraryMismatch {
            library_version: library.vm_version(),
            library_isa: library.isa(),
            vm_version: script.vm_version,
            isa: script.isa,
        }),
        (Tier::Native | Tier::Auto, Some(library)) if fits(library) && !refused => Ok(Some(library)),
        _ => Ok(None),
    }
}
