//! One replayed VM: its machine, its system calls, and its last image.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use antares_verifier::Cells;
use antares_vm::{Paused, Steppable, Stepper, touched};
use ckb_script::types::{Message, SgData, VmContext, VmId};
use ckb_vm::{
    Bytes, CoreMachine as _, DefaultMachineBuilder, Error, Memory as _, SupportMachine,
    ckb_vm_definitions::instructions::{Instruction, OP_ECALL},
    cost_model::estimate_cycles,
    instructions::extract_opcode,
    machine::asm::AsmCoreMachine,
    registers::{A0, A7},
    snapshot2::Snapshot2Context,
};

use super::{
    image::{Image, Registers},
    limits::TRACE_CYCLES,
    loaded::{LOAD_AS_CODE, LoadedCode},
    printed::{Calls, calls},
    stops::{Stop, Stops, WatchRange},
    tape::{End, Slice},
    undo::Undo,
};

/// How far a VM ran.
#[derive(Debug)]
pub(crate) enum Went {
    /// To its bound, or to the end of its slice.
    Reached,
    /// To a stop.
    Met(Stop),
    /// To the failing instruction.
    Failed,
    /// The VM diverged from the recording.
    Lost(Error),
}

/// One VM.
pub(crate) struct Lane {
    machine: Steppable,
    stepper: Stepper,
    base: Arc<AtomicU64>,
    messages: Arc<Mutex<Vec<Message>>>,
    vm: VmId,
    group: SgData<Cells>,
    loaded: LoadedCode,
    /// Generation of the stops for which its code was decoded.
    generation: u64,
    /// Its last image, if it has not changed since.
    image: Option<Arc<Image>>,
    is_changed: bool,
    /// Its current program.
    pub(crate) program: usize,
    /// Cycles before its last single step.
    pub(crate) before: u64,
}

impl Lane {
    pub(crate) fn new(vm: VmId, group: &SgData<Cells>, with: &Calls) -> Self {
        let (base, messages) = (Arc::new(AtomicU64::new(0)), Arc::default());
        let context = VmContext {
            base_cycles: Arc::clone(&base),
            message_box: Arc::clone(&messages),
            snapshot2_context: Arc::new(Mutex::new(Snapshot2Context::new(group.clone()))),
        };
        let version = &group.sg_info.script_version;
        let core =
            <Box<AsmCoreMachine> as SupportMachine>::new(version.vm_isa(), version.vm_version(), u64::MAX);
        let builder = DefaultMachineBuilder::new(core).instruction_cycle_func(Box::new(estimate_cycles));
        let calls = calls(vm, group, &context, with).into_iter();
        let machine = calls.fold(builder, DefaultMachineBuilder::syscall).build();
        let stepper = Stepper::new(&machine);
        Self {
            machine,
            stepper,
            base,
            messages,
            vm,
            group: group.clone(),
            loaded: with.loaded.clone(),
            generation: 0,
            image: None,
            is_changed: true,
            program: 0,
            before: 0,
        }
    }

    /// Sets it to `image`.
    pub(crate) fn put(&mut self, image: &Arc<Image>) {
        image.put(&mut self.machine);
        self.stepper.forget(&mut self.machine);
        (self.image, self.is_changed) = (Some(image.clone()), false);
    }

    /// Its state.
    pub(crate) fn image(&mut self) -> Arc<Image> {
        match &self.image {
            Some(image) if !self.is_changed => image.clone(),
            _ => {
                let image = Arc::new(Image::of(&mut self.machine, self.image.as_deref()));
                (self.image, self.is_changed) = (Some(image.clone()), false);
                image
            }
        }
    }

    /// Starts a slice: sets the cycles, and applies the answer to a system call.
    pub(crate) fn begin(
        &mut self,
        slice: &Slice,
        changes: Option<(&[(u64, Bytes)], u64)>,
    ) -> Result<(), Error> {
        self.is_changed = true;
        self.machine.set_cycles(slice.cycles.0);
        self.machine.set_running(true);
        self.set_base(slice.base);
        if let Some((written, a0)) = changes {
            for (address, bytes) in written {
                self.machine.memory_mut().store_bytes(*address, bytes)?;
            }
            self.machine.set_register(A0, a0);
        }
        Ok(())
    }

    /// Sets the previous cycles of all VMs.
    pub(crate) fn set_base(&self, base: u64) {
        self.base.store(base, Ordering::Release);
    }

    pub(crate) fn cycles(&self) -> u64 {
        self.machine.cycles()
    }

    pub(crate) fn registers(&mut self) -> Registers {
        Registers::of(self.machine.inner_mut())
    }

    /// Reads readable bytes at `address`; returns their number.
    pub(crate) fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        let room = (self.machine.memory_mut().memory_size() as u64).saturating_sub(address);
        let bytes = usize::try_from(room).unwrap_or(usize::MAX).min(into.len());
        match self.machine.memory_mut().load_bytes(address, bytes as u64) {
            Ok(read) => {
                into[..bytes].copy_from_slice(&read);
                bytes
            }
            Err(_) => 0,
        }
    }

    /// Undo information of the next instruction, unless it is a system call or invalid.
    pub(crate) fn next_undo(&mut self) -> Option<Undo> {
        let instruction = self.stepper.instruction(&mut self.machine).ok()?;
        let touch = touched(instruction, &self.machine.inner_mut().registers);
        (!is_call(instruction)).then(|| Undo::of(&mut self.machine, touch, self.before))
    }

    /// Undoes the last instruction.
    pub(crate) fn undo(&mut self, undo: &Undo) {
        undo.undo(&mut self.machine);
        (self.before, self.is_changed) = (undo.before, true);
    }

    /// The next instruction's system call, if it is one.
    pub(crate) fn next_call(&mut self) -> Option<u64> {
        let instruction = self.stepper.instruction(&mut self.machine).ok()?;
        is_call(instruction).then(|| self.machine.registers()[A7])
    }

    /// Runs in `slice` to its end, or until its cycles are at least `to`. Stops at `stops` if requested, but
    /// not at the first instruction if `first`.
    pub(crate) fn run(
        &mut self,
        to: u64,
        slice: &Slice,
        stops: &Stops,
        (is_minded, first): (bool, &mut bool),
    ) -> Went {
        self.is_changed = true;
        if self.generation != stops.generation {
            self.stepper.forget(&mut self.machine);
            self.generation = stops.generation;
        }
        let is_careful = matches!(slice.end, End::Error(_));
        let careful = slice.cycles.1.saturating_sub(if is_careful { TRACE_CYCLES } else { 0 });
        let (fast_to, mut is_near) = (to.min(careful), false);
        while self.cycles() < to {
            let pc = *self.machine.pc();
            let instruction = self.stepper.instruction(&mut self.machine).ok();
            if is_minded
                && !std::mem::take(first)
                && let Some(met) = self.meets(pc, instruction, stops)
            {
                return Went::Met(met);
            }
            *first = false;
            let is_plain = instruction.is_some_and(|known| !is_call(known) && !stops.cuts(pc, known));
            if is_plain && !is_near && self.cycles() < fast_to {
                match self.stepper.run(&mut self.machine, fast_to, &|pc, known| stops.cuts(pc, known)) {
                    Ok(Paused::Address) => {}
                    Ok(Paused::Cycles) => is_near = true,
                    Err(error) => return Went::Lost(error),
                }
                continue;
            }
            match self.step(instruction, stops, is_minded) {
                Ok(Some(met)) => return Went::Met(met),
                Ok(None) if !self.machine.running() => return Went::Reached,
                Ok(None) => {}
                Err(Error::Yield) => {
                    self.messages.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    return Went::Reached;
                }
                Err(_) => return Went::Failed,
            }
        }
        Went::Reached
    }

    fn meets(&self, pc: u64, instruction: Option<Instruction>, stops: &Stops) -> Option<Stop> {
        if stops.is_out(pc) {
            return Some(Stop::Stepped);
        }
        if let Some(address) = stops.breakpoint(pc, instruction) {
            return Some(Stop::Breakpoint { address });
        }
        let number = self.machine.registers()[A7];
        let is_caught = instruction.is_some_and(is_call) && stops.catches(number);
        is_caught.then_some(Stop::Call(number))
    }

    /// Executes one instruction; returns the watch that it hits, or that it loaded code.
    fn step(
        &mut self,
        instruction: Option<Instruction>,
        stops: &Stops,
        is_minded: bool,
    ) -> Result<Option<Stop>, Error> {
        self.before = self.cycles();
        let registers = self.machine.inner_mut().registers;
        let is_call = instruction.is_some_and(is_call);
        if is_call && registers[A7] == LOAD_AS_CODE {
            self.stepper.step(&mut self.machine)?;
            let at = (self.vm, self.program, self.cycles());
            let is_loaded =
                self.machine.registers()[A0] == 0 && self.loaded.record(at, &registers, &self.group);
            let is_reported = is_minded && stops.program.is_some() && !stops.is_back;
            return Ok((is_loaded && is_reported).then_some(Stop::Program(self.program)));
        }
        let Some(known) = instruction.filter(|_| is_minded) else {
            return self.stepper.step(&mut self.machine).map(|()| None);
        };
        if !is_call {
            let hit = stops.hit(known, &registers).map(Stop::Watch);
            return self.stepper.step(&mut self.machine).map(|()| hit);
        }
        let watched: Vec<_> = stops.written().map(|watch| (*watch, self.bytes_of(watch))).collect();
        self.stepper.step(&mut self.machine)?;
        let hit = watched.into_iter().find(|(watch, old)| self.bytes_of(watch) != *old);
        Ok(hit.map(|(watch, _)| Stop::Watch(watch)))
    }

    fn bytes_of(&mut self, watch: &WatchRange) -> Option<Bytes> {
        self.machine.memory_mut().load_bytes(watch.address, watch.bytes).ok()
    }
}

fn is_call(instruction: Instruction) -> bool {
    extract_opcode(instruction) == OP_ECALL
}
