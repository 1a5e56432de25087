//! gdb's breakpoints, watchpoints and catchpoints.

use gdbstub::target::{
    TargetResult,
    ext::{
        breakpoints::{
            Breakpoints, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint,
            SwBreakpointOps, WatchKind,
        },
        catch_syscalls::{CatchSyscalls, SyscallNumbers},
    },
};

use super::Session;
use crate::session::{Caught, WatchRange};

impl Breakpoints for Session {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Session {
    fn add_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        self.debuggee.stops.add_breakpoint(address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(self.debuggee.stops.remove_breakpoint(address))
    }
}

impl HwBreakpoint for Session {
    fn add_hw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.add_sw_breakpoint(address, kind)
    }

    fn remove_hw_breakpoint(&mut self, address: u64, kind: usize) -> TargetResult<bool, Self> {
        self.remove_sw_breakpoint(address, kind)
    }
}

impl HwWatchpoint for Session {
    fn add_hw_watchpoint(&mut self, address: u64, bytes: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        self.debuggee.stops.add_watch(WatchRange { address, bytes, access: kind });
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        address: u64,
        bytes: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        Ok(self.debuggee.stops.remove_watch(&WatchRange { address, bytes, access: kind }))
    }
}

impl CatchSyscalls for Session {
    fn enable_catch_syscalls(&mut self, filter: Option<SyscallNumbers<'_, u64>>) -> TargetResult<(), Self> {
        self.debuggee.stops.caught = filter.map_or(Caught::All, |numbers| Caught::Numbers(numbers.collect()));
        self.by_monitor = false;
        Ok(())
    }

    fn disable_catch_syscalls(&mut self) -> TargetResult<(), Self> {
        self.debuggee.stops.caught = Caught::None;
        Ok(())
    }
}
