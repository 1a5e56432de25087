//! What it costs not to believe the compiler: looks at machine code, at the shape of a library, and address
//! space around a machine.

use std::time::{Duration, Instant};

use antares_abi::{CodeTier, Hints};
use antares_pool::{Sealed, verify_library};
use antares_tests::{guests, native};
use antares_vm::Machine;
use anyhow::{Result, anyhow};

use super::{Results, scripts::Script};
use crate::programs::OPTIONS;

/// Guests whose libraries are looked at; larger ones take long to compile.
const GUESTS: [&str; 2] = ["keccak-imc", "secp256k1-imc"];
/// What a check of code is told for.
const CODE_BYTES: f64 = 102_400.0;

pub(super) fn measure(trivial: &Script, rounds: usize, results: &mut Results) -> Result<()> {
    for tier in CodeTier::ALL {
        let mut per_code = Vec::new();
        for guest in GUESTS {
            let library = native::library_with(&guests::bytes(guest)?, OPTIONS, tier, &Hints::default())?;
            let library = library.map_err(|reason| anyhow!("{guest} is refused: {reason}"))?;
            let bytes = antares_codecheck::check(&library)?.code_bytes as f64;
            let times = times(4 * rounds, || Ok(_ = antares_codecheck::check(&library)?))?;
            per_code.push(median(times).as_secs_f64() * 1e3 * CODE_BYTES / bytes);
        }
        // The worst of them counts.
        let worst = per_code.iter().copied().fold(0.0, f64::max);
        results.figure(format!("code_check_{tier}_ms_per_100_kb"), worst);
    }
    // The supervisor's own look at a library that is new to it: its digest, and its structure.
    for (name, script) in [("trivial", trivial), ("secp256k1", &Script::guest("secp256k1-imc")?)] {
        let digest = script.sealed_library()?.digest();
        let look = || {
            let sealed = Sealed::new("library", &script.library)?;
            let began = Instant::now();
            verify_library(&sealed, digest)?;
            Ok(began.elapsed())
        };
        let times = (0..200 * rounds).map(|_| look()).collect::<Result<Vec<_>>>()?;
        results.latency(format!("library_check_{name}"), times);
    }
    // All of it, guards and stack; the zygote does it once, a verification for each further machine.
    let map = || {
        drop(Machine::new()?);
        Ok(())
    };
    results.latency("machine_mapped", times(100 * rounds, map)?);
    Ok(())
}

fn times(count: usize, mut work: impl FnMut() -> Result<()>) -> Result<Vec<Duration>> {
    (0..count)
        .map(|_| {
            let began = Instant::now();
            work()?;
            Ok(began.elapsed())
        })
        .collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
