//! A quick check whether bytes can be a script: the head of a RISC-V RV64 ELF, or code that a script loads at
//! run time. A sandboxed worker finds all other errors.

use antares_abi::LOADED_CODE_MAGIC;

/// Magic, class, byte order and version that the VM loads.
const IDENT: [u8; 7] = [0x7f, b'E', b'L', b'F', 2, 1, 1];

/// Offset of the machine, and RISC-V's number.
const MACHINE: (usize, [u8; 2]) = (18, [243, 0]);

/// Length of a 64-bit ELF header in bytes.
const HEAD_BYTES: usize = 64;

/// The problem of `bytes`, which may be only the start of a file; none if they can be the head of a script.
pub fn script_problem(bytes: &[u8]) -> Option<&'static str> {
    let (at, machine) = MACHINE;
    if bytes.len() < HEAD_BYTES {
        return Some("is shorter than the head of an ELF");
    }
    if bytes.starts_with(&LOADED_CODE_MAGIC) {
        return None;
    }
    if bytes[..4] != IDENT[..4] {
        return Some("is no ELF");
    }
    if bytes[..IDENT.len()] != IDENT {
        return Some("is no 64-bit little-endian ELF");
    }
    (bytes[at..][..2] != machine).then_some("is an ELF for another machine than RISC-V")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_code_is_one() {
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(&LOADED_CODE_MAGIC);
        assert_eq!(script_problem(&head), None);
        head[7] += 1;
        assert!(script_problem(&head).is_some());
    }

    #[test]
    fn what_is_no_risc_v_elf_is_reported() {
        let mut head = [0; HEAD_BYTES];
        head[..IDENT.len()].copy_from_slice(&IDENT);
        head[18] = 243;
        assert_eq!(script_problem(&head), None);
        assert!(script_problem(&head[..63]).unwrap().contains("shorter"));
        for (at, value, says) in
            [(0, 0, "no ELF"), (4, 1, "64-bit"), (5, 2, "little-endian"), (18, 62, "machine")]
        {
            let mut head = head;
            head[at] = value;
            assert!(script_problem(&head).unwrap().contains(says), "{at}");
        }
    }
}
