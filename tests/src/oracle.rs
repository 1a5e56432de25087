//! The oracle: ckb-vm's stock `AsmMachine` with the two syscalls of this project, written apart from crate `vm`.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use antares_abi::{CompileOptions, GUEST_MEMORY_BYTES};
use bytes::Bytes;
use ckb_vm::{
    CoreMachine, DefaultMachineBuilder, DefaultMachineRunner, Error, MEMORY_FRAMESIZE, Memory as _, Register,
    SupportMachine, Syscalls,
    cost_model::estimate_cycles,
    machine::asm::{AsmCoreMachine, AsmCoreMachineRevealer, AsmMachine},
    registers::{A0, A7},
};

use crate::stopwatch::timed;

/// What is run.
#[derive(Clone, Debug)]
pub struct Case {
    /// The ELF.
    pub elf: Bytes,
    /// The arguments.
    pub args: Vec<Bytes>,
    /// VM version and ISA.
    pub options: CompileOptions,
    /// Cycle limit.
    pub cycles_max: u64,
}

/// How it ended and what it left behind.
#[derive(Clone)]
pub struct Run {
    /// `Exit(0)`, or the name of ckb-vm's error variant.
    pub outcome: String,
    /// Cycles without loading.
    pub cycles: u64,
    /// ceil(loaded bytes / 4), 0 where loading failed.
    pub load_cycles: u64,
    /// Debug output.
    pub debug: Vec<String>,
    /// All registers.
    pub registers: [u64; 32],
    /// All of memory.
    pub memory: Memory,
    /// Processor time of the run itself, without loading.
    pub time: Duration,
}

/// Guest memory as a run left it: its frames, without those that were never touched and so are zero. Most programs touch
/// few, and copying all of memory would take longer than running them.
#[derive(Clone)]
pub struct Memory(Vec<Option<Box<[u8]>>>);

/// A frame that was never touched.
static ZERO_FRAME: [u8; MEMORY_FRAMESIZE] = [0; MEMORY_FRAMESIZE];

impl Memory {
    fn of(core: &AsmCoreMachine) -> Self {
        let frames = core.frames.iter().zip(core.memory.chunks_exact(MEMORY_FRAMESIZE));
        Self(frames.map(|(touched, frame)| (*touched != 0).then(|| frame.into())).collect())
    }

    /// The aligned address around the first byte that differs from `other`, and the eight bytes there of both.
    #[must_use]
    pub fn difference(&self, other: &[u8]) -> Option<(usize, [u8; 8], [u8; 8])> {
        let mut frames = self.0.iter().zip(other.chunks_exact(MEMORY_FRAMESIZE)).enumerate();
        frames.find_map(|(index, (own, other))| {
            let own = own.as_deref().unwrap_or(&ZERO_FRAME);
            if own == other {
                return None;
            }
            let at = own.iter().zip(other).position(|(left, right)| left != right)? & !7;
            let eight = |bytes: &[u8]| bytes[at..].first_chunk().copied().unwrap_or_default();
            Some((index * MEMORY_FRAMESIZE + at, eight(own), eight(other)))
        })
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl<M: SupportMachine> Syscalls<M> for Lines {
    fn initialize(&mut self, _machine: &mut M) -> Result<(), Error> {
        Ok(())
    }

    fn ecall(&mut self, machine: &mut M) -> Result<bool, Error> {
        if machine.registers()[A7].to_u64() != 2177 {
            return Ok(false);
        }
        let mut address = machine.registers()[A0].to_u64();
        let mut text = Vec::new();
        loop {
            let byte = machine.memory_mut().load8(&M::REG::from_u64(address))?.to_u8();
            if byte == 0 {
                break;
            }
            text.push(byte);
            address = address.checked_add(1).ok_or(Error::MemOutOfBound)?;
        }
        machine.add_cycles_no_checking(text.len().div_ceil(4) as u64)?;
        let text = String::from_utf8(text).map_err(|error| Error::External(error.to_string()))?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        Ok(true)
    }
}

/// Runs `case` from load to end.
#[must_use]
pub fn run(case: &Case) -> Run {
    let lines = Lines::default();
    let version = case.options.vm_version;
    let core = <Box<AsmCoreMachine> as AsmCoreMachineRevealer>::new(
        case.options.isa.0,
        version,
        case.cycles_max,
        GUEST_MEMORY_BYTES as usize,
    );
    let builder = DefaultMachineBuilder::new(core)
        .instruction_cycle_func(Box::new(estimate_cycles))
        .syscall(Box::new(lines.clone()));
    let mut machine = <AsmMachine as DefaultMachineRunner>::new(builder.build());
    let loaded = machine.load_program(&case.elf, case.args.iter().cloned().map(Ok));
    let load_cycles = loaded.as_ref().map_or(0, |bytes| bytes.div_ceil(4));
    let (ended, time) = timed(|| loaded.and_then(|_| machine.run()));
    let outcome = match &ended {
        Ok(code) => format!("Exit({code})"),
        Err(error) => variant_name(error),
    };
    let inner = machine.inner_mut();
    let mut registers = [0; 32];
    registers.copy_from_slice(inner.registers());
    let memory = Memory::of(inner);
    let cycles = inner.cycles();
    let debug = std::mem::take(&mut *lines.0.lock().unwrap_or_else(PoisonError::into_inner));
    Run { outcome, cycles, load_cycles, debug, registers, memory, time }
}

/// The variant's name: what its debug form starts with.
fn variant_name(error: &Error) -> String {
    format!("{error:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}
