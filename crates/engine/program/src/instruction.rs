//! One decoded instruction, and the table of all operations of ckb-vm's decoder.

use std::fmt;

use ckb_vm::instructions::{Itype, R5type, REGISTER_ABI_NAMES, Stype, Utype, extract_opcode, insts};

/// A guest register, `x0..x31`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u8);

impl Reg {
    /// Always zero.
    pub const ZERO: Self = Self(0);
    /// Return address.
    pub const RA: Self = Self(1);
    /// Stack pointer.
    pub const SP: Self = Self(2);
    /// The alternate link register.
    pub const T0: Self = Self(5);
    /// The first saved register, the frame pointer of frames without a fixed size.
    pub const S0: Self = Self(8);
    /// First argument and result.
    pub const A0: Self = Self(10);
    /// Syscall number.
    pub const A7: Self = Self(17);

    /// Index into a register file.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REGISTER_ABI_NAMES[self.index()])
    }
}

impl fmt::Debug for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A set of guest registers; `x0` is never a member.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RegSet(u32);

impl RegSet {
    /// No register.
    pub const EMPTY: Self = Self(0);
    /// All registers but `x0`.
    pub const ALL: Self = Self(!1);

    /// The set of `registers`.
    #[must_use]
    pub fn of(registers: &[Reg]) -> Self {
        registers.iter().fold(Self::EMPTY, |set, &register| set.with(register))
    }

    /// This set and `register`.
    #[must_use]
    pub fn with(self, register: Reg) -> Self {
        Self((self.0 | 1 << register.0) & !1)
    }

    /// This set without `register`.
    #[must_use]
    pub fn without(self, register: Reg) -> Self {
        Self(self.0 & !(1 << register.0))
    }

    /// Union.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Intersection.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Difference.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether `register` is a member.
    #[must_use]
    pub fn has(self, register: Reg) -> bool {
        self.0 & 1 << register.0 != 0
    }

    /// Number of members.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, lowest first.
    pub fn iter(self) -> impl Iterator<Item = Reg> {
        (1..32).map(Reg).filter(move |register| self.has(*register))
    }
}

impl fmt::Display for RegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, register) in self.iter().enumerate() {
            write!(f, "{}{register}", if index == 0 { "" } else { " " })?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for RegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One decoded instruction, or several that ckb-vm's decoder fused into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub op: Op,
    /// Bytes from this instruction to the next.
    pub length: u8,
    /// Cycles of ckb-vm's cost model.
    pub cycles: u32,
    /// Destination; `x0` if there is none.
    pub rd: Reg,
    /// First source.
    pub rs1: Reg,
    /// Second source.
    pub rs2: Reg,
    /// Third operand of fused operations.
    pub rs3: Reg,
    /// Fourth operand of fused operations.
    pub rs4: Reg,
    /// Immediate, sign extended.
    pub imm: i64,
}

macro_rules! operations {
    ($($format:ident { $($name:ident $text:literal = $($opcode:ident)|+;)* })*) => {
        /// An operation of the guest ISA, as ckb-vm decodes it. VM version 0 has no separate loads and `jalr`
        /// here: the version is a property of the whole program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names are the manual's")]
        pub enum Op { $($($name,)*)* }

        impl Op {
            /// Every operation.
            pub const ALL: &[Self] = &[$($(Self::$name,)*)*];

            /// Lower-case mnemonic.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($(Self::$name => $text,)*)* }
            }

            /// The format of its operands.
            #[must_use]
            pub fn format(self) -> Format {
                match self { $($(Self::$name)|* => Format::$format,)* }
            }

            /// The operation of ckb-vm's opcode. None if ckb-vm only uses it internally.
            fn of(opcode: u16) -> Option<Self> {
                $($(if $(opcode == insts::$opcode)||+ {
                    return Some(Self::$name);
                })*)*
                None
            }
        }
    };
}

operations! {
    R {
        Add "add" = OP_ADD; Addw "addw" = OP_ADDW; Sub "sub" = OP_SUB; Subw "subw" = OP_SUBW;
        And "and" = OP_AND; Or "or" = OP_OR; Xor "xor" = OP_XOR;
        Sll "sll" = OP_SLL; Sllw "sllw" = OP_SLLW; Srl "srl" = OP_SRL; Srlw "srlw" = OP_SRLW;
        Sra "sra" = OP_SRA; Sraw "sraw" = OP_SRAW; Slt "slt" = OP_SLT; Sltu "sltu" = OP_SLTU;
        Mul "mul" = OP_MUL; Mulw "mulw" = OP_MULW; Mulh "mulh" = OP_MULH; Mulhsu "mulhsu" = OP_MULHSU;
        Mulhu "mulhu" = OP_MULHU; Div "div" = OP_DIV; Divu "divu" = OP_DIVU; Divw "divw" = OP_DIVW;
        Divuw "divuw" = OP_DIVUW; Rem "rem" = OP_REM; Remu "remu" = OP_REMU; Remw "remw" = OP_REMW;
        Remuw "remuw" = OP_REMUW;
        LrW "lr.w" = OP_LR_W; ScW "sc.w" = OP_SC_W; AmoswapW "amoswap.w" = OP_AMOSWAP_W;
        AmoaddW "amoadd.w" = OP_AMOADD_W; AmoxorW "amoxor.w" = OP_AMOXOR_W; AmoandW "amoand.w" = OP_AMOAND_W;
        AmoorW "amoor.w" = OP_AMOOR_W; AmominW "amomin.w" = OP_AMOMIN_W; AmomaxW "amomax.w" = OP_AMOMAX_W;
        AmominuW "amominu.w" = OP_AMOMINU_W; AmomaxuW "amomaxu.w" = OP_AMOMAXU_W;
        LrD "lr.d" = OP_LR_D; ScD "sc.d" = OP_SC_D; AmoswapD "amoswap.d" = OP_AMOSWAP_D;
        AmoaddD "amoadd.d" = OP_AMOADD_D; AmoxorD "amoxor.d" = OP_AMOXOR_D; AmoandD "amoand.d" = OP_AMOAND_D;
        AmoorD "amoor.d" = OP_AMOOR_D; AmominD "amomin.d" = OP_AMOMIN_D; AmomaxD "amomax.d" = OP_AMOMAX_D;
        AmominuD "amominu.d" = OP_AMOMINU_D; AmomaxuD "amomaxu.d" = OP_AMOMAXU_D;
        Adduw "add.uw" = OP_ADDUW; Andn "andn" = OP_ANDN; Orn "orn" = OP_ORN; Xnor "xnor" = OP_XNOR;
        Bclr "bclr" = OP_BCLR; Bext "bext" = OP_BEXT; Binv "binv" = OP_BINV; Bset "bset" = OP_BSET;
        Clmul "clmul" = OP_CLMUL; Clmulh "clmulh" = OP_CLMULH; Clmulr "clmulr" = OP_CLMULR;
        Clz "clz" = OP_CLZ; Clzw "clzw" = OP_CLZW; Ctz "ctz" = OP_CTZ; Ctzw "ctzw" = OP_CTZW;
        Cpop "cpop" = OP_CPOP; Cpopw "cpopw" = OP_CPOPW; Max "max" = OP_MAX; Maxu "maxu" = OP_MAXU;
        Min "min" = OP_MIN; Minu "minu" = OP_MINU; Orcb "orc.b" = OP_ORCB; Rev8 "rev8" = OP_REV8;
        Rol "rol" = OP_ROL; Rolw "rolw" = OP_ROLW; Ror "ror" = OP_ROR; Rorw "rorw" = OP_RORW;
        Sextb "sext.b" = OP_SEXTB; Sexth "sext.h" = OP_SEXTH; Zexth "zext.h" = OP_ZEXTH;
        Sh1add "sh1add" = OP_SH1ADD; Sh2add "sh2add" = OP_SH2ADD; Sh3add "sh3add" = OP_SH3ADD;
        Sh1adduw "sh1add.uw" = OP_SH1ADDUW; Sh2adduw "sh2add.uw" = OP_SH2ADDUW;
        Sh3adduw "sh3add.uw" = OP_SH3ADDUW;
        Adc "adc" = OP_ADC; Fence "fence" = OP_FENCE; FenceI "fence.i" = OP_FENCEI;
        Ecall "ecall" = OP_ECALL; Ebreak "ebreak" = OP_EBREAK;
    }
    I {
        Addi "addi" = OP_ADDI; Addiw "addiw" = OP_ADDIW; Andi "andi" = OP_ANDI; Ori "ori" = OP_ORI;
        Xori "xori" = OP_XORI; Slli "slli" = OP_SLLI; Slliw "slliw" = OP_SLLIW; Srli "srli" = OP_SRLI;
        Srliw "srliw" = OP_SRLIW; Srai "srai" = OP_SRAI; Sraiw "sraiw" = OP_SRAIW; Slti "slti" = OP_SLTI;
        Sltiu "sltiu" = OP_SLTIU;
        Lb "lb" = OP_LB_VERSION0 | OP_LB_VERSION1; Lbu "lbu" = OP_LBU_VERSION0 | OP_LBU_VERSION1;
        Lh "lh" = OP_LH_VERSION0 | OP_LH_VERSION1; Lhu "lhu" = OP_LHU_VERSION0 | OP_LHU_VERSION1;
        Lw "lw" = OP_LW_VERSION0 | OP_LW_VERSION1; Lwu "lwu" = OP_LWU_VERSION0 | OP_LWU_VERSION1;
        Ld "ld" = OP_LD_VERSION0 | OP_LD_VERSION1; Jalr "jalr" = OP_JALR_VERSION0 | OP_JALR_VERSION1;
        Bclri "bclri" = OP_BCLRI; Bexti "bexti" = OP_BEXTI; Binvi "binvi" = OP_BINVI; Bseti "bseti" = OP_BSETI;
        Rori "rori" = OP_RORI; Roriw "roriw" = OP_RORIW; Slliuw "slli.uw" = OP_SLLIUW;
    }
    S {
        Sb "sb" = OP_SB; Sh "sh" = OP_SH; Sw "sw" = OP_SW; Sd "sd" = OP_SD;
        Beq "beq" = OP_BEQ; Bne "bne" = OP_BNE; Blt "blt" = OP_BLT; Bge "bge" = OP_BGE;
        Bltu "bltu" = OP_BLTU; Bgeu "bgeu" = OP_BGEU;
    }
    U {
        Lui "lui" = OP_LUI; Auipc "auipc" = OP_AUIPC; Jal "jal" = OP_JAL;
        LoadImm "load.imm" = OP_CUSTOM_LOAD_IMM;
        FarJumpRel "far.jump.rel" = OP_FAR_JUMP_REL; FarJumpAbs "far.jump.abs" = OP_FAR_JUMP_ABS;
    }
    Unsigned { LoadUimm "load.uimm" = OP_CUSTOM_LOAD_UIMM; }
    R4 {
        WideMul "wide.mul" = OP_WIDE_MUL; WideMulu "wide.mulu" = OP_WIDE_MULU;
        WideMulsu "wide.mulsu" = OP_WIDE_MULSU; WideDiv "wide.div" = OP_WIDE_DIV;
        WideDivu "wide.divu" = OP_WIDE_DIVU; Sbb "sbb" = OP_SBB; Adcs "adcs" = OP_ADCS; Sbbs "sbbs" = OP_SBBS;
    }
    R5 { Add3a "add3a" = OP_ADD3A; Add3b "add3b" = OP_ADD3B; Add3c "add3c" = OP_ADD3C; }
}

/// How ckb-vm packs the operands of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the manual's and ckb-vm's")]
pub enum Format {
    R,
    I,
    S,
    U,
    /// Like `U`, without a sign.
    Unsigned,
    R4,
    R5,
}

impl Format {
    /// The numbers of the registers, and the immediate.
    fn operands(self, packed: u64) -> ([usize; 5], i64) {
        match self {
            // The shorter formats are 0 where this one has more registers.
            Self::R | Self::R4 | Self::R5 => {
                let i = R5type(packed);
                ([i.rd(), i.rs1(), i.rs2(), i.rs3(), i.rs4()], 0)
            }
            Self::I => {
                let i = Itype(packed);
                ([i.rd(), i.rs1(), 0, 0, 0], i64::from(i.immediate_s()))
            }
            Self::S => {
                let i = Stype(packed);
                ([0, i.rs1(), i.rs2(), 0, 0], i64::from(i.immediate_s()))
            }
            Self::U => ([Utype(packed).rd(), 0, 0, 0, 0], i64::from(Utype(packed).immediate_s())),
            Self::Unsigned => ([Utype(packed).rd(), 0, 0, 0, 0], i64::from(Utype(packed).immediate_u())),
        }
    }
}

impl Instruction {
    /// Unpacks ckb-vm's packed form. None if ckb-vm only uses the opcode internally.
    pub(crate) fn unpack(packed: u64, length: u8, cycles: u32) -> Option<Self> {
        let op = Op::of(extract_opcode(packed))?;
        let (registers, imm) = op.format().operands(packed);
        // ckb-vm stores register numbers in five bits of a byte.
        let [rd, rs1, rs2, rs3, rs4] = registers.map(|index| Reg(index.to_le_bytes()[0] & 31));
        Some(Self { op, length, cycles, rd, rs1, rs2, rs3, rs4, imm })
    }

    /// Whether it is a fusion that may write more than `rd`, whatever the registers.
    #[must_use]
    pub fn is_fused(&self) -> bool {
        self.op == Op::Adc || matches!(self.op.format(), Format::R4 | Format::R5)
    }

    /// Whether it may write `register`. Operands of fusions count as written, except `rs4`.
    #[must_use]
    pub fn may_write(&self, register: Reg) -> bool {
        self.rd == register || (self.is_fused() && [self.rs1, self.rs2, self.rs3].contains(&register))
    }

    /// Whether it belongs to extension A, which has no native code.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        ["lr.", "sc.", "amo"].iter().any(|kind| self.op.name().starts_with(kind))
    }

    /// Whether this is a conditional branch.
    #[must_use]
    pub fn is_branch(&self) -> bool {
        matches!(self.op, Op::Beq | Op::Bne | Op::Blt | Op::Bge | Op::Bltu | Op::Bgeu)
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rd, rs1, rs2, rs3, rs4, imm, .. } = self;
        let name = self.op.name();
        match self.op {
            Op::Ecall | Op::Ebreak | Op::Fence | Op::FenceI => f.write_str(name),
            Op::Lb | Op::Lbu | Op::Lh | Op::Lhu | Op::Lw | Op::Lwu | Op::Ld | Op::Jalr => {
                write!(f, "{name} {rd},{imm}({rs1})")
            }
            Op::Sb | Op::Sh | Op::Sw | Op::Sd => write!(f, "{name} {rs2},{imm}({rs1})"),
            Op::WideMul | Op::WideMulu | Op::WideMulsu | Op::WideDiv | Op::WideDivu => {
                write!(f, "{name} {rd},{rs3},{rs1},{rs2}")
            }
            _ if self.op.format() == Format::R4 => write!(f, "{name} {rd},{rs1},{rs2},{rs3}"),
            _ if self.op.format() == Format::R5 => write!(f, "{name} {rd},{rs1},{rs2},{rs3},{rs4}"),
            _ if self.is_branch() => write!(f, "{name} {rs1},{rs2},{imm}"),
            _ if matches!(self.op.format(), Format::U | Format::Unsigned) => write!(f, "{name} {rd},{imm}"),
            _ if *imm != 0 || *rs2 == Reg::ZERO => write!(f, "{name} {rd},{rs1},{imm}"),
            _ => write!(f, "{name} {rd},{rs1},{rs2}"),
        }
    }
}
