//! Native code of code that scenarios load at run time, with entries at its routines.

use std::sync::Arc;

use antares_abi::{CodeTier, Hints, LoadedCode};
use antares_vm::{Program, Unknown};
use anyhow::Result;

use super::{
    images::{Images, ROUTINE_BYTES},
    scenario::Scenario,
};

/// Bytes of each page in which a routine may begin.
const ROUTINES_BYTES: u64 = 1024;

/// Native code of `met`, in all versions of the scenario. Mixes both generators: code of `tier` with loaded
/// code that is usually compiled by the baseline, which is fast.
pub(super) fn programs(
    images: &Images,
    scenario: &Scenario,
    met: &[Unknown],
    tier: CodeTier,
) -> Result<Vec<Arc<Program>>> {
    let mut programs = Vec::new();
    for Unknown { elf, .. } in met {
        let Some(code) = LoadedCode::read(elf) else { continue };
        let places = (code.start..code.end).step_by(usize::try_from(ROUTINE_BYTES)?);
        let places = places.filter(|place| place % 0x1000 < ROUTINES_BYTES);
        let hints = Hints::new(places.map(|place| (place, true)));
        let is_full = tier == CodeTier::Full && code.start / 0x1000 % 4 == 0;
        let tier = if is_full { CodeTier::Full } else { CodeTier::Baseline };
        for version in scenario.versions() {
            programs.extend(images.program(elf, version, tier, &hints)?);
        }
    }
    Ok(programs)
}
