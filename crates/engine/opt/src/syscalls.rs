//! Where a script may go on without native code: all guest registers are at hand there.
//!
//! Two things end native code in the middle of a script that runs well. A syscall of VM version 2 may stop
//! the VM for others to run, and the VM may come back in another process image, with registers and memory
//! alone; and code may be loaded while the script runs ([`LOAD_CODE`]), and be called. There, everything
//! counts as read. Other events are rare, and the script starts again for them.
//!
//! What is recognised decides about speed alone: native code that is left elsewhere makes the script start
//! again.

use antares_ir::{Module, Op, Terminator};
use antares_program::{Reg, RegSet};

/// Syscalls that may stop the VM: exec, and spawn to close (ckb-script's `syscalls/mod.rs`).
const STOPPING: [i64; 9] = [2043, 2601, 2602, 2603, 2604, 2605, 2606, 2607, 2608];

/// The syscall that makes memory executable, whole and as what is added to the upper part, which compilers
/// set elsewhere.
const LOAD_CODE: [i64; 2] = [2091, 2091 - 0x1000];

/// First VM version in which a script may go on in the interpreter. In earlier ones what the interpreter does
/// depends on which code it ran before (ckb-vm issue 425), so a script with loaded code runs natively to the
/// end or not at all.
const VERSION_MIN: u32 = 2;

/// Finds what the syscalls of `module` may do: whether code may appear, and which of them may stop the VM and
/// so read all registers.
pub(crate) fn find(module: &mut Module) {
    let usage = usage(module);
    // Code that is loaded itself is open from the start.
    module.is_open |= usage.loads_code;
    module.keeps_stores |= usage.loads_code;
    if !usage.stops {
        return;
    }
    for block in module.functions.iter_mut().flat_map(|function| &mut function.blocks) {
        let number = block.written(Reg::A7).and_then(|value| block.number(value));
        if let Terminator::Ecall { uses, .. } = &mut block.terminator
            && number.is_none_or(|number| STOPPING.contains(&number))
        {
            *uses = RegSet::ALL;
        }
    }
}

/// What a program does beside computing, as far as its constants tell.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    stops: bool,
    loads_code: bool,
}

/// Looks for the numbers of the syscalls in question.
fn usage(module: &Module) -> Usage {
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    let numbers = blocks.flat_map(|block| &block.ops).filter_map(Op::number);
    let is_late = module.options.vm_version >= VERSION_MIN;
    numbers.fold(Usage::default(), |usage, number| Usage {
        stops: usage.stops || (is_late && STOPPING.contains(&number)),
        loads_code: usage.loads_code || LOAD_CODE.contains(&number),
    })
}
