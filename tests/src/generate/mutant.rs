//! Mutants: published scripts with flipped bits in code, headers or data.

use std::{fs, ops::Range, sync::OnceLock};

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;

use super::Random;
use crate::{elf::segments, guests::published_scripts};

/// Maximum size of a mutated script: each mutant is compiled, and large ones take long.
const SCRIPT_BYTES_MAX: usize = 16 << 10;
/// Size of the ELF header and a few program headers.
const HEADER_BYTES: usize = 64 + 4 * 56;
/// Flag of executable segments: bit 0 of a program header's flags.
const EXECUTABLE: u32 = 1;

/// A script with some bits flipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Name of the script in [`published_scripts`].
    pub script: String,
    /// The published script.
    pub original: Bytes,
    /// Flipped bits: index of the byte, and a mask.
    pub flips: Vec<(usize, u8)>,
}

impl Mutant {
    /// Builds the mutated file.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = self.original.to_vec();
        for (at, mask) in &self.flips {
            bytes[*at] ^= mask;
        }
        bytes.into()
    }
}

/// Draws a mutant.
///
/// # Errors
/// The published scripts are not found.
pub fn mutant(random: &mut Random) -> Result<Mutant> {
    let scripts = small_scripts()?;
    let (name, original) = &scripts[random.below(scripts.len() as u32) as usize];
    let mut code: Vec<Range<usize>> = segments(original)
        .into_iter()
        .filter(|segment| segment.flags & EXECUTABLE != 0)
        .map(|segment| segment.file)
        .filter(|file| !file.is_empty())
        .collect();
    if code.is_empty() {
        code.push(0..original.len());
    }
    let flips = (0..random.between(1, 4)).map(|_| {
        let range = match random.below(8) {
            0 => 0..HEADER_BYTES.min(original.len()),
            1 => 0..original.len(),
            _ => code[random.below(code.len() as u32) as usize].clone(),
        };
        (range.start + random.below(range.len() as u32) as usize, 1 << random.below(8))
    });
    Ok(Mutant { script: name.clone(), flips: flips.collect(), original: original.clone() })
}

/// Names and bytes of the scripts to mutate, read once.
fn small_scripts() -> Result<&'static [(String, Bytes)]> {
    static SCRIPTS: OnceLock<Result<Vec<(String, Bytes)>, String>> = OnceLock::new();
    let read = || -> Result<Vec<(String, Bytes)>> {
        let scripts = published_scripts()?.into_iter().map(|script| {
            let bytes =
                fs::read(&script.path).with_context(|| format!("reading {}", script.path.display()))?;
            Ok((script.name, bytes.into()))
        });
        let all: Vec<(String, Bytes)> = scripts.collect::<Result<_>>()?;
        Ok(all.into_iter().filter(|(_, bytes)| bytes.len() <= SCRIPT_BYTES_MAX).collect())
    };
    let scripts = SCRIPTS.get_or_init(|| read().map_err(|error| format!("{error:#}")));
    scripts.as_deref().map_err(|error| anyhow!("{error}"))
}
