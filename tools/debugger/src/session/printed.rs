//! The VMs' system calls and debug output.

use std::sync::{Arc, mpsc::SyncSender};

use antares_verifier::Cells;
use ckb_script::{
    generate_ckb_syscalls,
    types::{DebugPrinter, SgData, VmContext, VmId},
};
use ckb_vm::{
    Error, Memory as _, SupportMachine, Syscalls,
    machine::asm::AsmCoreMachine,
    registers::{A0, A7},
};

use super::loaded::LoadedCode;

/// Number of the system call that prints.
const DEBUG_PRINT: u64 = 2177;
/// Bytes per cycle of a memory transfer, as in ckb-script.
const BYTES_PER_CYCLE: u64 = 4;

/// A line of debug output with its VM.
pub(crate) type Line = (VmId, String);

/// The available system calls and the destination of their output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    /// Whether only printing is available, as in `antares run` for a script without a transaction.
    pub(crate) only_prints: bool,
    /// Receives lines; `None` in the recorder.
    pub(crate) printed: Option<SyncSender<Line>>,
    /// The loaded code.
    pub(crate) loaded: LoadedCode,
}

/// The system calls of a VM.
pub(crate) fn calls(
    vm: VmId,
    group: &SgData<Cells>,
    context: &VmContext<Cells>,
    calls: &Calls,
) -> Vec<Box<dyn Syscalls<Box<AsmCoreMachine>>>> {
    let printed = calls.printed.clone();
    let print = move |line: &str| {
        if let Some(printed) = &printed {
            // Lines beyond the limit are lost.
            let _ = printed.try_send((vm, line.to_owned()));
        }
    };
    if calls.only_prints {
        return vec![Box::new(Print(print))];
    }
    let printer: DebugPrinter = Arc::new(move |_group, line| print(line));
    generate_ckb_syscalls(&vm, group, context, &printer)
}

/// The system call that prints, as in ckb-script.
struct Print<F>(F);

impl<F: Fn(&str) + Send, M: SupportMachine> Syscalls<M> for Print<F> {
    fn initialize(&mut self, _machine: &mut M) -> Result<(), Error> {
        Ok(())
    }

    fn ecall(&mut self, machine: &mut M) -> Result<bool, Error> {
        use ckb_vm::Register as _;
        if machine.registers()[A7].to_u64() != DEBUG_PRINT {
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
            address = address.wrapping_add(1);
        }
        machine.add_cycles_no_checking((text.len() as u64).div_ceil(BYTES_PER_CYCLE))?;
        let text = String::from_utf8(text).map_err(|error| Error::External(error.to_string()))?;
        (self.0)(&text);
        Ok(true)
    }
}
