//! What gdb's command `monitor` does here.

use gdbstub::{
    outputln,
    target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd},
};

use super::Session;
use crate::DebugError;

const HELP: &str = "\
cycles             cycles of all VMs so far
break-at-cycles N  stop once, before the first instruction behind N cycles
vms                the VMs, and which of them runs
help               this";

impl MonitorCmd for Session {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), DebugError> {
        let text = String::from_utf8_lossy(command);
        let mut words = text.split_whitespace();
        match (words.next(), words.next()) {
            (Some("cycles"), None) => outputln!(out, "{}", self.debuggee.cycles()),
            (Some("break-at-cycles"), Some(cycles)) => match cycles.parse::<u64>() {
                Ok(cycles) if cycles > self.debuggee.cycles() => {
                    self.debuggee.stops.stop_at_cycles(cycles);
                    outputln!(out, "the next continue stops behind {cycles} cycles, if it gets there");
                }
                Ok(_) => outputln!(out, "that is behind us: {} cycles so far", self.debuggee.cycles()),
                Err(_) => outputln!(out, "how many cycles? {cycles} is no number"),
            },
            (Some("vms"), None) => {
                let runs = self.debuggee.vm();
                let vms: Vec<_> = self.debuggee.vms().collect();
                for vm in vms {
                    let pc = self.debuggee.registers(vm).map_or(0, |registers| registers.pc);
                    let what = if vm == runs { "runs" } else { "waits" };
                    outputln!(out, "VM {vm} {what} at {pc:#x}");
                }
            }
            (None | Some("help"), None) => outputln!(out, "{HELP}"),
            _ => outputln!(out, "there is no such command; there is:\n{HELP}"),
        }
        Ok(())
    }
}
