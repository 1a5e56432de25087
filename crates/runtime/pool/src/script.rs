//! What is known of a script before anybody takes it apart.

use std::time::Duration;

use object::{
    elf::{FileHeader64, PF_X, PT_LOAD},
    read::elf::{FileHeader as _, ProgramHeader as _},
};

type Le = object::LittleEndian;

/// Bytes of executable pages that `elf` says it has: how long its compile takes is about proportional to
/// them. None where there is no telling; who loads it finds out why.
#[must_use]
pub fn executable_bytes(elf: &[u8]) -> u64 {
    let Ok(header) = FileHeader64::<Le>::parse(elf) else { return 0 };
    let Ok(segments) = header.program_headers(Le {}, elf) else { return 0 };
    let is_code = |flags: u32| flags & PF_X.0 != 0;
    let code = segments.iter().filter(|one| one.p_type(Le {}) == PT_LOAD && is_code(one.p_flags(Le {}).0));
    // No more than the file has, whatever it says.
    code.map(|one| one.p_filesz(Le {})).fold(0, u64::saturating_add).min(elf.len() as u64)
}

/// Bytes of code from which on a first compile takes longer than many runs in the interpreter: a quarter of a
/// second and more.
pub const LONG_COMPILE_BYTES: u64 = 128 << 10;

/// How long the interpreter has the processor for itself before such a compile begins that nobody else waits
/// for: both at once slow each other down where they share a core.
pub const COMPILE_HEAD_START: Duration = Duration::from_millis(120);

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF of `bytes` with one segment of these flags, which says that it has so many in the file.
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
