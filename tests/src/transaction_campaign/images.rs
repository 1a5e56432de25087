//! Images for scenarios: the actor in several builds and layouts, and code for scripts to load. Compiled
//! once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use antares_abi::{CodeTier, CompileOptions, Hints, Isa, Sha256Digest};
use antares_vm::Program;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;

use super::layouts::{self, Layout};
use crate::{
    elf::{self, Segment},
    generate::Random,
    guests, kept, native,
};

/// Address of the actor's own code.
const TEXT: u64 = 0x1_0000;
/// Position and number of the addresses in its code that loaded code may call.
const CALLBACKS: (usize, usize) = (64, 4);
pub(super) const ROUTINE_BYTES: u64 = 64;
/// Number of routines in the code that scripts load; the last one is longer.
pub(super) const ROUTINES: u64 = 13;
/// Address of the library's code.
pub(super) const LIBRARY: u64 = 0xa_0000;

/// Builds of the actor: case, instruction set, optimisation.
const BUILDS: [(&str, &str, &str); 4] = [
    ("CONSTANT", "rv64imc", "-O2"),
    ("COMPUTED", "rv64imc", "-O2"),
    ("CONSTANT", "rv64imc", "-Os"),
    ("CONSTANT", "rv64imc_zba_zbb_zbc_zbs", "-O3"),
];

/// Build and layout of each image.
const IMAGES: [(usize, Layout); 11] = [
    (0, Layout::Plain),
    (1, Layout::Plain),
    (0, Layout::Overlapping),
    (1, Layout::Overlapping),
    (2, Layout::Covered),
    (0, Layout::Covered),
    (3, Layout::CoveredAndOverlapping),
    (0, Layout::Lines),
    (1, Layout::Lines),
    (2, Layout::Underlaid),
    (3, Layout::Plain),
];

/// Images with the same code in different layouts.
const TWINS: [usize; 2] = [0, 2];

/// An actor.
#[derive(Clone, Debug)]
pub struct Image {
    /// The file.
    pub elf: Bytes,
    /// Its layout.
    pub layout: Layout,
    /// Addresses of additional code: straight-line traces and similar.
    pub entries: Vec<u64>,
    /// Addresses that loaded code may call back.
    pub callbacks: Vec<u64>,
}

/// All images.
#[derive(Debug)]
pub struct Images {
    pub actors: Vec<Image>,
    /// Code without an ELF, padded to the end of a second page.
    pub routines: Bytes,
    /// Bytes of the code without padding.
    pub routines_bytes: usize,
    /// The same code in an ELF, as for libraries.
    pub library: Bytes,
    /// Range of its code in the file.
    pub library_code: std::ops::Range<usize>,
    /// Data that is not code.
    pub data: Bytes,
    compiled: Mutex<HashMap<Key, Compiled>>,
}

type Key = (Sha256Digest, u32, bool);
/// `None` if the compiler refuses.
type Compiled = Option<Arc<Program>>;

impl Images {
    /// All images, built once per process. They are the same in every campaign, so that their compiled code
    /// is cached between runs.
    ///
    /// # Errors
    /// No RISC-V compiler is installed.
    pub fn get() -> Result<&'static Self> {
        static IMAGES: OnceLock<Result<Images, String>> = OnceLock::new();
        let images = IMAGES.get_or_init(|| Self::make().map_err(|error| format!("{error:#}")));
        images.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn make() -> Result<Self> {
        let mut random = Random::new(0x1a6e5);
        let routines = code(&guests::case("actor/routines.S", "ROUTINES", "rv64imc", "-O2")?)?;
        let builds: Vec<Vec<u8>> = BUILDS
            .iter()
            .map(|(case, march, level)| code(&guests::case("actor/actor.c", case, march, level)?))
            .collect::<Result<_>>()?;
        let actors = IMAGES
            .iter()
            .enumerate()
            .map(|(index, (build, layout))| {
                let mut code = builds[*build].clone();
                // Make the code of images differ: code that two images share runs natively only if all of it
                // is equal. Two images intentionally share their code.
                if !TWINS.contains(&index) {
                    code.extend((index as u64 + 1).to_le_bytes());
                }
                image(&code, *layout, &mut random, &routines)
            })
            .collect::<Result<_>>()?;
        let table = (0..ROUTINES).flat_map(|index| (LIBRARY + index * ROUTINE_BYTES).to_le_bytes()).collect();
        let table = Segment::whole(LIBRARY + 0x1_0000, 4, table);
        let mut library = elf::file(LIBRARY, vec![Segment::whole(LIBRARY, 5, routines.clone()), table]);
        library.resize(library.len().next_multiple_of(0x1000), 0x33);
        let library_code = elf::segments(&library)[0].file.clone();
        let mut padded = routines.clone();
        padded.resize(0x2000, 0x44);
        let mut data: Vec<u8> = (0..0x3000 / 8).flat_map(|_| random.bits().to_le_bytes()).collect();
        // Include pages of zeros, and an end within a page.
        data[0x1000..0x1800].fill(0);
        data.resize(0x3000 + 0x123, 7);
        Ok(Self {
            actors,
            routines_bytes: routines.len(),
            routines: padded.into(),
            library: library.into(),
            library_code,
            data: data.into(),
            compiled: Mutex::default(),
        })
    }

    /// Native code for `elf` by the generator of `tier`; `None` if it refuses. Hints depend only on the ELF.
    ///
    /// # Errors
    /// The compiler failed.
    pub fn program(
        &self,
        elf: &Bytes,
        vm_version: u32,
        tier: CodeTier,
        hints: &Hints,
    ) -> Result<Option<Arc<Program>>> {
        let key = (Sha256Digest::of(elf), vm_version, tier == CodeTier::Full);
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(&key) {
            return Ok(known.clone());
        }
        let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
        let library = match tier {
            CodeTier::Full if hints.is_empty() => kept::library(elf, options)?,
            _ => native::compile_with(elf, options, tier, hints)?,
        };
        let program = library.ok().and_then(|library| Program::new(elf.clone(), library).ok()).map(Arc::new);
        compiled.insert(key, program.clone());
        Ok(program)
    }
}

fn code(guest: &[u8]) -> Result<Vec<u8>> {
    let segments = elf::segments(guest);
    let text = segments.iter().find(|segment| segment.flags & 1 != 0).context("a guest has code")?;
    ensure!(text.address == TEXT, "a guest's code is elsewhere");
    Ok(guest[text.file.clone()].to_vec())
}

fn image(code: &[u8], layout: Layout, random: &mut Random, routines: &[u8]) -> Result<Image> {
    let (from, count) = CALLBACKS;
    let table = code.get(from..from + 8 * count).context("an actor has a table")?;
    let callbacks = table
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
    let callbacks = callbacks.collect();
    let (around, entries) = layouts::segments(layout, random, routines);
    let segments = [vec![Segment::whole(TEXT, 5, code.to_vec())], around].concat();
    Ok(Image { elf: elf::file(TEXT, segments).into(), layout, entries, callbacks })
}
