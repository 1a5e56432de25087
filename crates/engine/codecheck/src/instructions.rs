//! The allow list of instructions: mnemonics, operands and prefixes.
//!
//! The list comes from the code of all guests, the benchmark programs and generated programs. It includes
//! related instructions: arithmetic, moves and comparisons of general registers, BMI1, BMI2, ADX, LZCNT,
//! MOVBE and integer AVX2. No listed instruction makes a system call, reads a clock or CPUID, changes a mode,
//! or repeats.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use crate::{CodeFault, memory::FRAME_BYTES_MAX};

/// Checks everything except branch targets and memory accesses.
pub(crate) fn check(instruction: &Instruction) -> Result<(), CodeFault> {
    let mnemonic = instruction.mnemonic();
    if !is_general(mnemonic) && !is_vector(mnemonic) && !is_special(mnemonic) {
        return Err(CodeFault::Instruction(mnemonic));
    }
    if instruction.has_lock_prefix() || instruction.has_rep_prefix() || instruction.has_repne_prefix() {
        return Err(CodeFault::Prefix);
    }
    for operand in 0..instruction.op_count() {
        check_operand(instruction, operand)?;
    }
    Ok(())
}

fn check_operand(instruction: &Instruction, operand: u32) -> Result<(), CodeFault> {
    match instruction.op_kind(operand) {
        OpKind::Register => {
            let register = instruction.op_register(operand);
            let is_vector = is_low(register, Register::XMM0) || is_low(register, Register::YMM0);
            match register.full_register() {
                Register::RSP => check_stack_pointer(instruction),
                _ if register.is_gpr() || is_vector => Ok(()),
                _ => Err(CodeFault::Operand),
            }
        }
        OpKind::Memory
        | OpKind::NearBranch64
        | OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => Ok(()),
        _ => Err(CodeFault::Operand),
    }
}

/// Whether `register` is one of the sixteen from `first` on. Only AVX-512 has more.
fn is_low(register: Register, first: Register) -> bool {
    (register as usize).checked_sub(first as usize).is_some_and(|number| number < 16)
}

/// The stack pointer may move by constants below a guard's size. Stack probes may compare it.
fn check_stack_pointer(instruction: &Instruction) -> Result<(), CodeFault> {
    let is_small = |number: i64| number.abs() < FRAME_BYTES_MAX;
    let may_be = match instruction.code() {
        Code::Add_rm64_imm8 | Code::Add_rm64_imm32 | Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 => {
            is_small(instruction.immediate(1).cast_signed())
        }
        // A read, for probes or to put arguments on the stack.
        Code::Mov_rm64_r64 => {
            instruction.op0_kind() == OpKind::Register && instruction.op0_register() != Register::RSP
        }
        Code::Lea_r64_m => {
            instruction.memory_base() == Register::RSP
                && instruction.memory_index() == Register::None
                && is_small(instruction.memory_displacement64().cast_signed())
        }
        Code::Cmp_r64_rm64 | Code::Cmp_rm64_r64 => true,
        _ => false,
    };
    if may_be { Ok(()) } else { Err(CodeFault::StackPointer) }
}

/// Instructions on general registers.
#[rustfmt::skip]
fn is_general(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Movbe | M::Lea | M::Push | M::Pop | M::Xchg
            | M::Add | M::Adc | M::Adcx | M::Adox | M::Sub | M::Sbb | M::Inc | M::Dec | M::Neg | M::Not | M::Cmp | M::Test
            | M::And | M::Andn | M::Or | M::Xor
            | M::Imul | M::Mul | M::Mulx | M::Div | M::Idiv
            | M::Shl | M::Shr | M::Sar | M::Sal | M::Shld | M::Shrd | M::Rol | M::Ror | M::Rorx | M::Shlx | M::Shrx | M::Sarx
            | M::Bswap | M::Bt | M::Btc | M::Btr | M::Bts | M::Bzhi | M::Bextr | M::Blsi | M::Blsr | M::Blsmsk
            | M::Lzcnt | M::Tzcnt | M::Popcnt | M::Bsf | M::Bsr
            | M::Cbw | M::Cwde | M::Cdqe | M::Cwd | M::Cdq | M::Cqo
            | M::Seta | M::Setae | M::Setb | M::Setbe | M::Sete | M::Setg | M::Setge | M::Setl | M::Setle
            | M::Setne | M::Setno | M::Setnp | M::Setns | M::Seto | M::Setp | M::Sets
            | M::Cmova | M::Cmovae | M::Cmovb | M::Cmovbe | M::Cmove | M::Cmovg | M::Cmovge | M::Cmovl | M::Cmovle
            | M::Cmovne | M::Cmovno | M::Cmovnp | M::Cmovns | M::Cmovo | M::Cmovp | M::Cmovs
    )
}

/// Control flow, no-ops, traps and flag operations.
#[rustfmt::skip]
fn is_special(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Call | M::Ret | M::Jmp
            | M::Ja | M::Jae | M::Jb | M::Jbe | M::Je | M::Jg | M::Jge | M::Jl | M::Jle
            | M::Jne | M::Jno | M::Jnp | M::Jns | M::Jo | M::Jp | M::Js
            | M::Nop | M::Int3 | M::Ud1 | M::Clc | M::Stc | M::Cmc
    )
}

/// Integer instructions on vector registers.
#[rustfmt::skip]
fn is_vector(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Vmovaps | M::Vmovups | M::Vmovapd | M::Vmovupd | M::Vmovdqa | M::Vmovdqu | M::Vmovq | M::Vmovd | M::Vmovss | M::Vmovsd
            | M::Vmovddup | M::Vmovshdup | M::Vmovsldup | M::Vmovhlps | M::Vmovlhps | M::Vmovhps | M::Vmovlps | M::Vmovhpd | M::Vmovlpd
            | M::Vmovmskps | M::Vmovmskpd | M::Vpmovmskb
            | M::Vpaddb | M::Vpaddw | M::Vpaddd | M::Vpaddq | M::Vpsubb | M::Vpsubw | M::Vpsubd | M::Vpsubq
            | M::Vpmuludq | M::Vpmuldq | M::Vpmulld | M::Vpmullw | M::Vpmulhw | M::Vpmulhuw | M::Vpmaddwd | M::Vpmaddubsw
            | M::Vpand | M::Vpandn | M::Vpor | M::Vpxor | M::Vandps | M::Vandnps | M::Vorps | M::Vxorps
            | M::Vandpd | M::Vandnpd | M::Vorpd | M::Vxorpd
            | M::Vpsllw | M::Vpslld | M::Vpsllq | M::Vpsrlw | M::Vpsrld | M::Vpsrlq | M::Vpsraw | M::Vpsrad
            | M::Vpsllvd | M::Vpsllvq | M::Vpsrlvd | M::Vpsrlvq | M::Vpsravd | M::Vpslldq | M::Vpsrldq
            | M::Vpcmpeqb | M::Vpcmpeqw | M::Vpcmpeqd | M::Vpcmpeqq | M::Vpcmpgtb | M::Vpcmpgtw | M::Vpcmpgtd | M::Vpcmpgtq
            | M::Vpminsb | M::Vpminsw | M::Vpminsd | M::Vpminub | M::Vpminuw | M::Vpminud
            | M::Vpmaxsb | M::Vpmaxsw | M::Vpmaxsd | M::Vpmaxub | M::Vpmaxuw | M::Vpmaxud
            | M::Vpabsb | M::Vpabsw | M::Vpabsd | M::Vpsignb | M::Vpsignw | M::Vpsignd | M::Vpavgb | M::Vpavgw | M::Vpsadbw
            | M::Vpshufb | M::Vpshufd | M::Vpshuflw | M::Vpshufhw | M::Vshufps | M::Vshufpd | M::Vpermd | M::Vpermq | M::Vpermps | M::Vpermpd
            | M::Vpermilps | M::Vpermilpd | M::Vperm2i128 | M::Vperm2f128 | M::Vpalignr
            | M::Vpblendd | M::Vpblendw | M::Vpblendvb | M::Vblendps | M::Vblendpd | M::Vblendvps | M::Vblendvpd
            | M::Vpunpcklbw | M::Vpunpcklwd | M::Vpunpckldq | M::Vpunpcklqdq | M::Vpunpckhbw | M::Vpunpckhwd | M::Vpunpckhdq | M::Vpunpckhqdq
            | M::Vunpcklps | M::Vunpcklpd | M::Vunpckhps | M::Vunpckhpd
            | M::Vpacksswb | M::Vpackssdw | M::Vpackuswb | M::Vpackusdw
            | M::Vpmovsxbw | M::Vpmovsxbd | M::Vpmovsxbq | M::Vpmovsxwd | M::Vpmovsxwq | M::Vpmovsxdq
            | M::Vpmovzxbw | M::Vpmovzxbd | M::Vpmovzxbq | M::Vpmovzxwd | M::Vpmovzxwq | M::Vpmovzxdq
            | M::Vpbroadcastb | M::Vpbroadcastw | M::Vpbroadcastd | M::Vpbroadcastq | M::Vbroadcastss | M::Vbroadcastsd
            | M::Vbroadcasti128 | M::Vbroadcastf128 | M::Vinserti128 | M::Vinsertf128 | M::Vextracti128 | M::Vextractf128
            | M::Vpinsrb | M::Vpinsrw | M::Vpinsrd | M::Vpinsrq | M::Vpextrb | M::Vpextrw | M::Vpextrd | M::Vpextrq | M::Vinsertps | M::Vextractps
            | M::Vpmaskmovd | M::Vpmaskmovq | M::Vmaskmovps | M::Vmaskmovpd | M::Vlddqu
            | M::Vpaddsb | M::Vpaddsw | M::Vpaddusb | M::Vpaddusw | M::Vpsubsb | M::Vpsubsw | M::Vpsubusb | M::Vpsubusw
            | M::Vphaddw | M::Vphaddd | M::Vphaddsw | M::Vphsubw | M::Vphsubd | M::Vphsubsw | M::Vphminposuw | M::Vpmulhrsw
            | M::Vptest | M::Vtestps | M::Vtestpd | M::Vzeroupper | M::Vzeroall
    )
}
