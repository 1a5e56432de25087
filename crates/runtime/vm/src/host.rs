//! The host side of native code: entering it, serving its requests, and handling its end or wait.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicU8, Ordering},
    thread,
};

use antares_abi::{BailoutReason, NAMES_TARGET, State};
use ckb_vm::{
    CoreMachine, DefaultMachine, Error, SupportMachine,
    machine::VERSION2,
    registers::{A0, A7, SP},
};

use crate::{
    bailout::Bailout,
    code::{Code, call},
    enter,
    hidden::{HostState, host_of},
    interpreter::check_next_trace,
    limits::SLICE_CYCLES,
    marks::Mark,
    memory::{Core, state_of},
    sampler::Sampled,
    signals::{self, Active},
    stack::NativeStack,
    walk::{self, Walk},
};

/// Bytes of an ecall instruction: the interpreter's pc is after it while a syscall runs.
const ECALL_BYTES: u64 = 4;

/// Number of the `exec` syscall. It loads another program into the machine (VM version 1), or requests a
/// machine with one (version 2).
const EXEC: u64 = 2043;
/// Number of the `spawn` syscall, which creates another VM.
const SPAWN: u64 = 2601;

/// Return value for the trampolines in [`enter`]: 0 resumes native code.
const CONTINUE: u64 = 0;
/// Return value for the trampolines: any other number ends native code or makes it wait.
const BAIL_OUT: u64 = 1;

/// Where native code starts or resumes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// At a thunk of [`Code`].
    Thunk(*const u8),
    /// Where it waits.
    Waiting,
}

/// One stay in native code, from entry to bailout, exit or wait. The host's part of the machine points to it.
struct Stay<'a> {
    vm: &'a mut DefaultMachine<Core>,
    code: &'a mut dyn Code,
    /// Cycles of the machine at the start of the stay.
    cycles: u64,
    /// Cycles that the stay may use.
    budget: i64,
    /// Cycles of the budget that native code has not been granted yet.
    reserve: i64,
    /// The machine is to pause if no more cycles than these are left.
    pause_left: i64,
    /// How the host ended the stay: by a result, or by a panic, since native frames cannot be unwound.
    ended: Option<thread::Result<Attempted>>,
    /// The profile of the stay, the host's part with the native stack pointer, and the end of the native
    /// stack.
    sampled: Option<&'a mut Sampled>,
    stack: (*const HostState, usize),
}

/// Why native code calls the host.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It used up its granted cycles.
    Meter,
    /// It is about to make a system call.
    Ecall,
    /// It has made the system call with this number.
    Syscall(u64),
}

#[derive(Debug)]
pub(crate) enum Attempted {
    /// The script exited; pc, cycles and the argument registers equal those of the interpreter.
    Exited,
    /// A syscall failed; pc, cycles and the argument registers equal those of the interpreter.
    Failed(Error),
    /// A syscall stopped the VM; registers, pc and cycles equal those of the interpreter. Native code waits.
    Yielded,
    /// Native code waits; pc and registers are stale, cycles are correct.
    Paused,
    /// A syscall loaded another program into the machine, which is at its beginning.
    Replaced,
    /// Native code is complete; registers, pc and cycles equal those of the interpreter.
    Done,
    /// Native code may not resume, but registers, pc and cycles equal those of the interpreter. It does not
    /// know, or will not know, which pages are executable, and might write to them unnoticed.
    Outdated,
    /// Native code bailed out; registers, pc and cycles are invalid.
    Bailout(Bailout),
}

/// Runs native code on `vm`. It pauses at the first possible location after the machine's cycles reach
/// `pause_at`. `sampled` receives all cycles, except after a bailout.
pub(crate) fn attempt(
    vm: &mut DefaultMachine<Core>,
    stack: &NativeStack,
    code: &mut dyn Code,
    start: Start,
    pause_at: u64,
    sampled: Option<&mut Sampled>,
) -> Attempted {
    vm.set_running(true);
    let base = vm.memory().base();
    let cycles = vm.cycles();
    let budget = i64::try_from(vm.max_cycles().saturating_sub(cycles)).unwrap_or(i64::MAX);
    let until_pause = i64::try_from(pause_at.saturating_sub(cycles)).unwrap_or(i64::MAX);
    let pause_left = budget.saturating_sub(until_pause);
    let active = Active { base, texts: code.texts().to_vec(), stack_guard: stack.guard() };
    debug_assert!(code.is_sealed(vm.inner_mut()), "executable pages can be written");
    if let Start::Thunk(_) = start {
        // SAFETY: `base` comes from a mapped core, whose state page is writable and otherwise unused.
        unsafe { state_of(base).write(fresh_state(vm)) };
        // SAFETY: as above, for the host's part. No native code waits on the stack any more.
        unsafe { (*host_of(base)).marks.clear() };
    }
    // SAFETY: as above.
    let ends = (unsafe { host_of(base) }.cast_const(), stack.top() as usize);
    let mut stay =
        Stay { vm, code, cycles, budget, reserve: 0, pause_left, ended: None, sampled, stack: ends };
    // SAFETY: as above; no native code runs that would use the state at the same time.
    let state = unsafe { &mut *state_of(base) };
    state.registers[A0] = stay.vm.registers()[A0];
    stay.grant(state, budget);
    state.bailout_reason = 0;
    // SAFETY: `base` comes from a mapped core, and this is the only use of its host's part.
    unsafe { (*host_of(base)).context = (&raw mut stay) as u64 };
    signals::with_active(&active, || match start {
        // SAFETY: the state was filled in; the thunk comes from a library that `code` keeps loaded; the stack
        // is mapped, exclusive (machines are used by one thread at a time) and its top is aligned.
        Start::Thunk(thunk) => unsafe { enter::enter(base, thunk, stack.top()) },
        // SAFETY: the caller guarantees that native code waits on this stack.
        Start::Waiting => unsafe { enter::resume(base) },
    });
    // SAFETY: native code has ended or waits, so this is the only use of the state.
    let state = unsafe { &*state_of(base) };
    stay.end(state)
}

/// The initial state for a start at a thunk.
fn fresh_state(vm: &DefaultMachine<Core>) -> State {
    State {
        registers: *vm.memory().guest_registers(),
        pc: *vm.pc(),
        cycles_left: 0,
        bailout_reason: 0,
        is_complete: 0,
    }
}

///
/// # Safety
/// `base` was passed to native code by [`attempt`], and native code waits for this call to return.
unsafe fn parts<'a>(base: *mut u8) -> (&'a mut State, &'a mut Stay<'a>) {
    let state = state_of(base);
    // SAFETY: `attempt` stored the address of its stay, which lives in its frame until native code ends;
    // native code cannot reach that field. There is no other reference to the state or the stay while native
    // code waits.
    unsafe { (&mut *state, &mut *((*host_of(base)).context as *mut Stay<'a>)) }
}

/// Handles an ecall of native code, on the host stack ([`enter::ecall`] switches).
///
/// # Safety
/// As [`parts`].
pub(crate) unsafe extern "C" fn ecall(base: *mut u8) -> u64 {
    // SAFETY: passed on.
    let (state, stay) = unsafe { parts(base) };
    match catch_unwind(AssertUnwindSafe(|| stay.ecall(state))).transpose() {
        None => CONTINUE,
        ended => stay.bail_out(state, BailoutReason::Ecall, ended),
    }
}

/// Finds native code for an address that a library does not know, or bails out to that address.
///
/// # Safety
/// As [`parts`].
pub(crate) unsafe extern "C" fn resolve(base: *mut u8, target: u64) -> u64 {
    // SAFETY: passed on.
    let (state, stay) = unsafe { parts(base) };
    if let Some(thunk) = stay.code.thunk(target) {
        return thunk as u64;
    }
    state.pc = target;
    state.is_complete = if stay.may_go_on_elsewhere() { 1 } else { NAMES_TARGET.into() };
    stay.bail_out(state, BailoutReason::UnknownTarget, None);
    CONTINUE
}

/// Numbers of the registers that a call preserves.
const CALLEE_SAVED: [usize; 6] = [3, 5, 12, 13, 14, 15];

/// Marks the calling native frame, for a return to this guest pc with this `sp`.
///
/// # Safety
/// As [`parts`].
pub(crate) unsafe extern "C" fn mark(base: *mut u8, pc: u64, sp: u64) {
    // SAFETY: `base` is that of a mapped core, and nothing else uses the host's part while native code waits.
    let host = unsafe { &mut *host_of(base) };
    let stack_pointer = host.native_stack_pointer;
    // SAFETY: `enter::mark` just stored the stack pointer, which points to a return address.
    let back = unsafe { (stack_pointer as *const u64).read() };
    host.marks.add(Mark {
        pc,
        sp,
        stack_pointer,
        back,
        kept: CALLEE_SAVED.map(|register| host.saved[register]),
    });
}

/// Removes the marks of the calling native frame.
///
/// # Safety
/// As [`parts`].
pub(crate) unsafe extern "C" fn unmark(base: *mut u8) {
    // SAFETY: as in `mark`.
    let host = unsafe { &mut *host_of(base) };
    host.marks.remove(host.native_stack_pointer);
}

/// Prepares the jump to the frame that is marked with `target` and the guest's `sp`, or bails out.
///
/// # Safety
/// As [`parts`].
pub(crate) unsafe extern "C" fn far_jump(base: *mut u8, target: u64) -> u64 {
    // SAFETY: passed on.
    let (state, stay) = unsafe { parts(base) };
    let cycles_left = state.cycles_left.saturating_add(stay.reserve);
    // The jump may be the only poll in a loop.
    if cycles_left < 0 {
        return stay.bail_out(state, BailoutReason::OutOfCycles, None);
    }
    // SAFETY: as in `mark`; the stay is a separate object.
    let host = unsafe { &mut *host_of(base) };
    let mark = host.marks.unwind(target, state.registers[SP]).filter(|_| !stay.is_pause_wanted());
    let Some(mark) = mark else {
        state.is_complete = 0;
        return stay.bail_out(state, BailoutReason::UnknownTarget, None);
    };
    if state.cycles_left < 0 {
        stay.grant(state, cycles_left);
    }
    for (register, value) in CALLEE_SAVED.into_iter().zip(mark.kept) {
        host.saved[register] = value;
    }
    host.saved[0] = mark.back;
    // The stack pointer after the return of that call.
    host.native_stack_pointer = mark.stack_pointer + size_of::<u64>() as u64;
    CONTINUE
}

/// Grants more cycles, unless none are left or a pause is requested.
///
/// # Safety
/// As [`parts`].
pub(crate) unsafe extern "C" fn meter(base: *mut u8) -> u64 {
    // SAFETY: passed on.
    let (state, stay) = unsafe { parts(base) };
    let cycles_left = state.cycles_left.saturating_add(stay.reserve);
    if cycles_left < 0 {
        return stay.bail_out(state, BailoutReason::OutOfCycles, None);
    }
    stay.sample(state, cycles_left, Event::Meter);
    if cycles_left <= stay.pause_left || stay.is_pause_wanted() {
        stay.vm.pause().free();
        return stay.bail_out(state, BailoutReason::Ecall, Some(Ok(Attempted::Paused)));
    }
    stay.grant(state, cycles_left);
    CONTINUE
}

/// Finds the active guest functions at `event`.
fn find_frames(
    state: &State,
    code: &dyn Code,
    (host, stack_top): (*const HostState, usize),
    event: Event,
    walk: &mut Walk,
) {
    // SAFETY: `host` is that of the core whose native code waits.
    let stack_pointer = usize::try_from(unsafe { (*host).native_stack_pointer }).unwrap_or(0);
    // SAFETY: native code waits on this stack, whose end is `stack_top`, and its stack pointer is stored.
    let back = unsafe { walk.up(code, stack_pointer, stack_top) };
    let pc = match event {
        Event::Meter => walk::marked(code, back),
        Event::Ecall | Event::Syscall(_) => Some(state.pc),
    };
    if let Some(pc) = pc {
        walk.set_first(pc);
    }
}

/// Pauses after a system call, which may have requested it, under the interpreter's condition: the cycle
/// limit must allow the next trace.
fn pause_after_call(vm: &mut DefaultMachine<Core>) -> Attempted {
    check_next_trace(vm).map_or_else(Attempted::Failed, |()| {
        vm.pause().free();
        Attempted::Paused
    })
}

impl Stay<'_> {
    /// Lets ckb-vm handle the ecall. `None` resumes the script.
    fn ecall(&mut self, state: &mut State) -> Option<Attempted> {
        self.commit(state);
        if self.vm.cycles() > self.vm.max_cycles() {
            // The interpreter refuses the ecall; generated code should already have done so.
            return Some(Attempted::Failed(Error::CyclesExceeded));
        }
        let number = state.registers[A7];
        self.sample(state, self.cycles_left(), Event::Ecall);
        if matches!(number, EXEC | SPAWN) {
            self.sample_caller(state);
        }
        self.vm.update_pc(state.pc.wrapping_add(ECALL_BYTES));
        self.vm.commit_pc();
        if number == EXEC && self.vm.version() < VERSION2 && !self.vm.inner_mut().protected().is_empty() {
            // It may load another program over pages that the host cannot write either.
            return Some(Attempted::Outdated);
        }
        let result = call(self.vm, self.code);
        self.sample(state, self.cycles_left(), Event::Syscall(number));
        match result {
            Ok(_) if !self.vm.running() => Some(Attempted::Exited),
            Ok(_) if self.vm.inner_mut().was_reset() => Some(Attempted::Replaced),
            Ok(false) => Some(Attempted::Outdated),
            Ok(true) => {
                debug_assert!(self.code.is_sealed(self.vm.inner_mut()), "executable pages can be written");
                if let Some(sampled) = &mut self.sampled {
                    // The script resumes without the requested program.
                    sampled.sampler.lineage().request_program(None);
                }
                state.registers[A0] = self.vm.registers()[A0];
                self.grant(state, self.cycles_left());
                if self.is_pause_wanted() { Some(pause_after_call(self.vm)) } else { None }
            }
            Err(Error::Yield) if state.is_complete != 0 => Some(Attempted::Yielded),
            Err(error) => Some(Attempted::Failed(error)),
        }
    }

    /// Whether the interpreter may resume from a complete state.
    fn may_go_on_elsewhere(&self) -> bool {
        self.vm.version() >= VERSION2
    }

    /// Remaining cycles of the stay, computed from the machine's cycles.
    fn cycles_left(&self) -> i64 {
        // A processed syscall is within the limit. No script can reach a limit beyond i64.
        let used = i64::try_from(self.vm.cycles().saturating_sub(self.cycles)).unwrap_or(i64::MAX);
        self.budget.saturating_sub(used)
    }

    /// Reports used cycles to the profile, with `cycles_left` remaining, and the location of native code if a
    /// sample is due.
    fn sample(&mut self, state: &State, cycles_left: i64, event: Event) {
        let Some(sampled) = &mut self.sampled else { return };
        let used = self.budget.saturating_sub(cycles_left).cast_unsigned();
        let is_due = sampled.sampler.advance(used.saturating_sub(sampled.seen));
        sampled.seen = used;
        if !is_due {
            return;
        }
        find_frames(state, self.code, self.stack, event, &mut sampled.walk);
        let syscall = match event {
            Event::Syscall(number) => Some(number),
            Event::Meter | Event::Ecall => None,
        };
        sampled.sampler.sample(sampled.root, sampled.walk.frames(), &sampled.programs, syscall);
    }

    /// Reports to the profile which call stack requests another program: that program's stacks go on top of
    /// it.
    fn sample_caller(&mut self, state: &State) {
        let Some(Sampled { sampler, root, programs, walk, .. }) = self.sampled.as_deref_mut() else {
            return;
        };
        find_frames(state, self.code, self.stack, Event::Ecall, walk);
        let site = sampler.context(*root, walk.frames(), programs);
        sampler.lineage().request_program(Some(site));
    }

    /// Grants native code a part of `cycles_left`.
    fn grant(&mut self, state: &mut State, cycles_left: i64) {
        let wanted = self.sampled.as_ref().map_or(SLICE_CYCLES, |sampled| sampled.sampler.distance());
        let until_pause = cycles_left.saturating_sub(self.pause_left).max(0);
        state.cycles_left = cycles_left.min(SLICE_CYCLES).min(wanted).min(until_pause);
        self.reserve = cycles_left - state.cycles_left;
    }

    /// Copies registers and cycles to the machine.
    fn commit(&mut self, state: &State) {
        let cycles_left = state.cycles_left.saturating_add(self.reserve);
        let used = self.budget.saturating_sub(cycles_left).cast_unsigned();
        self.vm.inner_mut().set_guest_registers(&state.registers);
        self.vm.set_cycles(self.cycles.saturating_add(used));
    }

    fn is_pause_wanted(&self) -> bool {
        // SAFETY: the pause flag is an atomic byte that lives as long as the pause, which the machine holds.
        let byte = unsafe { AtomicU8::from_ptr(self.vm.pause().get_raw_ptr()) };
        byte.load(Ordering::Relaxed) != 0
    }

    fn bail_out(
        &mut self,
        state: &mut State,
        reason: BailoutReason,
        ended: Option<thread::Result<Attempted>>,
    ) -> u64 {
        state.bailout_reason = reason as u64;
        self.ended = ended;
        BAIL_OUT
    }

    /// The result of the stay, after native code ended or waits.
    fn end(mut self, state: &State) -> Attempted {
        match self.ended.take() {
            Some(Err(payload)) => resume_unwind(payload),
            Some(Ok(Attempted::Outdated)) if state.is_complete != 1 => {
                Attempted::Bailout(BailoutReason::Ecall.into())
            }
            Some(Ok(ended)) => {
                if let Attempted::Paused = ended {
                    self.commit(state);
                }
                ended
            }
            None => {
                let reason =
                    BailoutReason::from_repr(state.bailout_reason).unwrap_or(BailoutReason::Unsupported);
                let may_go_on = matches!(reason, BailoutReason::Returned | BailoutReason::UnknownTarget);
                if !may_go_on || state.is_complete != 1 || !self.may_go_on_elsewhere() {
                    return Attempted::Bailout(Bailout { reason, ..Bailout::of(state) });
                }
                self.commit(state);
                if self.vm.cycles() > self.vm.max_cycles() {
                    return Attempted::Bailout(BailoutReason::OutOfCycles.into());
                }
                if let Some(sampled) = self.sampled.take() {
                    // The meter handled the sample points in between; the remaining cycles count for the next
                    // sample.
                    let used = self.vm.cycles().saturating_sub(self.cycles);
                    sampled.sampler.advance(used.saturating_sub(sampled.seen));
                }
                self.vm.update_pc(state.pc);
                self.vm.commit_pc();
                Attempted::Done
            }
        }
    }
}

#[cfg(test)]
mod tests;
