//! A machine before and after ckb-script suspends its VM: when it is [parked](crate::parked), and with what.

use ckb_vm::Error;

use crate::{
    hidden::host_of,
    parked::{Aside, Parked},
    phase::{Phase, Waiting},
    runner::NativeMachine,
};

/// Number of the VM that runs first.
const ROOT: u64 = 0;
/// Maximum bytes of native stack of a parked VM.
const DEPTH_MAX: usize = 1 << 20;

impl NativeMachine {
    /// Restores a parked VM; called before ckb-script accesses the machine.
    pub(crate) fn come_back(&mut self) {
        match std::mem::replace(&mut self.aside, Aside::Here) {
            Aside::New if self.session.parking.is_open() => {
                let id = self.id();
                let (number, parked) = self.session.parking.come(id);
                self.number = number;
                if let Some(parked) = parked {
                    self.take_back(parked);
                }
            }
            Aside::Back(mut core, marked) => {
                core.show_changes(marked);
                *self.vm.machine.inner_mut() = *core;
            }
            hidden @ Aside::Hidden(_) => self.aside = hidden,
            Aside::New | Aside::Here => {}
        }
    }

    /// Prepares for the load of a program, which never replaces parked state.
    pub(crate) fn come_anew(&mut self) {
        assert!(!matches!(self.aside, Aside::Back(..)), "a program is loaded over a VM that came back");
        if self.session.parking.is_over() && self.id() == ROOT {
            self.session.parking.set_over(false);
            self.aside = Aside::New;
        }
        self.come_back();
    }

    /// Restores the dirty marks before the machine runs.
    pub(crate) fn show_changes(&mut self) {
        self.come_back();
        if let Aside::Hidden(marked) = std::mem::replace(&mut self.aside, Aside::Here) {
            self.vm.machine.inner_mut().show_changes(marked);
            self.session.parking.return_slots(1);
        }
    }

    /// Prepares for a snapshot. Returns whether the machine can be parked.
    pub(crate) fn hide_changes(&mut self) -> bool {
        if let Aside::Hidden(_) = self.aside {
            return true;
        }
        let waits = matches!(self.waiting, Some(Waiting::Syscall { .. }));
        let is_native = self.phase == Phase::Mixed && !self.has_run_alone && self.unknown.is_none();
        let stack_pointer = self.native_sp();
        let is_flat = self.stack.as_ref().is_some_and(|stack| stack.depth(stack_pointer) <= DEPTH_MAX);
        let can_stay = waits && is_native && is_flat && self.vm.machine.inner_mut().can_stay();
        // Queried now, before the machine changes.
        let id = self.id();
        if !can_stay || !self.session.parking.take_slot(id, self.number) {
            return false;
        }
        self.aside = Aside::Hidden(self.vm.machine.inner_mut().hide_changes());
        true
    }

    /// Parks the rest of a dropped machine, if `hide_changes` prepared it.
    pub(crate) fn park(&mut self) {
        let Aside::Hidden(marked) = std::mem::replace(&mut self.aside, Aside::Here) else { return };
        if let Some(interpreter) = self.interpreter.take() {
            // A new machine decodes its traces again.
            interpreter.store_traces(self.vm.machine.inner_mut());
        }
        let stack_pointer = self.native_sp();
        if let Some(stack) = &mut self.stack {
            stack.trim(stack_pointer);
        }
        let (Some(id), Some(core)) = (self.id, self.vm.machine.inner_mut().take_memory()) else {
            return self.session.parking.return_slots(1);
        };
        let parked = Parked {
            core,
            marked,
            loaded: self.loaded.take(),
            program: self.program.take(),
            own: self.own,
            interpreted: self.interpreted,
            programs: std::mem::take(&mut self.programs),
            stack: self.stack.take(),
            waiting: self.waiting.take(),
            stays: self.stays,
        };
        self.session.parking.park(id, self.number, parked);
    }

    /// After a run: once the first VM has exited or something failed, no VM resumes.
    pub(crate) fn end_parking(&mut self, result: &Result<i8, Error>) {
        let is_over = match result {
            Err(Error::Yield | Error::Pause) => false,
            Err(_) => true,
            Ok(_) => self.session.parking.is_open() && self.id() == ROOT,
        };
        if is_over {
            self.session.parking.set_over(true);
        }
    }

    /// The stack pointer of waiting native code.
    fn native_sp(&mut self) -> usize {
        // SAFETY: the core is mapped, and no native code runs.
        let host = unsafe { &*host_of(self.vm.machine.inner_mut().base()) };
        usize::try_from(host.native_stack_pointer).unwrap_or(0)
    }

    fn take_back(&mut self, parked: Parked) {
        let Parked { core, marked, loaded, program, own, interpreted, programs, stack, waiting, stays } =
            parked;
        (self.loaded, self.program, self.own, self.interpreted) = (loaded, program, own, interpreted);
        (self.programs, self.stack, self.waiting, self.stays) = (programs, stack, waiting, stays);
        (self.phase, self.has_unmarked, self.is_resumed) = (Phase::Mixed, true, false);
        self.aside = Aside::Back(Box::new(core), marked);
    }
}
