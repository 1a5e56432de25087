//! gdb's commands for running forwards and backwards.

use gdbstub::{
    common::{Signal, Tid},
    target::ext::base::{
        multithread::{
            MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
            MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps, MultiThreadSingleStep,
            MultiThreadSingleStepOps,
        },
        reverse_exec::{ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps},
    },
};

use super::{Session, vm_of};
use crate::session::{DebugError, Resume};

impl MultiThreadResume for Session {
    fn resume(&mut self) -> Result<(), DebugError> {
        self.going.get_or_insert(Resume::Continue);
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), DebugError> {
        self.going = None;
        Ok(())
    }

    /// VMs run one at a time, and gdb cannot select the next one, so all of them resume. Signals are not
    /// delivered, since scripts have no handlers.
    fn set_resume_action_continue(&mut self, _tid: Tid, _signal: Option<Signal>) -> Result<(), DebugError> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSchedulerLocking for Session {
    /// gdb wants the other threads stopped. They are while one steps, unless it waits for them.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), DebugError> {
        Ok(())
    }
}

impl MultiThreadSingleStep for Session {
    fn set_resume_action_step(&mut self, tid: Tid, _signal: Option<Signal>) -> Result<(), DebugError> {
        self.going = Some(Resume::Step(vm_of(tid)));
        Ok(())
    }
}

impl MultiThreadRangeStepping for Session {
    fn set_resume_action_range_step(&mut self, tid: Tid, start: u64, end: u64) -> Result<(), DebugError> {
        self.going = Some(Resume::StepRange(vm_of(tid), start, end));
        Ok(())
    }
}

impl ReverseCont<Tid> for Session {
    fn reverse_cont(&mut self) -> Result<(), DebugError> {
        self.going = Some(Resume::ContinueBack);
        Ok(())
    }
}

impl ReverseStep<Tid> for Session {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), DebugError> {
        self.going = Some(Resume::StepBack(vm_of(tid)));
        Ok(())
    }
}
