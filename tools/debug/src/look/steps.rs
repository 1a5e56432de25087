//! Steps by line: into what is called, over it, and out of it, forwards and backwards.

use antares_hosted::look::Far;
use antares_profile_view::Line;

use super::{Hears, Look, names::Caller};
use crate::{DebugError, Registers, Resume, Stop};

/// Lengths of what can be a call, two instructions that are executed as one among them, bytes.
const CALL_BYTES: [u64; 4] = [2, 4, 6, 8];
/// Registers: where a function returns to, and the end of the stack.
const RA: usize = 1;
const SP: usize = 2;

impl Look {
    /// On.
    pub(super) fn on(&mut self, far: Far, hears: Hears<'_>) -> Result<Stop, DebugError> {
        match far {
            Far::On => self.go(Resume::Continue, hears),
            Far::Instruction => self.go(Resume::Step(self.vm), hears),
            Far::Line => self.on_by_line(false, hears),
            Far::Over => self.on_by_line(true, hears),
            Far::Out => match self.caller() {
                Some(caller) => self.until(caller.pc, &|sp| sp >= caller.registers[SP], hears),
                None => self.go(Resume::Continue, hears),
            },
        }
    }

    /// Back.
    pub(super) fn back(&mut self, far: Far, hears: Hears<'_>) -> Result<Stop, DebugError> {
        match far {
            Far::On => self.go(Resume::ContinueBack, hears),
            Far::Instruction => self.go(Resume::StepBack(self.vm), hears),
            Far::Line => self.back_by_line(false, hears),
            Far::Over => self.back_by_line(true, hears),
            Far::Out => match self.caller() {
                Some(caller) => self.back_to_call(caller.pc, caller.registers[SP], hears),
                None => self.go(Resume::ContinueBack, hears),
            },
        }
    }

    fn registers(&mut self) -> Option<Registers> {
        self.debuggee.registers(self.vm)
    }

    fn line(&mut self) -> Option<Line> {
        let pc = self.pc();
        self.names(self.vm)?.line(pc)
    }

    fn caller(&mut self) -> Option<Caller> {
        let (vm, registers) = (self.vm, self.registers()?);
        self.caller_of(vm, registers.pc, &registers.general, true)
    }

    fn on_by_line(&mut self, is_over: bool, hears: Hears<'_>) -> Result<Stop, DebugError> {
        let begin = self.line();
        loop {
            let before = self.registers();
            let stop = self.go(Resume::Step(self.vm), hears)?;
            if stop != Stop::Stepped {
                return Ok(stop);
            }
            let (Some(before), Some(now)) = (before, self.registers()) else { return Ok(stop) };
            if is_over && is_call(&before, &now) {
                let sp = before.general[SP];
                let stop = self.until(now.general[RA], &|at| at >= sp, hears)?;
                if stop != Stop::Stepped {
                    return Ok(stop);
                }
            }
            if self.is_point() {
                return Ok(Stop::Breakpoint { address: self.pc() });
            }
            let line = self.line();
            if begin.is_none() || line.is_some() && line != begin {
                return Ok(Stop::Stepped);
            }
            if hears() {
                return Ok(Stop::Interrupted);
            }
        }
    }

    fn back_by_line(&mut self, is_over: bool, hears: Hears<'_>) -> Result<Stop, DebugError> {
        let begin = self.line();
        // The line that it goes to the beginning of.
        let mut aim = None;
        loop {
            let behind = self.registers();
            let stop = self.back_one(is_over, hears)?;
            if stop != Stop::Stepped {
                return Ok(stop);
            }
            let line = self.line();
            match &aim {
                // What has no line is gone through.
                None if line.is_some() && line != begin => aim = line,
                None if begin.is_none() => return Ok(stop),
                Some(_) if line != aim => return self.on_to(behind, hears),
                _ => {}
            }
            if self.is_point() {
                return Ok(Stop::Breakpoint { address: self.pc() });
            }
            if hears() {
                return Ok(Stop::Interrupted);
            }
        }
    }

    /// On by one instruction, or over the call that it is, to where the VM had these registers.
    fn on_to(&mut self, behind: Option<Registers>, hears: Hears<'_>) -> Result<Stop, DebugError> {
        let stop = self.go(Resume::Step(self.vm), hears)?;
        match behind {
            Some(behind) if stop == Stop::Stepped && self.pc() != behind.pc => {
                self.until(behind.pc, &|sp| sp >= behind.general[SP], hears)
            }
            _ => Ok(stop),
        }
    }

    /// Back by one instruction, or over a call of a function that has returned.
    fn back_one(&mut self, is_over: bool, hears: Hears<'_>) -> Result<Stop, DebugError> {
        let behind = self.registers();
        let stop = self.go(Resume::StepBack(self.vm), hears)?;
        let (Some(behind), Some(now)) = (behind, self.registers()) else { return Ok(stop) };
        match stop == Stop::Stepped && is_over && is_return(&now, &behind) {
            true => self.back_to_call(behind.pc, behind.general[SP], hears),
            false => Ok(stop),
        }
    }

    /// Back to the call that returns to this address with this end of the stack.
    fn back_to_call(&mut self, returns: u64, sp: u64, hears: Hears<'_>) -> Result<Stop, DebugError> {
        let calls: Vec<_> = CALL_BYTES.iter().map(|bytes| returns.wrapping_sub(*bytes)).collect();
        self.with_points(&calls, |look| {
            loop {
                let stop = look.go(Resume::ContinueBack, hears)?;
                let Stop::Breakpoint { address } = stop else { return Ok(stop) };
                let is_there = look.debuggee.vm() == look.vm
                    && look.registers().is_some_and(|registers| registers.general[SP] == sp);
                match calls.contains(&address) {
                    true if is_there => return Ok(Stop::Stepped),
                    true if !look.points.contains(&address) => {}
                    _ => return Ok(stop),
                }
            }
        })
    }

    /// On until the VM is at this address with an end of its stack that `is_it`.
    fn until(
        &mut self,
        address: u64,
        is_it: &dyn Fn(u64) -> bool,
        hears: Hears<'_>,
    ) -> Result<Stop, DebugError> {
        self.with_points(&[address], |look| {
            loop {
                let stop = look.go(Resume::Continue, hears)?;
                let Stop::Breakpoint { address: at } = stop else { return Ok(stop) };
                let is_there = look.debuggee.vm() == look.vm
                    && look.registers().is_some_and(|registers| is_it(registers.general[SP]));
                match at == address {
                    true if is_there => return Ok(Stop::Stepped),
                    true if !look.points.contains(&at) => {}
                    _ => return Ok(stop),
                }
            }
        })
    }

    /// Does `what` with breakpoints beside those that somebody has set.
    fn with_points(
        &mut self,
        addresses: &[u64],
        what: impl FnOnce(&mut Self) -> Result<Stop, DebugError>,
    ) -> Result<Stop, DebugError> {
        addresses.iter().for_each(|address| self.debuggee.stops.add_breakpoint(*address));
        let stop = what(self);
        for address in addresses {
            if !self.points.contains(address) {
                self.debuggee.stops.remove_breakpoint(*address);
            }
        }
        stop
    }

    fn is_point(&mut self) -> bool {
        let pc = self.pc();
        self.points.contains(&pc)
    }
}

/// Whether the instruction between the two moments called a function.
fn is_call(before: &Registers, behind: &Registers) -> bool {
    let length = behind.general[RA].wrapping_sub(before.pc);
    CALL_BYTES.contains(&length) && behind.pc != behind.general[RA]
}

/// Whether the instruction between the two moments returned from a function.
fn is_return(before: &Registers, behind: &Registers) -> bool {
    let length = behind.pc.wrapping_sub(before.pc);
    before.general[RA] == behind.pc && !CALL_BYTES.contains(&length)
}
