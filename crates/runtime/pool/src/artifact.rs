//! The structural check of a compiled library, after sealing and before anybody maps it.
//!
//! A library of ours is data and code and nothing else: the dynamic linker must find nothing to run, to
//! fetch, to relocate or to resolve in it. Whatever is not on a list here is refused, so that what a loader
//! would do with it never matters. Everything is read as the dynamic linker reads it: through program headers
//! and addresses, not through sections.

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

/// Address space of a library, bytes, at most.
const LIBRARY_SPAN_BYTES_MAX: u64 = 1 << 30;
/// Bytes of a host page.
const PAGE_BYTES: u64 = 4096;
/// Entries of the dynamic section, at most.
const DYNAMIC_ENTRIES_MAX: usize = 64;

/// Segments that may be there. What else the dynamic linker looks at is refused: it believes `PT_PHDR` about
/// where the headers are, changes the protection of `PT_GNU_RELRO`, and follows the lengths in `PT_NOTE`,
/// each wherever it points to.
const SEGMENTS: [ProgramType; 4] = [elf::PT_NULL, PT_LOAD, PT_DYNAMIC, PT_GNU_STACK];

/// Segments of a library, at most.
const SEGMENTS_MAX: usize = 16;

/// Entries of the dynamic section that may be there, each once. No needed library, no initialiser, no
/// relocation, no version; no name either: the dynamic linker takes a library of that name for the next one
/// that is asked for by it.
const TAGS: [DynamicTag; 7] = [
    elf::DT_GNU_HASH,
    elf::DT_STRTAB,
    elf::DT_STRSZ,
    elf::DT_SYMTAB,
    elf::DT_SYMENT,
    elf::DT_FLAGS,
    elf::DT_FLAGS_1,
];

/// Why a library is not one of ours.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The bytes are not the ones asked for.
    #[error("the library's digest is {found}, expected {expected}")]
    Digest {
        /// Digest asked for.
        expected: Sha256Digest,
        /// Digest of the sealed bytes.
        found: Sha256Digest,
    },
    /// The sealed file cannot be read.
    #[error("the library cannot be read")]
    Read(#[from] io::Error),
    /// Not an ELF file, or cut off.
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
    /// A segment of a kind that no library of ours has.
    #[error("the library has a segment of type {kind:#x}")]
    Segment {
        /// `p_type`.
        kind: u32,
    },
    /// More segments than a library of ours has.
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
    /// Segments out of order, overlapping, too far apart, with bytes that are not in the file, or the first
    /// one not from the start of the file to the end of the headers.
    #[error("the library's segment at {address:#x} is misplaced")]
    Place {
        /// `p_vaddr`.
        address: u64,
    },
    /// The stack would become executable.
    #[error("the library does not say that the stack is not executable")]
    Stack,
    /// An entry of the dynamic section that no library of ours has, or has twice: it would make the dynamic
    /// linker do something.
    #[error("the library's dynamic section has an entry of type {tag:#x} that must not be there")]
    Tag {
        /// `d_tag`.
        tag: u64,
    },
    /// Flags that would make the dynamic linker do something (`TEXTREL`, `STATIC_TLS`, ...).
    #[error("the library's dynamic flags are {flags:#x}")]
    Flags {
        /// `d_val` of `DT_FLAGS` or `DT_FLAGS_1`.
        flags: u64,
    },
    /// A part that every library of ours has.
    #[error("the library has no {part}")]
    Missing {
        /// The part.
        part: &'static str,
    },
    /// A symbol that is imported, computed at run time, thread-local, or exported beside the one there must
    /// be.
    #[error("the library has an unexpected symbol, {name:?}")]
    Symbol {
        /// Its name.
        name: String,
    },
    /// The frame table is not as it must be.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// The header is of another version, or none.
    #[error("the library's header is not of ABI version {ABI_VERSION}")]
    Header,
}

/// Checks that `sealed` has the digest `expected` and the shape of a library of ours.
///
/// # Errors
/// The first thing that is not as it must be.
pub fn verify_library(sealed: &Sealed, expected: Sha256Digest) -> Result<(), ArtifactError> {
    verify_as(sealed, expected, &LIBRARY_MAGIC)
}

/// The same for a library that counts where it goes. What is found to be one is none for [`verify_library`],
/// and the other way round.
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

/// What looks up frames survives any table; one that lies would only make profiles wrong later.
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

/// Refuses segments of other kinds, or writable.
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
        // A dynamic section that says that it is writable would be written to.
        if [PT_LOAD, PT_DYNAMIC].contains(&kind) && has(segment, PF_W) {
            return Err(ArtifactError::Writable { address: segment.p_vaddr(Le) });
        }
    }
    Ok(())
}

/// Where the program headers end in the file.
fn headers_end(file: &[u8]) -> Result<u64, ArtifactError> {
    let header = FileHeader64::<Le>::parse(file)?;
    let bytes = u64::from(header.e_phnum(Le)) * size_of::<ProgramHeader64<Le>>() as u64;
    Ok(header.e_phoff(Le).saturating_add(bytes))
}

/// What the dynamic linker would map.
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
            // What is not in the file it would write zeros for.
            let is_whole = segment.p_filesz(Le) == segment.p_memsz(Le) && segment.p_align(Le) == PAGE_BYTES;
            // Without a segment that holds the headers it would copy them to where they can be written to.
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

    /// The bytes of the file from `address` to the end of its segment.
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

    /// Address of the one symbol there must be.
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
