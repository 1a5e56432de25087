//! The use of host registers in all generated code, and the fields of the state.

use std::mem::offset_of;

use antares_abi::{HOST_TABLE_OFFSET, STATE_OFFSET, State};
use antares_ir::{Function, Module};
use antares_program::Reg;

use crate::{
    assembler::{Gpr, Mem},
    fitted::fitted,
};

/// Host address of guest address 0. The host's meter expects this and [`CYCLES_LEFT`] in these registers.
pub(crate) const BASE: Gpr = Gpr::R10;
pub(crate) const CYCLES_LEFT: Gpr = Gpr::R11;
/// Host address of the state, plus [`STATE_BIAS`].
pub(crate) const STATE: Gpr = Gpr::RBP;
/// Keeps guest registers less than 128 bytes away in both directions.
const STATE_BIAS: usize = 128;

/// Host registers that hold values of a block.
pub(crate) const TEMPS: [Gpr; 6] = [Gpr::RAX, Gpr::RCX, Gpr::RDX, Gpr::RSI, Gpr::RDI, Gpr::R8];
/// Host registers that always hold guest registers. The host's functions preserve all but the last.
const PINNED: [Gpr; 6] = [Gpr::RBX, Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15, Gpr::R9];
/// The register of [`PINNED`] that the host's functions do not preserve.
const LOST: Gpr = Gpr::R9;

/// log2 of the weight of a loop's body relative to the code around the loop.
const LOOP_WEIGHT_BITS: u32 = 2;
/// Maximum loop depth that adds weight.
const LOOPS_MAX: u32 = 4;

fn field(offset: usize) -> Mem {
    Mem::at(STATE, fitted::<i32, _>(offset) - fitted::<i32, _>(STATE_BIAS))
}

pub(crate) fn state_slot(register: Reg) -> Mem {
    field(State::register_offset(register.index()))
}

pub(crate) fn pc() -> Mem {
    field(offset_of!(State, pc))
}

pub(crate) fn cycles_left() -> Mem {
    field(offset_of!(State, cycles_left))
}

pub(crate) fn is_complete() -> Mem {
    field(offset_of!(State, is_complete))
}

/// The host function at this offset of [`HostTable`](antares_abi::HostTable).
pub(crate) fn host(offset: usize) -> Mem {
    Mem::at(BASE, fitted(HOST_TABLE_OFFSET + offset))
}

/// The address that [`STATE`] holds, relative to base in `base`.
pub(crate) fn state_from(base: Gpr) -> Mem {
    Mem::at(base, fitted(STATE_OFFSET + STATE_BIAS))
}

/// The address of base, relative to [`STATE`].
pub(crate) fn base_from_state() -> Mem {
    Mem::at(STATE, -fitted::<i32, _>(STATE_OFFSET + STATE_BIAS))
}

/// The guest registers that have host registers of their own.
#[derive(Clone, Debug)]
pub(crate) struct Pinned(Vec<(Reg, Gpr)>);

impl Pinned {
    /// Chooses the registers that `module` mentions most, with more weight in loops.
    pub(crate) fn choose(module: &Module) -> Self {
        let mut counts = [0_u64; 32];
        for function in &module.functions {
            for (block, weight) in function.blocks.iter().zip(weights(function)) {
                block.mentions().for_each(|register| counts[register.index()] += weight);
            }
        }
        let mut order: Vec<u8> = (1..32).collect();
        order.sort_by_key(|register| std::cmp::Reverse(counts[usize::from(*register)]));
        Self(order.into_iter().map(Reg).zip(PINNED).collect())
    }

    pub(crate) fn host(&self, register: Reg) -> Option<Gpr> {
        self.0.iter().find(|(pinned, _)| *pinned == register).map(|(_, host)| *host)
    }

    pub(crate) fn pairs(&self) -> &[(Reg, Gpr)] {
        &self.0
    }

    /// The registers that a syscall may have changed, in the state or in the host register.
    pub(crate) fn lost_in_syscalls(&self) -> impl Iterator<Item = (Reg, Gpr)> {
        self.0.iter().copied().filter(|(register, host)| *register == Reg::A0 || *host == LOST)
    }
}

/// By block: a weight from the depth of its loops. A jump back to an earlier block makes a loop of all blocks
/// in between.
fn weights(function: &Function) -> Vec<u64> {
    let count = function.blocks.len();
    let mut edges = vec![0_i64; count + 1];
    for (index, block) in function.blocks.iter().enumerate() {
        for target in block.terminator.successors() {
            let target = target.0 as usize;
            if target <= index {
                edges[target] += 1;
                edges[index + 1] -= 1;
            }
        }
    }
    let mut depth = 0_i64;
    let blocks = edges.iter().take(count);
    blocks
        .map(|edge| {
            depth += edge;
            1 << (LOOP_WEIGHT_BITS * fitted::<u32, _>(depth).min(LOOPS_MAX))
        })
        .collect()
}
