//! Finds where a script may continue without native code, so that all guest registers must be available.
//!
//! Two events end native code in the middle of a successful run. A syscall of VM version 2 may stop the VM
//! for other VMs, and the VM may resume in another process image with only registers and memory. And a script
//! may load code at run time ([`LOAD_CODE`]) and call it. At both, all registers count as read. After other,
//! rare events, the script restarts.
//!
//! This only affects speed: if native code bails out elsewhere, the script restarts.

use antares_ir::{Module, Op, Terminator};
use antares_program::{Reg, RegSet};

/// Syscalls that may stop the VM: exec, and spawn to close (ckb-script's `syscalls/mod.rs`).
const STOPPING: [i64; 9] = [2043, 2601, 2602, 2603, 2604, 2605, 2606, 2607, 2608];

/// The number of the syscall that makes memory executable: complete, and as the addend to an upper part that
/// other code sets.
const LOAD_CODE: [i64; 2] = [2091, 2091 - 0x1000];

/// First VM version in which a script may continue in the interpreter. In earlier versions the interpreter's
/// behavior depends on the code that it ran before (ckb-vm issue 425). A script with loaded code then runs
/// entirely in native code or not at all.
const VERSION_MIN: u32 = 2;

/// Finds the effects of the syscalls of `module`: whether they may load code, and which may stop the VM and
/// so read all registers.
pub(crate) fn find(module: &mut Module) {
    let [loads_code, stops] = [&LOAD_CODE[..], &STOPPING].map(|numbers| has_constant(module, numbers));
    // Loaded code is open from the start.
    module.is_open |= loads_code;
    module.keeps_stores |= loads_code;
    if !stops || module.options.vm_version < VERSION_MIN {
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

/// Whether the program has one of `numbers` as a constant.
fn has_constant(module: &Module, numbers: &[i64]) -> bool {
    let blocks = module.functions.iter().flat_map(|function| &function.blocks);
    let mut constants = blocks.flat_map(|block| &block.ops).filter_map(Op::number);
    constants.any(|number| numbers.contains(&number))
}
