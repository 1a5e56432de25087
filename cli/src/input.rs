//! Reads a script or a transaction from a file or standard input, up to its limit.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context, anyhow};
use object::{
    Endianness, Object as _, ObjectKind, ObjectSegment as _, SegmentFlags,
    read::elf::{ElfFile64, ElfSegment64},
};

use crate::{
    failure::Failure,
    limits::{ELF_BYTES_MAX, SCRIPT_BYTES_MAX},
    local::loaded::loaded_part,
};

pub mod parsed_transaction;
pub(crate) mod run_request;
pub mod verify_request;

/// First bytes of an ELF.
const ELF_MAGIC: &[u8] = b"\x7fELF";

/// Whether `path` means standard input (or output).
pub fn is_stdio(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The bytes of the script at `path`, `-` for standard input. Only the loaded part of a script beyond the
/// limit.
pub fn read_script(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut elf = read_elf(path, SCRIPT_BYTES_MAX)?;
    if elf.len() as u64 > SCRIPT_BYTES_MAX {
        let part = loaded_part(&elf).filter(|part| part.len() as u64 <= SCRIPT_BYTES_MAX);
        let part = part.ok_or_else(|| {
            let why =
                anyhow!("more than {SCRIPT_BYTES_MAX} bytes of it are loaded, the most that are accepted");
            Failure::Usage(why.context(format!("cannot take {}", path.display())))
        })?;
        let (all, loaded) = (elf.len(), part.len());
        eprintln!("antares: {} has {all} bytes, {loaded} to load: the rest is left out", path.display());
        elf = part;
    }
    if let Some(what) = no_script(&elf) {
        eprintln!("antares: {} is {what}", path.display());
    }
    Ok(elf)
}

/// Describes a file that is not a script, with the next step.
fn no_script(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes {
        [] => "empty: has its build failed?",
        [b'{', ..] => "JSON: antares verify --tx takes a transaction",
        [0, b'a', b's', b'm', ..] => "WebAssembly: build for riscv64imac-unknown-none-elf",
        [b'!', b'<', b'a', b'r', b'c', b'h', ..] => "a static library: link it to a script",
        [0x1f, 0x8b, ..] => "compressed: unpack it first",
        [0x7f, ..] => return other_machine(bytes).or_else(|| unlinked(bytes)),
        _ if str::from_utf8(bytes).is_ok() => "text: name the file that is built of it",
        _ => return None,
    })
}

/// The machine of an ELF for another machine than the VM. The VM does not check: it runs any ELF, and fails
/// with an arbitrary error.
pub(crate) fn other_machine(elf: &[u8]) -> Option<&'static str> {
    let head = elf.first_chunk::<20>().filter(|head| head.starts_with(ELF_MAGIC))?;
    Some(match u16::from_le_bytes([head[18], head[19]]) {
        243 => return None,
        62 => "an ELF file for x86-64, not for RISC-V",
        183 => "an ELF file for AArch64, not for RISC-V",
        _ => "an ELF file for another machine, not for RISC-V",
    })
}

/// Describes an ELF for the VM whose linking is incomplete.
fn unlinked(elf: &[u8]) -> Option<&'static str> {
    let file = ElfFile64::<Endianness>::parse(elf).ok()?;
    let is_code = |segment: ElfSegment64<'_, '_, Endianness>| {
        let is_executable =
            matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0);
        is_executable
            && (segment.address()..segment.address().saturating_add(segment.size())).contains(&file.entry())
    };
    match file.kind() {
        ObjectKind::Relocatable => Some("an object file: link it to a script"),
        _ if file.segments().any(is_code) => None,
        _ => Some("an ELF file whose entry point is in no code: does it have a global _start?"),
    }
}

/// At most `bytes_max` bytes at `path`, `-` for standard input.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    read_with(path, |reader| read_bounded(reader, bytes_max))
}

/// The same with a higher limit for an ELF, whose debug data may exceed its loaded part.
pub(crate) fn read_elf(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    read_with(path, |reader| {
        let mut start = Vec::new();
        (&mut *reader).take(ELF_MAGIC.len() as u64).read_to_end(&mut start)?;
        let bytes_max = if start == ELF_MAGIC { ELF_BYTES_MAX } else { bytes_max };
        read_bounded(start.as_slice().chain(reader), bytes_max)
    })
}

fn read_with(
    path: &Path,
    read: impl FnOnce(&mut dyn Read) -> anyhow::Result<Vec<u8>>,
) -> Result<Vec<u8>, Failure> {
    let read = if is_stdio(path) {
        read(&mut io::stdin().lock()).context("cannot read standard input")
    } else {
        File::open(path)
            .map_err(anyhow::Error::from)
            .and_then(|mut file| read(&mut file))
            .with_context(|| format!("cannot read {}", path.display()))
    };
    read.map_err(Failure::Usage)
}

/// Reads all of `reader`, unless that exceeds `bytes_max`.
fn read_bounded(reader: impl Read, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed distinguishes "exactly the limit" from "beyond it".
    reader.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(anyhow!("longer than {bytes_max} bytes, the longest that is accepted"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_script_is_noticed() {
        let of = |machine: u16| {
            let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
            elf.extend(machine.to_le_bytes());
            other_machine(&elf)
        };
        assert_eq!(of(243), None);
        for (machine, name) in [(62, "x86-64"), (9999, "another machine")] {
            assert!(of(machine).is_some_and(|reported| reported.contains(name)), "{machine}");
        }
        assert_eq!((other_machine(b"\x7fELF"), other_machine(&[0; 64])), (None, None));
        let files: [(&[u8], &str); 4] =
            [(b"", "empty"), (b"{}", "JSON"), (b"\0asm", "WebAssembly"), (b"int main", "text")];
        for (bytes, what) in files {
            assert!(no_script(bytes).is_some_and(|reported| reported.starts_with(what)), "{what}");
        }
        assert_eq!(no_script(b"\xff\xfe"), None);
    }

    #[test]
    fn reads_up_to_the_limit_and_not_beyond() {
        assert_eq!(read_bounded(&[7; 16][..], 16).unwrap(), vec![7; 16]);
        assert!(read_bounded(&[7; 17][..], 16).unwrap_err().to_string().contains("longer than 16 bytes"));
        assert!(read_bounded(io::repeat(0), 16).is_err());
    }
}
