//! The oracle: ckb-vm's stock `AsmMachine` with this project's two system calls, independent of the crate
//! `vm`.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use antares_abi::CompileOptions;
use bytes::Bytes;
use ckb_vm::{
    DefaultMachineBuilder, DefaultMachineRunner, Error, MEMORY_FRAMESIZE, Memory as _, Register,
    SupportMachine, Syscalls,
    cost_model::estimate_cycles,
    machine::{
        Pause,
        asm::{AsmCoreMachine, AsmCoreMachineRevealer, AsmMachine},
    },
    memory::{FLAG_EXECUTABLE, FLAG_FREEZED, load_c_string_byte_by_byte},
    registers::{A0, A7},
};

use crate::stopwatch::timed;

/// A case to run.
#[derive(Clone, Debug)]
pub struct Case {
    pub elf: Bytes,
    pub args: Vec<Bytes>,
    /// VM version and ISA.
    pub options: CompileOptions,
    /// Cycle limit.
    pub cycles_max: u64,
    /// Code that the system calls of [`LOADER`] load; `None` if these calls do not exist.
    pub code: Option<Bytes>,
}

impl Case {
    /// A case without code to load.
    #[must_use]
    pub fn new(elf: &[u8], args: &[&str], options: CompileOptions, cycles_max: u64) -> Self {
        let args = args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect();
        Self { elf: Bytes::copy_from_slice(elf), args, options, cycles_max, code: None }
    }
}

/// System calls of machines for ckb-script that need no transaction: load code, VM version, pause now, pause
/// soon.
pub const LOADER: [u64; 4] = [2091, 2041, 2178, 2179];

/// Maximum pauses of one run, to bound its time.
const PAUSES_MAX: u32 = 64;

struct Loader {
    code: Bytes,
    pauses: u32,
    pause: Pause,
}

impl<M: SupportMachine> Syscalls<M> for Loader {
    fn initialize(&mut self, _machine: &mut M) -> Result<(), Error> {
        Ok(())
    }

    fn ecall(&mut self, machine: &mut M) -> Result<bool, Error> {
        let register = |machine: &M, index: usize| machine.registers()[index].to_u64();
        let number = register(machine, A7);
        if number == LOADER[0] {
            // As ckb-script's load_cell_data_as_code.
            let [address, size, from, length] = [0, 1, 2, 3].map(|index| register(machine, A0 + index));
            machine.add_cycles_no_checking(size.div_ceil(4))?;
            let end = from.checked_add(length).ok_or(Error::MemOutOfBound)?;
            let is_refused = end > self.code.len() as u64 || length > size;
            if !is_refused {
                let code = self.code.slice(from as usize..end as usize);
                let flags = FLAG_EXECUTABLE | FLAG_FREEZED;
                machine.memory_mut().init_pages(address, size, flags, Some(code), 0)?;
            }
            machine.set_register(A0, M::REG::from_u8(if is_refused { 3 } else { 0 }));
        } else if number == LOADER[1] {
            let version = machine.version();
            machine.set_register(A0, M::REG::from_u32(version));
        } else if number == LOADER[2] || number == LOADER[3] {
            self.pauses += 1;
            if self.pauses <= PAUSES_MAX {
                if number == LOADER[2] {
                    return Err(Error::Pause);
                }
                self.pause.interrupt();
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Result of a run.
#[derive(Clone)]
pub struct Run {
    /// `Exit(0)`, or the name of ckb-vm's error variant.
    pub outcome: String,
    /// Cycles without loading.
    pub cycles: u64,
    /// ceil(loaded bytes / 4), 0 if loading failed.
    pub load_cycles: u64,
    pub debug: Vec<String>,
    /// All registers.
    pub registers: [u64; 32],
    /// All of memory.
    pub memory: Memory,
    /// Processor time of the run itself, without loading.
    pub time: Duration,
}

/// Guest memory after a run: its touched frames; the others are zero. Most programs touch few frames, and
/// copying all of memory would take longer than running them.
#[derive(Clone)]
pub struct Memory(Vec<Option<Box<[u8]>>>);

static ZERO_FRAME: [u8; MEMORY_FRAMESIZE] = [0; MEMORY_FRAMESIZE];

impl Memory {
    fn of(core: &AsmCoreMachine) -> Self {
        let frames = core.frames.iter().zip(core.memory.chunks_exact(MEMORY_FRAMESIZE));
        Self(frames.map(|(touched, frame)| (*touched != 0).then(|| frame.into())).collect())
    }

    /// Frame number `index`.
    #[must_use]
    pub fn frame(&self, index: usize) -> &[u8] {
        self.0.get(index).and_then(Option::as_deref).unwrap_or(&ZERO_FRAME)
    }

    /// The first difference to `other`, a function that returns frames by number: the aligned address, and
    /// the eight bytes there on both sides.
    #[must_use]
    pub fn difference<'a>(&self, other: impl Fn(usize) -> &'a [u8]) -> Option<(usize, [u8; 8], [u8; 8])> {
        (0..self.0.len()).find_map(|index| {
            let (own, other) = (self.frame(index), other(index));
            if own == other {
                return None;
            }
            let at = own.iter().zip(other).position(|(left, right)| left != right)? & !7;
            let eight = |bytes: &[u8]| bytes[at..].first_chunk().copied().unwrap_or_default();
            Some((index * MEMORY_FRAMESIZE + at, eight(own), eight(other)))
        })
    }
}

/// The debug system call, and what scripts print by it.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<Vec<String>>>);

impl<M: SupportMachine> Syscalls<M> for Lines {
    fn initialize(&mut self, _machine: &mut M) -> Result<(), Error> {
        Ok(())
    }

    fn ecall(&mut self, machine: &mut M) -> Result<bool, Error> {
        if machine.registers()[A7].to_u64() != 2177 {
            return Ok(false);
        }
        let address = machine.registers()[A0].clone();
        let text = load_c_string_byte_by_byte(machine.memory_mut(), &address)?;
        machine.add_cycles_no_checking(text.len().div_ceil(4) as u64)?;
        let text = String::from_utf8(text.into()).map_err(|error| Error::External(error.to_string()))?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Ok(true)
    }
}

/// Loads and runs `case` on the stock machine.
#[must_use]
pub fn run(case: &Case) -> Run {
    run_on::<AsmMachine>(case)
}

/// Loads and runs `case` on any machine for ckb-script, as its scheduler would.
#[must_use]
pub fn run_on<M>(case: &Case) -> Run
where
    M: DefaultMachineRunner,
    M::Inner: AsmCoreMachineRevealer + SupportMachine,
{
    let lines = Lines::default();
    let version = case.options.vm_version;
    let core = <M::Inner as SupportMachine>::new(case.options.isa.0, version, case.cycles_max);
    let mut builder = DefaultMachineBuilder::new(core)
        .instruction_cycle_func(Box::new(estimate_cycles))
        .syscall(Box::new(lines.clone()));
    let pause = Pause::new();
    if let Some(code) = &case.code {
        builder = builder.syscall(Box::new(Loader { code: code.clone(), pauses: 0, pause: pause.clone() }));
    }
    let mut machine = M::new(builder.build());
    machine.machine_mut().set_pause(pause);
    let loaded = machine.load_program(&case.elf, case.args.iter().cloned().map(Ok));
    let load_cycles = loaded.as_ref().map_or(0, |bytes| bytes.div_ceil(4));
    let (ended, time) = timed(|| loaded.and_then(|_| run_through_pauses(&mut machine)));
    let outcome = match &ended {
        Ok(code) => format!("Exit({code})"),
        Err(error) => variant_name(error),
    };
    let cycles = machine.machine().cycles();
    let core = (*machine.machine_mut().inner_mut()).as_ref();
    let mut registers = [0; 32];
    registers.copy_from_slice(&core.registers[..32]);
    let memory = Memory::of(core);
    let debug = std::mem::take(&mut *lines.0.lock().unwrap_or_else(PoisonError::into_inner));
    Run { outcome, cycles, load_cycles, debug, registers, memory, time }
}

/// Resumes the machine after each pause.
fn run_through_pauses<M: DefaultMachineRunner>(machine: &mut M) -> Result<i8, Error> {
    loop {
        match machine.run() {
            Err(Error::Pause) => {}
            ended => return ended,
        }
    }
}

/// The variant's name, from the start of its debug format.
fn variant_name(error: &Error) -> String {
    format!("{error:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}
