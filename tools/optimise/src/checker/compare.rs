//! Compares two files: equal behavior, and no higher cost on any path.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use antares_abi::{CompileLimits, CompileOptions, Isa};
use antares_program::{Decoder, Image, Instruction, Op, RegSet, read};
use object::{
    LittleEndian as Little,
    elf::{self, FileHeader64},
    read::elf::{FileHeader as _, ProgramHeader as _},
};

use super::{
    code::{Code, Exit, Function, Piece, Row},
    cycles::Straight,
    difference::{Difference, Why},
    linked::Linked,
    state::differing_after,
};
use crate::RewriteError;

/// Machines without fusion, to read single instructions. The first one decodes all instructions.
const PLAIN: [CompileOptions; 3] = [
    CompileOptions { vm_version: 2, isa: Isa(Isa::B.0 | Isa::A.0) },
    CompileOptions { vm_version: 1, isa: Isa::B },
    CompileOptions { vm_version: 0, isa: Isa::IMC },
];

/// The chain's machines.
const MACHINES: [CompileOptions; 3] = [
    CompileOptions { vm_version: 0, isa: Isa::IMC },
    CompileOptions { vm_version: 1, isa: Isa(Isa::B.0 | Isa::MOP.0) },
    CompileOptions { vm_version: 2, isa: Isa(Isa::B.0 | Isa::A.0 | Isa::MOP.0) },
];

/// A linked script and its changeable parts.
pub struct LinkedScript {
    pub(crate) elf: Vec<u8>,
    pub(crate) code: Code,
    /// Loaded for each of [`PLAIN`].
    plain: Vec<Image>,
    /// Loaded for each of [`MACHINES`].
    fused: Vec<Image>,
}

impl LinkedScript {
    /// Reads `elf`.
    ///
    /// # Errors
    /// It is not a script, or its relocations do not identify its code.
    pub fn read(elf: &[u8]) -> Result<Self, RewriteError> {
        let load = |machine: &CompileOptions| read(elf, *machine, &CompileLimits::DEFAULT);
        // Nothing to compare for a machine that does not load the script.
        let others = PLAIN[1..].iter().filter_map(|machine| load(machine).ok());
        let plain: Vec<Image> = std::iter::once(load(&PLAIN[0])?).chain(others).collect();
        let fused = MACHINES.iter().filter_map(|machine| load(machine).ok()).collect();
        let mut linked = Linked::read(elf, &plain[0])?;
        let code = Code::find(&mut linked, &plain[0])?;
        Ok(Self { elf: elf.to_vec(), code, plain, fused })
    }

    /// The differences of `new` in behavior, and its higher costs. Empty if it may replace this script.
    ///
    /// # Errors
    /// The files differ outside of their code, or `new` does not load.
    pub fn differences(&self, new: &[u8]) -> Result<Vec<Difference>, RewriteError> {
        let changed = self.changed_positions(new)?;
        let (plain, fused) = (load_as(new, &self.plain)?, load_as(new, &self.fused)?);
        let mut found = self.stray_bytes(&changed, plain.iter().chain(&fused));
        let is_changed = |piece: &Piece| changed.range(piece.start()..piece.end).next().is_some();
        let mut readers: Vec<_> = self
            .plain
            .iter()
            .zip(&plain)
            .map(|(old, new)| Reader {
                version: old.options.vm_version,
                both: [Decoder::new(old), Decoder::new(new)],
            })
            .collect();
        for function in self.changed_functions(&changed) {
            let mut rows = BTreeMap::new();
            for piece in function.pieces.values().filter(|piece| is_changed(piece)) {
                match new_row(piece, &mut readers) {
                    Ok(row) => drop(rows.insert(piece.start(), row)),
                    Err(why) => found.push(Difference { at: piece.start()..piece.end, why }),
                }
            }
            found.extend(state_differences(function, &rows));
        }
        for (old, new) in self.fused.iter().zip(&fused) {
            found.extend(self.dearer(old, new, &changed));
        }
        Ok(found)
    }

    fn changed_functions(&self, changed: &BTreeSet<u64>) -> impl Iterator<Item = &Function> {
        let is_changed = |function: &&Function| changed.range(function.start..function.end).next().is_some();
        self.code.functions.iter().filter(is_changed)
    }

    /// Locations where `new` costs more than `old` up to the next control transfer. Control enters a piece only
    /// at its start, and a function also from the code before it.
    fn dearer(&self, old: &Image, new: &Image, changed: &BTreeSet<u64>) -> Vec<Difference> {
        let version = old.options.vm_version;
        let mut decoders = [old, new].map(Decoder::new);
        let mut found = Vec::new();
        let pieces = self.changed_functions(changed).flat_map(|function| function.pieces.keys().copied());
        for at in pieces.chain(self.code.positions_before()) {
            let [old, new] = decoders.each_mut().map(|decoder| Straight::at(decoder, at));
            // Ignore locations that the old script does not execute.
            let Some(old_cycles) = old.cycles else { continue };
            if new.cycles.is_none_or(|new_cycles| new_cycles > old_cycles) {
                found.push(Difference { at: at..old.end, why: Why::Cycles(version) });
            }
        }
        found
    }

    /// The loaded parts of the file: offset, address and length.
    fn loaded(&self) -> Result<Vec<[u64; 3]>, RewriteError> {
        let damaged = |error: object::Error| RewriteError::Elf { error: error.to_string() };
        let header = FileHeader64::<Little>::parse(&*self.elf).map_err(damaged)?;
        let segments = header.program_headers(Little, &*self.elf).map_err(damaged)?;
        let loaded = segments.iter().filter(|segment| segment.p_type(Little) == elf::PT_LOAD);
        let part = |segment: &elf::ProgramHeader64<Little>| {
            [segment.p_offset(Little), segment.p_vaddr(Little), segment.p_filesz(Little)]
        };
        Ok(loaded.map(part).collect())
    }

    /// Addresses of bytes that differ in the file `new`; fails unless each is loaded exactly once.
    fn changed_positions(&self, new: &[u8]) -> Result<BTreeSet<u64>, RewriteError> {
        if new.len() != self.elf.len() {
            return Err(RewriteError::Outside(self.elf.len() as u64));
        }
        let loaded = self.loaded()?;
        let mut changed = BTreeSet::new();
        let bytes = self.elf.iter().zip(new).zip(0_u64..);
        for offset in bytes.filter(|((old, new), _)| old != new).map(|(_, offset)| offset) {
            let address = |[start, address, bytes]: &[u64; 3]| {
                offset
                    .checked_sub(*start)
                    .filter(|inside| inside < bytes)
                    .map(|inside| address.wrapping_add(inside))
            };
            let mut addresses = loaded.iter().filter_map(address);
            match (addresses.next(), addresses.next()) {
                (Some(address), None) => changed.insert(address),
                _ => return Err(RewriteError::Outside(offset)),
            };
        }
        Ok(changed)
    }

    /// File offset of the byte at `address`.
    pub(crate) fn offset(&self, address: u64) -> Option<usize> {
        let place = |[offset, start, bytes]: [u64; 3]| {
            address.checked_sub(start).filter(|inside| *inside < bytes).map(|inside| offset + inside)
        };
        usize::try_from(self.loaded().ok()?.into_iter().find_map(place)?).ok()
    }

    /// Differing bytes outside of changeable pieces.
    fn stray_bytes<'a>(
        &self,
        changed: &BTreeSet<u64>,
        new: impl Iterator<Item = &'a Image>,
    ) -> Vec<Difference> {
        let pieces = self.code.functions.iter().flat_map(|function| function.pieces.values());
        let changeable: Vec<Range<u64>> =
            pieces.filter(|piece| piece.may_change()).map(|piece| piece.start()..piece.end).collect();
        let may_change = |address: &u64| {
            let next = changeable.partition_point(|range| range.start <= *address);
            next > 0 && changeable[next - 1].contains(address)
        };
        let mut stray: BTreeSet<u64> = changed.iter().copied().filter(|at| !may_change(at)).collect();
        for (old, new) in self.plain.iter().chain(&self.fused).zip(new) {
            if (&old.executable, &old.segments, old.entry) != (&new.executable, &new.segments, new.entry) {
                stray.insert(old.entry.0);
            }
            // Compare loaded pages.
            let words = old.segments.iter().flat_map(|(start, end)| (*start..*end).step_by(8));
            let differing =
                words.filter(|at| old.bytes::<8>(*at) != new.bytes::<8>(*at)).flat_map(|at| at..at + 8);
            let differing = differing.filter(|at| old.bytes::<1>(*at) != new.bytes::<1>(*at));
            stray.extend(differing.filter(|at| !changed.contains(at)));
        }
        stray.into_iter().map(|at| Difference { at: at..at + 1, why: Why::Bytes }).collect()
    }
}

/// Loads `new` for the machines of `old`.
fn load_as(new: &[u8], old: &[Image]) -> Result<Vec<Image>, RewriteError> {
    old.iter().map(|old| Ok(read(new, old.options, &CompileLimits::DEFAULT)?)).collect()
}

/// One machine's view of the old file and the new one.
struct Reader<'a> {
    version: u32,
    both: [Decoder<'a>; 2],
}

/// The instructions of `piece` as `decoder` reads them, if they end at its end.
fn row(piece: &Piece, decoder: &mut Decoder<'_>) -> Option<Row> {
    let (mut row, mut at) = (Row::new(), piece.start());
    while at < piece.end {
        let instruction = decoder.decode(at)?;
        row.push((at, instruction));
        at += u64::from(instruction.length);
    }
    (at == piece.end).then_some(row)
}

/// The new instructions of `piece`. Each machine that reads the old ones like the first machine must also read
/// the new ones like it.
fn new_row(piece: &Piece, readers: &mut [Reader<'_>]) -> Result<Row, Why> {
    let rows =
        |reader: &mut Reader<'_>| (reader.version, reader.both.each_mut().map(|decoder| row(piece, decoder)));
    let mut rows = readers.iter_mut().map(rows);
    let Some((_, [Some(old), Some(new)])) = rows.next() else { return Err(Why::Length) };
    for (version, [old_here, new_here]) in rows {
        if old_here.as_ref() == Some(&old) && new_here.as_ref() != Some(&new) {
            return Err(Why::Version(version));
        }
    }
    Ok(new)
}

/// Locations where an observable state differs. `rows` contains the new code of pieces.
fn state_differences(function: &Function, rows: &BTreeMap<u64, Row>) -> Vec<Difference> {
    let mut differing: BTreeMap<u64, RegSet> =
        function.pieces.keys().map(|pc| (*pc, RegSet::EMPTY)).collect();
    let mut open: BTreeSet<u64> = differing.keys().copied().collect();
    let mut refused: BTreeMap<u64, Why> = BTreeMap::new();
    while let Some(at) = open.pop_first() {
        let (Some(piece), Some(&before)) = (function.pieces.get(&at), differing.get(&at)) else { continue };
        let after = match through(piece, rows.get(&at).unwrap_or(&piece.row), before) {
            Ok(after) => after,
            Err(why) => {
                refused.insert(at, why);
                continue;
            }
        };
        for next in piece.next() {
            match differing.get_mut(&next) {
                Some(known) if known.or(after) != *known => {
                    *known = known.or(after);
                    open.insert(next);
                }
                Some(_) => {}
                // Control leaves the function.
                None => {
                    if let Some(register) = after.iter().next() {
                        refused.insert(at, Why::Register(register));
                    }
                }
            }
        }
    }
    let blame = |at: &u64| *at..function.pieces.get(at).map_or(*at, |piece| piece.end);
    refused.iter().map(|(at, why)| Difference { at: blame(at), why: *why }).collect()
}

/// The registers that differ after `piece` if `before` differed at its start and `new` replaces it.
fn through(piece: &Piece, new: &Row, before: RegSet) -> Result<RegSet, Why> {
    let seen = match piece.exit {
        Exit::Straight { .. } => return differing_after(&piece.row, new, before),
        Exit::Branch { .. } => {
            let read = |(_, instruction): &(u64, Instruction)| [instruction.rs1, instruction.rs2];
            before.and(RegSet::of(&piece.row.iter().flat_map(read).collect::<Vec<_>>()))
        }
        Exit::Jump { .. } => RegSet::EMPTY,
        // A call overwrites its link register after reading its target.
        Exit::Away { .. } => {
            let links = |(_, i): &(u64, Instruction)| {
                let read = if i.op == Op::Jalr { RegSet::of(&[i.rs1]) } else { RegSet::EMPTY };
                matches!(i.op, Op::Jal | Op::Jalr).then(|| RegSet::of(&[i.rd]).minus(read))
            };
            before.minus(piece.row.first().and_then(links).unwrap_or_default())
        }
    };
    match (seen.iter().next(), piece.exit) {
        (Some(register), _) => Err(Why::Register(register)),
        (None, Exit::Away { .. }) => Ok(RegSet::EMPTY),
        (None, _) => Ok(before),
    }
}
