//! The memory that an instruction reads and writes.

use ckb_vm::{
    ckb_vm_definitions::instructions::{
        Instruction, OP_AMOADD_D, OP_AMOADD_W, OP_AMOAND_D, OP_AMOAND_W, OP_AMOMAX_D, OP_AMOMAX_W,
        OP_AMOMAXU_D, OP_AMOMAXU_W, OP_AMOMIN_D, OP_AMOMIN_W, OP_AMOMINU_D, OP_AMOMINU_W, OP_AMOOR_D,
        OP_AMOOR_W, OP_AMOSWAP_D, OP_AMOSWAP_W, OP_AMOXOR_D, OP_AMOXOR_W, OP_LB_VERSION0, OP_LB_VERSION1,
        OP_LBU_VERSION0, OP_LBU_VERSION1, OP_LD_VERSION0, OP_LD_VERSION1, OP_LH_VERSION0, OP_LH_VERSION1,
        OP_LHU_VERSION0, OP_LHU_VERSION1, OP_LR_D, OP_LR_W, OP_LW_VERSION0, OP_LW_VERSION1, OP_LWU_VERSION0,
        OP_LWU_VERSION1, OP_SB, OP_SC_D, OP_SC_W, OP_SD, OP_SH, OP_SW,
    },
    instructions::{Itype, Rtype, Stype, extract_opcode},
};

/// A memory access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Guest address.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u8,
    /// Whether they are read.
    pub reads: bool,
    /// Whether they are written.
    pub writes: bool,
    /// Whether the instruction is atomic.
    pub is_atomic: bool,
}

/// What `instruction` touches with these registers.
#[must_use]
pub fn touched(instruction: Instruction, registers: &[u64; 32]) -> Option<Touch> {
    let load = |bytes| {
        let fields = Itype(instruction);
        let address = registers[fields.rs1() & 31].wrapping_add_signed(fields.immediate_s().into());
        Some(Touch { address, bytes, reads: true, writes: false, is_atomic: false })
    };
    let store = |bytes| {
        let fields = Stype(instruction);
        let address = registers[fields.rs1() & 31].wrapping_add_signed(fields.immediate_s().into());
        Some(Touch { address, bytes, reads: false, writes: true, is_atomic: false })
    };
    let atomic = |bytes, reads, writes| {
        Some(Touch {
            address: registers[Rtype(instruction).rs1() & 31],
            bytes,
            reads,
            writes,
            is_atomic: true,
        })
    };
    match extract_opcode(instruction) {
        OP_LB_VERSION0 | OP_LB_VERSION1 | OP_LBU_VERSION0 | OP_LBU_VERSION1 => load(1),
        OP_LH_VERSION0 | OP_LH_VERSION1 | OP_LHU_VERSION0 | OP_LHU_VERSION1 => load(2),
        OP_LW_VERSION0 | OP_LW_VERSION1 | OP_LWU_VERSION0 | OP_LWU_VERSION1 => load(4),
        OP_LD_VERSION0 | OP_LD_VERSION1 => load(8),
        OP_SB => store(1),
        OP_SH => store(2),
        OP_SW => store(4),
        OP_SD => store(8),
        OP_LR_W => atomic(4, true, false),
        OP_LR_D => atomic(8, true, false),
        OP_SC_W => atomic(4, false, true),
        OP_SC_D => atomic(8, false, true),
        OP_AMOSWAP_W | OP_AMOADD_W | OP_AMOXOR_W | OP_AMOAND_W | OP_AMOOR_W | OP_AMOMIN_W | OP_AMOMAX_W
        | OP_AMOMINU_W | OP_AMOMAXU_W => atomic(4, true, true),
        OP_AMOSWAP_D | OP_AMOADD_D | OP_AMOXOR_D | OP_AMOAND_D | OP_AMOOR_D | OP_AMOMIN_D | OP_AMOMAX_D
        | OP_AMOMINU_D | OP_AMOMAXU_D => atomic(8, true, true),
        _ => None,
    }
}
