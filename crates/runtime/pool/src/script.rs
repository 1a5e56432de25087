//! Facts about a script before it is parsed completely.

use std::time::Duration;

use object::{
    elf::{FileHeader64, PF_X, PT_LOAD},
    read::elf::{FileHeader as _, ProgramHeader as _},
};

type Le = object::LittleEndian;

/// Bytes of executable segments according to `elf`; compile time is about proportional to them. 0 if unknown;
/// loading the file reports the reason.
#[must_use]
pub fn executable_bytes(elf: &[u8]) -> u64 {
    let Ok(header) = FileHeader64::<Le>::parse(elf) else { return 0 };
    let Ok(segments) = header.program_headers(Le {}, elf) else { return 0 };
    let is_code = |flags: u32| flags & PF_X.0 != 0;
    let code = segments.iter().filter(|one| one.p_type(Le {}) == PT_LOAD && is_code(one.p_flags(Le {}).0));
    // At most the length of the file, whatever the headers claim.
    code.map(|one| one.p_filesz(Le {})).fold(0, u64::saturating_add).min(elf.len() as u64)
}

/// Minimum bytes of code for which a first compile takes longer than many interpreted runs: at least a quarter
/// of a second.
pub const LONG_COMPILE_BYTES: u64 = 128 << 10;

/// Delay of a background compile after the start of the interpreter: on a shared core, they would slow each
/// other down.
pub const COMPILE_HEAD_START: Duration = Duration::from_millis(120);

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF of `bytes` with one segment of these flags, which claims `said` bytes in the file.
    fn elf(flags: u32, said: u64, bytes: usize) -> Vec<u8> {
        let mut elf = vec![0; bytes.max(120)];
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        elf[16..20].copy_from_slice(&[2, 0, 243, 0]);
        elf[20] = 1;
        elf[32] = 64;
        elf[52] = 64;
        elf[54] = 56;
        elf[56] = 1;
        elf[64] = 1;
        elf[68..72].copy_from_slice(&flags.to_le_bytes());
        elf[96..104].copy_from_slice(&said.to_le_bytes());
        elf
    }

    #[test]
    fn only_code_counts_and_no_more_than_there_is() {
        assert_eq!(executable_bytes(&elf(5, 1000, 2000)), 1000);
        assert_eq!(executable_bytes(&elf(6, 1000, 2000)), 0);
        assert_eq!(executable_bytes(&elf(5, u64::MAX, 2000)), 2000);
        assert_eq!(executable_bytes(&elf(5, 1000, 2000)[..100]), 0);
        assert_eq!(executable_bytes(b"no ELF"), 0);
    }
}
