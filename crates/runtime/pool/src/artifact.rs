//! The structural check of a compiled library, after sealing and before it is mapped.
//!
//! A library contains only data and code: the dynamic linker must find nothing to run, fetch, relocate or
//! resolve in it. The check rejects everything that is not on an allow list, so a loader's reaction to it is
//! irrelevant. It parses the file like the dynamic linker does: through program headers and addresses, not
//! through sections.

use std::io;

use antares_abi::{
    ABI_VERSION, COUNTED_MAGIC, FrameError, FrameTable, LIBRARY_MAGIC, LIBRARY_SYMBOL, LibraryHeader,
    Sha256Digest,
};
use object::{
    LittleEndian as Le, Pod,
    elf::{
        self, Dyn64, DynamicTag, EM_X86_64, ET_DYN, FileHeader64, PF_W, PF_X, PT_DYNAMIC, PT_GNU_STACK,
        PT_LOAD, ProgramHeader64, ProgramType, Sym64,
    },
    pod,
    read::elf::{Dyn, FileHeader, GnuHashTable, ProgramHeader, Sym},
};

use crate::Sealed;

/// Maximum bytes of a library's address space.
const LIBRARY_SPAN_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a host page.
const PAGE_BYTES: u64 = 4096;
/// Maximum entries of the dynamic section.
const DYNAMIC_ENTRIES_MAX: usize = 64;

/// Permitted segments. The dynamic linker would also process `PT_PHDR` (location of the headers),
/// `PT_GNU_RELRO` (changes protection) and `PT_NOTE` (follows lengths), each at an arbitrary address, so these
/// are rejected.
const SEGMENTS: [ProgramType; 4] = [elf::PT_NULL, PT_LOAD, PT_DYNAMIC, PT_GNU_STACK];

/// Maximum segments of a library.
const SEGMENTS_MAX: usize = 16;

/// Permitted entries of the dynamic section, each once. No needed library, initialiser, relocation or
/// version. No name either: the dynamic linker would reuse a library of the same name for the next load.
const TAGS: [DynamicTag; 7] = [
    elf::DT_GNU_HASH,
    elf::DT_STRTAB,
    elf::DT_STRSZ,
    elf::DT_SYMTAB,
    elf::DT_SYMENT,
    elf::DT_FLAGS,
    elf::DT_FLAGS_1,
];

/// Why a file is not a valid library.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The digest is not the expected one.
    #[error("the library's digest is {found}, expected {expected}")]
    Digest {
        /// Expected digest.
        expected: Sha256Digest,
        /// Digest of the sealed bytes.
        found: Sha256Digest,
    },
    /// The sealed file cannot be read.
    #[error("the library cannot be read")]
    Read(#[from] io::Error),
    /// Not an ELF file, or truncated.
    #[error("the library is not a whole ELF file: {0}")]
    Elf(#[from] object::Error),
    /// Not a shared object for x86-64.
    #[error("the library is not an x86-64 shared object (type {kind}, machine {machine})")]
    Kind {
        /// `e_type`.
        kind: u16,
        /// `e_machine`.
        machine: u16,
    },
    /// A segment of a kind that libraries do not have.
    #[error("the library has a segment of type {kind:#x}")]
    Segment {
        /// `p_type`.
        kind: u32,
    },
    /// Too many segments.
    #[error("the library has {count} segments, at most {SEGMENTS_MAX} may be there")]
    Segments {
        /// `e_phnum`.
        count: usize,
    },
    /// A segment that is writable.
    #[error("the library's segment at {address:#x} is writable")]
    Writable {
        /// `p_vaddr`.
        address: u64,
    },
    /// Segments that are out of order, overlap, are too far apart or have bytes outside of the file; or a first
    /// segment that does not contain the file's start and all headers.
    #[error("the library's segment at {address:#x} is misplaced")]
    Place {
        /// `p_vaddr`.
        address: u64,
    },
    /// The stack would become executable.
    #[error("the library does not say that the stack is not executable")]
    Stack,
    /// An unknown or duplicate entry of the dynamic section: it would make the dynamic linker act on it.
    #[error("the library's dynamic section has an entry of type {tag:#x} that must not be there")]
    Tag {
        /// `d_tag`.
        tag: u64,
    },
    /// Flags that the dynamic linker acts on (`TEXTREL`, `STATIC_TLS`, ...).
    #[error("the library's dynamic flags are {flags:#x}")]
    Flags {
        /// `d_val` of `DT_FLAGS` or `DT_FLAGS_1`.
        flags: u64,
    },
    /// A required part is missing.
    #[error("the library has no {part}")]
    Missing {
        /// The part.
        part: &'static str,
    },
    /// A symbol that is imported, computed at run time or thread-local, or an additional export.
    #[error("the library has an unexpected symbol, {name:?}")]
    Symbol {
        /// Its name.
        name: String,
    },
    /// The frame table is invalid.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// The header is missing, or of another version.
    #[error("the library's header is not of ABI version {ABI_VERSION}")]
    Header,
}

/// Checks that `sealed` has the digest `expected` and the structure of a library.
///
/// # Errors
/// The first violation.
pub fn verify_library(sealed: &Sealed, expected: Sha256Digest) -> Result<(), ArtifactError> {
    verify_as(sealed, expected, &LIBRARY_MAGIC)
}

/// Like [`verify_library`], for a library with counters. Each of the two functions rejects the other's
/// libraries.
///
/// # Errors
/// As [`verify_library`].
pub(crate) fn verify_counted_library(sealed: &Sealed, expected: Sha256Digest) -> Result<(), ArtifactError> {
    verify_as(sealed, expected, &COUNTED_MAGIC)
}

fn verify_as(sealed: &Sealed, expected: Sha256Digest, magic: &[u8; 8]) -> Result<(), ArtifactError> {
    if sealed.digest() != expected {
        return Err(ArtifactError::Digest { expected, found: sealed.digest() });
    }
    check(&sealed.read()?, magic)
}

fn check(file: &[u8], magic: &[u8; 8]) -> Result<(), ArtifactError> {
    let header = FileHeader64::<Le>::parse(file)?;
    let (kind, machine) = (header.e_type(Le), header.e_machine(Le));
    if !header.is_little_endian() || !header.is_class_64() || kind != ET_DYN || machine != EM_X86_64 {
        return Err(ArtifactError::Kind { kind: kind.0, machine: machine.0 });
    }
    let segments = header.program_headers(Le, file)?;
    let image = Image::of(segments, file)?;
    let dynamic = one(segments, PT_DYNAMIC).ok_or(ArtifactError::Missing { part: "dynamic section" })?;
    let dynamic = Dynamic::of(&image, dynamic.p_vaddr(Le))?;
    let address = dynamic.only_symbol(&image)?;
    check_header(image.at(address, "header")?, magic)?;
    check_frames(file)
}

/// Lookups tolerate any table; an incorrect one would only make profiles wrong later.
fn check_frames(file: &[u8]) -> Result<(), ArtifactError> {
    let tail = file.len().saturating_sub(FrameTable::TAIL_BYTES);
    let Some(length) = FrameTable::length(&file[tail..], file.len() as u64) else { return Ok(()) };
    FrameTable::read(file[file.len() - length..].to_vec())?.check()?;
    Ok(())
}

fn one(segments: &[ProgramHeader64<Le>], kind: ProgramType) -> Option<&ProgramHeader64<Le>> {
    let mut found = segments.iter().filter(|segment| segment.p_type(Le) == kind);
    found.next().filter(|_| found.next().is_none())
}

fn check_header(bytes: &[u8], magic: &[u8; 8]) -> Result<(), ArtifactError> {
    let version = magic.len()..magic.len() + 4;
    let is_ours = bytes.len() >= size_of::<LibraryHeader>()
        && bytes.starts_with(magic)
        && bytes.get(version) == Some(&ABI_VERSION.to_le_bytes());
    if is_ours { Ok(()) } else { Err(ArtifactError::Header) }
}

/// Rejects segments of other kinds, and writable ones.
fn check_kinds(segments: &[ProgramHeader64<Le>]) -> Result<(), ArtifactError> {
    if segments.len() > SEGMENTS_MAX {
        return Err(ArtifactError::Segments { count: segments.len() });
    }
    let has = |segment: &ProgramHeader64<Le>, flag: elf::ProgramFlags| segment.p_flags(Le).0 & flag.0 != 0;
    if one(segments, PT_GNU_STACK).is_none_or(|stack| has(stack, PF_X)) {
        return Err(ArtifactError::Stack);
    }
    for segment in segments {
        let kind = segment.p_type(Le);
        if !SEGMENTS.contains(&kind) {
            return Err(ArtifactError::Segment { kind: kind.0 });
        }
        // The dynamic linker writes to a dynamic section that is marked as writable.
        if [PT_LOAD, PT_DYNAMIC].contains(&kind) && has(segment, PF_W) {
            return Err(ArtifactError::Writable { address: segment.p_vaddr(Le) });
        }
    }
    Ok(())
}

/// File offset of the end of the program headers.
fn headers_end(file: &[u8]) -> Result<u64, ArtifactError> {
    let header = FileHeader64::<Le>::parse(file)?;
    let bytes = u64::from(header.e_phnum(Le)) * size_of::<ProgramHeader64<Le>>() as u64;
    Ok(header.e_phoff(Le).saturating_add(bytes))
}

/// The file as the dynamic linker maps it.
struct Image<'a> {
    /// Address and bytes from the file of each loaded segment.
    loaded: Vec<(u64, &'a [u8])>,
}

impl<'a> Image<'a> {
    fn of(segments: &[ProgramHeader64<Le>], file: &'a [u8]) -> Result<Self, ArtifactError> {
        check_kinds(segments)?;
        let (mut loaded, mut page) = (Vec::new(), 0);
        for segment in segments.iter().filter(|segment| segment.p_type(Le) == PT_LOAD) {
            let address = segment.p_vaddr(Le);
            let misplaced = ArtifactError::Place { address };
            // The dynamic linker maps segment after segment over one reservation, trusting their order.
            let end = address.checked_add(segment.p_memsz(Le)).filter(|end| *end <= LIBRARY_SPAN_BYTES_MAX);
            let bytes = segment.data(Le, file);
            let (Some(end), Ok(bytes)) = (end, bytes) else { return Err(misplaced) };
            let is_congruent = address % PAGE_BYTES == segment.p_offset(Le) % PAGE_BYTES;
            // The dynamic linker would write zeros for missing bytes.
            let is_whole = segment.p_filesz(Le) == segment.p_memsz(Le) && segment.p_align(Le) == PAGE_BYTES;
            // The dynamic linker would copy headers that are outside of all segments to writable memory.
            let is_first = address == 0 && segment.p_offset(Le) == 0 && end >= headers_end(file)?;
            let is_in_order = if loaded.is_empty() { is_first } else { address / PAGE_BYTES >= page };
            if !is_in_order || !is_congruent || !is_whole {
                return Err(misplaced);
            }
            page = end.div_ceil(PAGE_BYTES);
            loaded.push((address, bytes));
        }
        Ok(Self { loaded })
    }

    /// The file's bytes from `address` to the end of the segment.
    fn at(&self, address: u64, part: &'static str) -> Result<&'a [u8], ArtifactError> {
        let tail = |(start, bytes): &(u64, &'a [u8])| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(offset..).filter(|tail| !tail.is_empty())
        };
        self.loaded.iter().find_map(tail).ok_or(ArtifactError::Missing { part })
    }

    /// The `count` entries at `address`.
    fn table<T: Pod>(
        &self,
        address: u64,
        count: usize,
        part: &'static str,
    ) -> Result<&'a [T], ArtifactError> {
        let bytes = self.at(address, part)?;
        let (entries, _) =
            pod::slice_from_bytes(bytes, count).map_err(|()| ArtifactError::Missing { part })?;
        Ok(entries)
    }
}

/// Addresses from the dynamic section.
#[derive(Default)]
struct Dynamic {
    hash: Option<u64>,
    symbols: Option<u64>,
    strings: Option<u64>,
}

impl Dynamic {
    fn of(image: &Image<'_>, address: u64) -> Result<Self, ArtifactError> {
        let room = image.at(address, "dynamic section")?.len() / size_of::<Dyn64<Le>>();
        let entries = image.table::<Dyn64<Le>>(address, room.min(DYNAMIC_ENTRIES_MAX), "dynamic section")?;
        let mut found = Self::default();
        for (entry, before) in entries.iter().zip(0..) {
            let (tag, value) = (entry.d_tag(Le), entry.d_val(Le));
            match tag {
                elf::DT_NULL => return Ok(found),
                elf::DT_GNU_HASH => found.hash = Some(value),
                elf::DT_SYMTAB => found.symbols = Some(value),
                elf::DT_STRTAB => found.strings = Some(value),
                elf::DT_FLAGS if value & !elf::DF_BIND_NOW.0 != 0 => {
                    return Err(ArtifactError::Flags { flags: value });
                }
                elf::DT_FLAGS_1 if value & !elf::DF_1_NOW.0 != 0 => {
                    return Err(ArtifactError::Flags { flags: value });
                }
                _ => {}
            }
            let is_twice = entries[..before].iter().any(|other| other.d_tag(Le) == tag);
            if is_twice || !TAGS.contains(&tag) {
                return Err(ArtifactError::Tag { tag: tag.0.cast_unsigned() });
            }
        }
        Err(ArtifactError::Missing { part: "end of the dynamic section" })
    }

    /// Address of the only symbol.
    fn only_symbol(&self, image: &Image<'_>) -> Result<u64, ArtifactError> {
        let (Some(hash), Some(symbols), Some(strings)) = (self.hash, self.symbols, self.strings) else {
            return Err(ArtifactError::Missing { part: "symbol table" });
        };
        let hash = GnuHashTable::<FileHeader64<Le>>::parse(Le, image.at(hash, "hash table")?)?;
        let count = hash.symbol_table_length(Le).ok_or(ArtifactError::Missing { part: "hash table" })?;
        let count = usize::try_from(count).map_err(|_| ArtifactError::Missing { part: "symbol table" })?;
        let symbols = image.table::<Sym64<Le>>(symbols, count, "symbol table")?;
        let strings = image.at(strings, "string table")?;
        // The first entry is the null symbol.
        let mut exported = None;
        for symbol in symbols.iter().skip(1) {
            let name = name_of(symbol, strings);
            let is_ours = name == LIBRARY_SYMBOL.as_bytes()
                && symbol.st_type() == elf::STT_OBJECT
                && symbol.st_bind() == elf::STB_GLOBAL
                && !symbol.is_undefined(Le)
                && exported.is_none();
            if !is_ours {
                return Err(ArtifactError::Symbol { name: String::from_utf8_lossy(name).into_owned() });
            }
            exported = Some(symbol.st_value(Le));
        }
        exported.ok_or(ArtifactError::Missing { part: "header symbol" })
    }
}

fn name_of<'a>(symbol: &Sym64<Le>, strings: &'a [u8]) -> &'a [u8] {
    let start = usize::try_from(symbol.st_name(Le)).unwrap_or(usize::MAX);
    let name = strings.get(start..).unwrap_or_default();
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}
