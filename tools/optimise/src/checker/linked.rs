//! The linker's records in an ELF: code, symbols, and all formed code addresses.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use antares_program::{Decoder, Image};
use object::{
    LittleEndian as Little,
    elf::{self, FileHeader64, RelocationType},
    read::elf::{FileHeader as _, Rela as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable},
};

use super::{
    relocation::{Reference, Site, ULEB128, low, part_of_difference, reference, uleb128},
    state::{Shape, shape},
};
use crate::RewriteError;

/// Bytes of an ELF header.
const HEADER_BYTES: u64 = 64;

type Sections<'a> = SectionTable<'a, FileHeader64<Little>>;
type Symbols<'a> = SymbolTable<'a, FileHeader64<Little>>;

/// A function from the symbol table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: String,
}

/// The records of a linked file.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    /// Executable sections.
    pub(crate) code: Vec<Range<u64>>,
    /// Functions with a size, by address.
    pub(crate) functions: Vec<Symbol>,
    /// Code addresses that a symbol or a relocation names.
    pub(crate) labels: BTreeSet<u64>,
    /// Code addresses that something forms, each with the location of one such reference.
    pub(crate) taken: BTreeMap<u64, u64>,
    /// Starts of data in code, as marked by assemblers.
    pub(crate) data: BTreeSet<u64>,
    /// Instructions with a relocation.
    pub(crate) relocated: BTreeSet<u64>,
    /// Unwind tables: they name the ends of prologues, but control does not go there.
    unwind: Vec<Range<u64>>,
    global_pointer: Option<u64>,
}

/// A relocation with a resolved symbol.
struct Relocation {
    kind: RelocationType,
    place: u64,
    /// `None` for a symbol that is not in this file.
    target: Option<u64>,
    /// The loader overwrites these bytes, so they are not compared.
    is_dynamic: bool,
}

impl Linked {
    /// Reads the linker's records of `elf`, whose loaded image is `image`.
    ///
    /// # Errors
    /// The file has no relocations, or they do not match its bytes.
    pub(crate) fn read(elf: &[u8], image: &Image) -> Result<Self, RewriteError> {
        let damaged = |error: object::Error| RewriteError::Elf { error: error.to_string() };
        let header = FileHeader64::<Little>::parse(elf).map_err(damaged)?;
        let sections = header.sections(Little, elf).map_err(damaged)?;
        let symbols = sections.symbols(Little, elf, elf::SHT_SYMTAB).map_err(damaged)?;
        let exports = sections.symbols(Little, elf, elf::SHT_DYNSYM).map_err(damaged)?;
        let mut linked = Self::default();
        for section in sections.iter() {
            let (start, size) = (section.sh_addr(Little), section.sh_size(Little));
            let end = start.checked_add(size).ok_or(RewriteError::Outside(start))?;
            if section.sh_flags(Little).0 & elf::SHF_EXECINSTR.0 != 0 && size > 0 {
                let is_loaded = |range: &(u64, u64)| range.0 <= start && end <= range.1;
                if !image.executable.iter().any(is_loaded) {
                    return Err(RewriteError::Outside(start));
                }
                linked.code.push(start..end);
            }
            match sections.section_name(Little, section) {
                Ok(b".eh_frame" | b".eh_frame_hdr") => linked.unwind.push(start..end),
                // Assemblers write handler locations as differences without relocations.
                Ok(name) if name.starts_with(b".gcc_except_table") && size > 0 => {
                    return Err(RewriteError::Exceptions(start));
                }
                _ => {}
            }
        }
        linked.read_symbols(&symbols);
        linked.read_symbols(&exports);
        linked.functions.sort();
        linked.functions.dedup_by(|next, kept| (next.start, next.end) == (kept.start, kept.end));
        let all = linked.relocations(elf, &sections, &symbols)?;
        linked.verify(&all, image, &mut Decoder::new(image))?;
        linked.take(image.entry.0, image.entry.0);
        linked.take_unrelocated(image);
        Ok(linked)
    }

    fn is_code(&self, address: u64) -> bool {
        self.code.iter().any(|range| range.contains(&address))
    }

    fn take(&mut self, target: u64, place: u64) {
        self.labels.insert(target);
        self.taken.entry(target).or_insert(place);
    }

    /// Treats data words as addresses if they could be: linker scripts write some without relocations, such as
    /// sums of symbols and numbers. Unaligned words count only if another reference names the same address.
    fn take_unrelocated(&mut self, image: &Image) {
        // Numbers in the file's header, which may be loaded, are not addresses.
        let header = |start: u64| u64::from(image.bytes(start) == Some(elf::ELFMAG)) * HEADER_BYTES;
        let places = image.segments.iter().flat_map(|(start, end)| start + header(*start)..*end);
        // 32 bits are also the start of a 64-bit word; no code has a larger address.
        let word = |place: u64| Some((image.bytes(place).map(u32::from_le_bytes)?.into(), place));
        let is_taken = |&(word, place): &(u64, u64)| {
            let may_be = place.is_multiple_of(4) || self.labels.contains(&word);
            may_be && self.is_code(word) && !self.is_code(place)
        };
        let found: Vec<(u64, u64)> = places.filter_map(word).filter(is_taken).collect();
        found.into_iter().for_each(|(word, place)| self.take(word, place));
    }

    fn read_symbols(&mut self, symbols: &Symbols<'_>) {
        for symbol in symbols.iter() {
            let (start, size) = (symbol.st_value(Little), symbol.st_size(Little));
            let name = symbols.symbol_name(Little, symbol).map(String::from_utf8_lossy).unwrap_or_default();
            if name == "__global_pointer$" {
                self.global_pointer = Some(start);
            }
            if symbol.st_shndx(Little) == elf::SHN_UNDEF || !self.is_code(start) {
                continue;
            }
            match (symbol.st_type(), start.checked_add(size)) {
                (elf::STT_FUNC | elf::STT_GNU_IFUNC, Some(end)) if size > 0 => {
                    self.labels.insert(start);
                    self.functions.push(Symbol { start, end, name: name.into_owned() });
                }
                _ if name.starts_with("$d") => {
                    self.data.insert(start);
                }
                (elf::STT_SECTION, _) => {}
                _ if name.starts_with("$x") => {}
                _ => {
                    self.labels.insert(start);
                }
            }
        }
    }

    /// All relocations of loaded sections.
    fn relocations(
        &self,
        elf: &[u8],
        sections: &Sections<'_>,
        symbols: &Symbols<'_>,
    ) -> Result<Vec<Relocation>, RewriteError> {
        let damaged = |error: object::Error| RewriteError::Elf { error: error.to_string() };
        let is_loaded = |flags: elf::SectionFlags| flags.0 & elf::SHF_ALLOC.0 != 0;
        let mut all = Vec::new();
        let mut are_kept = false;
        for section in sections.iter() {
            let kind = section.sh_type(Little);
            let about = usize::try_from(section.sh_info(Little)).unwrap_or(0);
            let about = sections.section(object::SectionIndex(about)).ok().filter(|_| about != 0);
            let is_kept = about.is_some_and(|about| is_loaded(about.sh_flags(Little)));
            if !is_kept && !is_loaded(section.sh_flags(Little)) {
                continue;
            }
            if matches!(kind, elf::SHT_REL | elf::SHT_RELR | elf::SHT_CREL) {
                return Err(RewriteError::Elf { error: "its relocations have no addends".to_owned() });
            }
            let Some((relocations, link)) = section.rela(Little, elf).map_err(damaged)? else { continue };
            let own;
            let symbols = if link == symbols.section() {
                // Dynamic relocations only cover what the loader writes.
                are_kept |= !is_loaded(section.sh_flags(Little));
                symbols
            } else {
                // Relocations of ifuncs name no symbols.
                own = match link.0 {
                    0 => SymbolTable::default(),
                    _ => sections.symbol_table_by_index(Little, elf, link).map_err(damaged)?,
                };
                &own
            };
            for relocation in relocations {
                let target = match relocation.symbol(Little, false) {
                    None => Some(0),
                    Some(index) => {
                        let symbol = symbols.symbol(index).map_err(damaged)?;
                        let is_here = symbol.st_shndx(Little) != elf::SHN_UNDEF;
                        is_here.then(|| symbol.st_value(Little))
                    }
                };
                let addend = relocation.r_addend(Little).cast_unsigned();
                all.push(Relocation {
                    kind: relocation.r_type(Little, false),
                    place: relocation.r_offset(Little),
                    target: target.map(|symbol| symbol.wrapping_add(addend)),
                    is_dynamic: is_loaded(section.sh_flags(Little)),
                });
            }
        }
        if are_kept { Ok(all) } else { Err(RewriteError::NoRelocations) }
    }

    /// Compares `all` with the bytes, and records their targets.
    fn verify(
        &mut self,
        all: &[Relocation],
        image: &Image,
        decoder: &mut Decoder<'_>,
    ) -> Result<(), RewriteError> {
        let mut upper_halves: HashMap<u64, Option<u64>> = HashMap::new();
        let dynamic: BTreeSet<u64> = all.iter().filter(|one| one.is_dynamic).map(|one| one.place).collect();
        for Relocation { kind, place, target, .. } in all {
            if matches!(*kind, elf::R_RISCV_PCREL_HI20 | elf::R_RISCV_GOT_HI20) {
                upper_halves.insert(*place, target.filter(|_| *kind == elf::R_RISCV_PCREL_HI20));
            }
        }
        let mut differences: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        for &Relocation { kind, place, target, .. } in all {
            let stale = RewriteError::Stale { kind: kind.0, at: place };
            let reference = reference(kind).ok_or(RewriteError::Unknown { kind: kind.0, at: place })?;
            if reference == Reference::None {
                continue;
            }
            if self.is_code(place) {
                self.relocated.insert(place);
                if matches!(kind, elf::R_RISCV_CALL | elf::R_RISCV_CALL_PLT) {
                    self.relocated.insert(place.wrapping_add(4));
                }
            }
            // An undefined weak symbol has no address.
            let Some(mut target) = target else { continue };
            let is_unwinding = self.unwind.iter().any(|range| range.contains(&place));
            let instruction = decoder.decode(place).filter(|_| self.is_code(place));
            if reference == Reference::LowerHalf {
                match upper_halves.get(&target) {
                    None => return Err(stale),
                    // A global offset table entry has its own relocation.
                    Some(None) => continue,
                    Some(Some(address)) => {
                        let number = low(address.wrapping_sub(target)).cast_signed();
                        if instruction.is_none_or(|instruction| instruction.imm != number) {
                            return Err(stale);
                        }
                        target = *address;
                    }
                }
            } else if let Some((bits, sign)) = part_of_difference(kind).filter(|_| !is_unwinding) {
                let sum = differences.entry((place, bits)).or_default();
                *sum = sum.wrapping_add(target.wrapping_mul(sign));
            } else if !is_unwinding && !dynamic.contains(&place) {
                let site = Site { kind, place, target, global_pointer: self.global_pointer };
                target = site.formed(image, decoder).ok_or(stale)?;
            }
            if !self.is_code(target) {
                continue;
            }
            self.labels.insert(target);
            if reference != Reference::Branch && !is_unwinding {
                self.taken.entry(target).or_insert(place);
            }
            let is_access = |op| matches!(shape(op), Some(Shape::Load | Shape::Store));
            if instruction.is_some_and(|instruction| is_access(instruction.op)) {
                self.data.insert(target);
            }
        }
        are_written(&differences, image)
    }
}

/// Whether `image` contains these differences, by address and bits.
fn are_written(differences: &BTreeMap<(u64, u32), u64>, image: &Image) -> Result<(), RewriteError> {
    for (&(at, bits), sum) in differences {
        let written = match bits {
            ULEB128 => uleb128(image, at),
            _ => image.bytes(at).map(u64::from_le_bytes),
        };
        let mask = u64::MAX >> (64 - bits.min(64));
        if written.is_none_or(|written| written & mask != sum & mask) {
            return Err(RewriteError::Stale { kind: elf::R_RISCV_SUB32.0, at });
        }
    }
    Ok(())
}
