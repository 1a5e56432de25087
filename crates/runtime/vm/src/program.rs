//! Programs with native code, and their identification in guest memory.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use antares_abi::{FrameAt, LOADED_CODE_HEAD_BYTES, LoadedCode, Sha256Digest};
use bytes::Bytes;
use ckb_vm::{CoreMachine, Error, elf::parse_elf, memory::FLAG_EXECUTABLE};

use crate::{Library, code::Code, limits::LOADS_MAX, memory::Core, pages::Pages, recording::Recorded};

/// A compiled ELF, or compiled code that scripts load at run time ([`LoadedCode`]).
#[derive(Debug)]
pub struct Program {
    elf: Bytes,
    /// Digest of the ELF, once a profile has requested it.
    digest: Arc<OnceLock<Sha256Digest>>,
    library: Library,
    regions: Vec<Region>,
    /// All pages of the regions.
    pages: Pages,
    /// All of these pages if no store of the library writes to them, else none.
    avoided: Pages,
    is_loaded_code: bool,
}

/// Executable pages of a program.
#[derive(Debug)]
struct Region {
    /// Addresses of whole pages.
    pages: Range<usize>,
    /// Address of the first byte of `code`; the rest of the pages is zeros.
    start: usize,
    /// Range of the code in the ELF.
    code: Range<usize>,
}

fn number(number: u64) -> Result<usize, Error> {
    usize::try_from(number).map_err(|_| Error::MemOutOfBound)
}

impl Region {
    /// The region of loaded code, which begins at the start of its first page.
    fn of_loaded(code: &LoadedCode<'_>) -> Result<Self, Error> {
        let (start, end) = (number(code.start)?, number(code.end)?);
        let code = LOADED_CODE_HEAD_BYTES..LOADED_CODE_HEAD_BYTES + code.code.len();
        Ok(Self { pages: start..end, start, code })
    }
}

impl Program {
    /// Creates a program. The caller guarantees that `library` was compiled from `elf`.
    ///
    /// # Errors
    /// ckb-vm's error, if it cannot load the ELF.
    pub fn new(elf: Bytes, library: Library) -> Result<Self, Error> {
        let loaded = LoadedCode::read(&elf).map(|code| Region::of_loaded(&code));
        let is_loaded_code = loaded.is_some();
        let regions = match loaded {
            Some(region) => vec![region?],
            None => Self::regions_of_elf(&elf, &library)?,
        };
        let pages = regions.iter().map(|region| region.pages.start as u64..region.pages.end as u64);
        let pages = pages.map(Pages::holding).fold(Pages::default(), Pages::or);
        let avoided = if is_loaded_code || library.stores_anywhere() { Pages::default() } else { pages };
        Ok(Self { regions, pages, avoided, is_loaded_code, elf, digest: Arc::default(), library })
    }

    fn regions_of_elf(elf: &Bytes, library: &Library) -> Result<Vec<Region>, Error> {
        let metadata = parse_elf::<u64>(elf, library.vm_version())?;
        let executable = metadata.actions.iter().filter(|action| action.flags & FLAG_EXECUTABLE != 0);
        let regions = executable.map(|action| {
            let start = number(action.addr)?;
            let end = start.checked_add(number(action.size)?).ok_or(Error::MemOutOfBound)?;
            Ok(Region {
                pages: start..end,
                start: start + number(action.offset_from_addr)?,
                code: number(action.source.start)?..number(action.source.end)?,
            })
        });
        regions.collect()
    }

    pub(crate) fn is_loaded_code(&self) -> bool {
        self.is_loaded_code
    }

    /// The ELF file.
    #[must_use]
    pub fn elf(&self) -> &Bytes {
        &self.elf
    }

    /// Whether the ELF has code at `address`.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        let address = usize::try_from(address).unwrap_or(usize::MAX);
        self.regions.iter().any(|region| region.pages.contains(&address))
    }

    /// The compiled code.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Whether the code was compiled for `vm_version` and `isa`.
    pub(crate) fn is_for(&self, vm_version: u32, isa: u8) -> bool {
        (self.library.vm_version(), self.library.isa()) == (vm_version, u32::from(isa))
    }

    /// Whether `elf` equals its ELF.
    pub(crate) fn is(&self, elf: &Bytes) -> bool {
        self.elf.len() == elf.len() && (self.elf.as_ptr() == elf.as_ptr() || self.elf == elf)
    }

    /// Whether memory contains its code, given that all its pages are executable. The result is final:
    /// executable pages cannot be written.
    fn is_in(&self, core: &Core) -> bool {
        !self.regions.is_empty() && self.regions.iter().all(|region| self.is_region_in(region, core))
    }

    fn is_region_in(&self, region: &Region, core: &Core) -> bool {
        let (Some(memory), Some(code)) =
            (core.bytes().get(region.pages.clone()), self.elf.get(region.code.clone()))
        else {
            return false;
        };
        let (before, rest) = memory.split_at((region.start - region.pages.start).min(memory.len()));
        let (found, after) = rest.split_at(code.len().min(rest.len()));
        found == code && before.iter().chain(after).all(|byte| *byte == 0)
    }
}

/// The code of one machine: programs that may occur, and those that are in its memory.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    known: Vec<Arc<Program>>,
    /// Programs that may still appear in memory: some of their pages are not executable.
    absent: Vec<Arc<Program>>,
    in_memory: Vec<Arc<Program>>,
    /// Pages that were executable at the last check.
    executable: Pages,
    /// Executable pages that some program in memory does not know of.
    others: Pages,
    /// Number of times that unprotected `others` appeared.
    loads: u32,
    texts: Vec<Range<usize>>,
}

impl Programs {
    /// Initializes the code of a machine after a load. `loaded` is the loaded program, if known.
    pub(crate) fn find(&mut self, known: Vec<Arc<Program>>, loaded: Option<Arc<Program>>, core: &mut Core) {
        let (isa, vm_version) = (core.isa(), core.version());
        let is_absent = |program: &&Arc<Program>| {
            program.is_for(vm_version, isa)
                && loaded.as_ref().is_none_or(|loaded| !Arc::ptr_eq(program, loaded))
        };
        self.absent = known.iter().filter(is_absent).cloned().collect();
        self.texts = known.iter().map(|program| program.library.text()).collect();
        self.known = known;
        self.in_memory = loaded.into_iter().collect();
        self.executable = core.executable();
        self.loads = 0;
        self.find_loaded(core);
    }

    /// All programs with native code, in the order of [`Code::texts`], as recorded programs of this version.
    pub(crate) fn recorded(&self, vm_version: u32, isa: u8) -> impl Iterator<Item = Recorded> {
        self.known.iter().map(move |program| {
            let digest = program.digest.clone();
            Recorded { elf: Some(program.elf.clone()), vm_version, isa, digest }
        })
    }

    /// The programs in the machine's memory.
    pub(crate) fn in_memory(&self) -> &[Arc<Program>] {
        &self.in_memory
    }

    /// Whether there is no native code to run.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether no store of `program` can miss the protection of a page.
    fn may_run(&self, program: &Program) -> bool {
        self.others.is_empty() || program.library.keeps_stores() && self.loads <= LOADS_MAX
    }

    /// Finds the programs whose last pages became executable. Compares each with memory at most once.
    fn find_loaded(&mut self, core: &mut Core) {
        let (executable, in_memory) = (self.executable, &mut self.in_memory);
        self.absent.retain(|program| {
            if !program.pages.minus(executable).is_empty() {
                return true;
            }
            if program.is_in(core) {
                in_memory.push(program.clone());
            }
            false
        });
        self.others = self.others();
        self.loads += u32::from(!self.others.minus(core.protected()).is_empty());
        if self.loads <= LOADS_MAX {
            core.protect(self.others);
        }
    }

    /// Executable pages that native code does not know of. A program knows its own pages; loaded code knows
    /// none.
    fn others(&self) -> Pages {
        let mut pages = self.in_memory.iter().map(|program| program.avoided);
        let Some(first) = pages.next() else { return Pages::default() };
        self.executable.minus(pages.fold(first, Pages::and))
    }
}

impl Code for Programs {
    fn texts(&self) -> &[Range<usize>] {
        &self.texts
    }

    fn frame(&self, address: usize, frame: &mut FrameAt) -> Option<usize> {
        let library = self.texts.iter().position(|text| text.contains(&address))?;
        self.known.get(library)?.library.frame(address, frame).then_some(library)
    }

    fn thunk(&self, pc: u64) -> Option<*const u8> {
        let mut programs = self.in_memory.iter().filter(|program| self.may_run(program));
        programs.find_map(|program| program.library.entry(pc))
    }

    fn is_sealed(&self, core: &Core) -> bool {
        core.protected() == self.others && (self.in_memory.is_empty() || core.executable() == self.executable)
    }

    fn changed(&mut self, core: &mut Core) -> bool {
        let executable = core.executable();
        if executable != self.executable {
            self.executable = executable;
            self.find_loaded(core);
        }
        self.in_memory.iter().all(|program| self.may_run(program))
    }
}
