//! Meanings of the VM's errors, with advice.

use antares_profile::evidence::records::{Fault, Vm};
use antares_profile::syscall_name;

use crate::names::{MEMORY_BYTES, Namer, STACK_BYTES};

/// Register number of the stack pointer.
const SP: usize = 2;

/// Maximum distance from the stack pointer of a stack access.
const FRAME_BYTES: u64 = 64 << 10;

const FLOAT: &str =
    "a floating-point instruction, or data: build all of it, libraries too, for rv64imc and lp64";

/// Advice for an instruction that older VM versions lack.
const NO_B: &str = "hash type data runs VM version 0, which has rv64imc only: name the code by data2 (or data1, type), or build without zba, zbb, zbc, zbs";

/// Advice for an instruction that no VM version has, from the error's `detail`: by default, compilers use
/// unsupported extensions.
pub(crate) fn of_instruction(detail: Option<&str>, vm_version: Option<u32>) -> Option<&'static str> {
    let digits = detail.and_then(|detail| detail.split_once("instruction=0x")).map_or("0", |it| it.1);
    let word = u32::from_str_radix(digits, 16).unwrap_or(0);
    // Compressed loads and stores of floats.
    let is_short = word & 1 == 0 && word & 0x6000 == 0x2000;
    Some(match if is_short { 0x07 } else { word & 0x7f } {
        0x07 | 0x27 | 0x43 | 0x47 | 0x4b | 0x4f | 0x53 => FLOAT,
        0x2f => "an atomic instruction, or data: build for rv64imc, Rust with -C target-feature=-a",
        0x73 => "an access to a control register, or data: CKB-VM has none; current_cycles counts cycles",
        _ if vm_version == Some(0) => NO_B,
        _ => return advice("InvalidInstruction"),
    })
}

/// Advice for an error caused by a jump.
pub(crate) const NO_CODE: &str = "there is no code: look where the address came from";

/// Advice for an error.
#[must_use]
pub fn advice(name: &str) -> Option<&'static str> {
    Some(match name {
        "MemOutOfBound" => "an address outside of the VM's 4 MiB of memory: look where it came from",
        "MemWriteOnExecutablePage" => "code cannot be written to: look where the address came from",
        "MemWriteOnFreezedPage" => "a frozen page cannot be written to or made executable",
        "MemPageUnalignedAccess" => "code is loaded in whole pages: address and size are multiples of 4096",
        "MemOutOfStack" => "the arguments do not fit into the stack",
        "InvalidInstruction" => "no instruction: a jump into data, or a build beyond rv64imc_zba_zbb_zbc_zbs",
        "InvalidOp" => "an operation that this VM version has not",
        "InvalidEcall" => {
            "a system call that is not there: run alone, a script has exit (93) and debug (2177) only; all others need a transaction (antares verify)"
        }
        "CyclesExceeded" => "an endless loop, or a limit that is too low (--max-cycles)",
        "CyclesOverflow" => "the count of cycles has overflowed",
        "ElfParseError" => "the file is no ELF that CKB-VM reads: it must be RV64, little-endian and static",
        "ElfBits" => "the ELF is for another width: CKB-VM is RV64",
        "ElfSegmentUnreadable" => "a segment of the ELF cannot be read: each needs the flag R",
        "ElfSegmentWritableAndExecutable" => "a segment is writable and executable: use -z separate-code",
        "ElfSegmentAddrOrSizeError" => "a segment is outside of the 4 MiB of memory: see the linker script",
        "External" => "the transaction's environment refused",
        "Unexpected" => "what was asked for is not there, such as a cell that is no program",
        "SnapshotDataLoadError" => "data that was loaded is not there any more",
        "InvalidVersion" => "this VM version has no such instruction set",
        _ => return None,
    })
}

/// Whether the VM ended by a stack overflow: an access near a stack pointer outside of the stack.
pub(crate) fn is_stack_overflow(vm: &Vm, fault: Option<Fault>) -> bool {
    let sp = vm.registers[SP];
    let Some(Fault::Load { address, .. } | Fault::Store { address, .. }) = fault else { return false };
    let has_left = !(MEMORY_BYTES - STACK_BYTES..=MEMORY_BYTES).contains(&sp);
    has_left && address.wrapping_sub(sp).min(sp.wrapping_sub(address)) < FRAME_BYTES
}

/// The faulting address.
pub(crate) fn address(fault: Fault) -> Option<u64> {
    match fault {
        Fault::Load { address, .. } | Fault::Store { address, .. } | Fault::Fetch { address, .. } => {
            Some(address)
        }
        Fault::SystemCall { .. } | Fault::Cycles | Fault::Other => None,
    }
}

fn length(bytes: u8) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

/// A short description of the fault.
pub(crate) fn words(vm: &Vm, error: &str, fault: Option<Fault>, namer: &Namer) -> String {
    let what = |address| namer.what_is_at(address, vm.id, vm.program);
    if is_stack_overflow(vm, fault) {
        let sp = vm.registers[SP];
        let used = MEMORY_BYTES.wrapping_sub(sp);
        let used =
            if used <= MEMORY_BYTES { format!("{} KiB", used >> 10) } else { "more than 4 MiB".to_owned() };
        let place = what(sp);
        return format!("stack overflow ({error}): the stack has grown to {used}, sp is {sp:#x}, {place}");
    }
    match fault {
        Some(Fault::Load { address, bytes }) => {
            format!("{error}: a load of {} from {address:#x}: {}", length(bytes), what(address))
        }
        Some(Fault::Store { address, bytes }) => {
            format!("{error}: a store of {} to {address:#x}: {}", length(bytes), what(address))
        }
        Some(Fault::Fetch { address, from: Some(from) }) => {
            format!("{error}: a jump from {from:#x} to {address:#x}: {}", what(address))
        }
        Some(Fault::Fetch { address, from: None }) => {
            format!("{error}: no instruction at {address:#x}: {}", what(address))
        }
        Some(Fault::SystemCall { number }) => match syscall_name(number) {
            Some(name) => format!("{error}: system call {number} ({name})"),
            None => format!("{error}: system call {number}"),
        },
        Some(Fault::Cycles) => "the cycle limit was passed".to_owned(),
        Some(Fault::Other) | None => error.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_extensions_are_named() {
        for (word, reported) in [
            (0x0200_0553_u32, "a floating-point"),
            (0x0001_3507, "a floating-point"),
            (0x2108, "a floating-point"),
            (0xa002, "a floating-point"),
            (0x0020_a52f, "an atomic"),
            (0xc000_2573, "an access to a control register"),
            // sh1add, zeros, and an invalid word.
            (0x2000_2533, "no instruction"),
            (0, "no instruction"),
            (0xffff_ffff, "no instruction"),
        ] {
            let found = of_instruction(Some(&format!("pc=0x10078 instruction={word:#x}")), Some(2));
            assert!(found.is_some_and(|found| found.starts_with(reported)), "{word:#x}: {found:?}");
        }
    }
}
