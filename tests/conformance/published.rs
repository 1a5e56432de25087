//! Published scripts: whole in every version, cut in the latest one, and with limits around their number of
//! cycles.
//!
//! Most make a system call that only transactions have, and end there equally.

use std::fs;

use antares_tests::{
    differential::{Equal, compare},
    elf::Cut,
    guests::published_scripts,
    kept,
    oracle::Case,
};
use antares_vm::{Library, Machine};
use bytes::Bytes;

use crate::check::{CYCLES_MAX, each, script};

/// Maximum size of scripts compiled for all versions and forms; larger ones are compiled only for the latest
/// version, whole and without sections.
const SMALL_BYTES: usize = 128 << 10;

/// Minimum number of ELF files in the published crates.
const SCRIPTS_MIN: usize = 85;

#[derive(Clone, Debug)]
struct Job {
    name: String,
    elf: Bytes,
    cut: Cut,
    version: u32,
}

fn jobs() -> Vec<Job> {
    let scripts = published_scripts().unwrap();
    assert!(scripts.len() >= SCRIPTS_MIN, "only {} scripts were found", scripts.len());
    let mut jobs = Vec::new();
    for script in scripts {
        let whole = fs::read(&script.path).unwrap();
        let mut seen: Vec<Vec<u8>> = Vec::new();
        for cut in Cut::ALL {
            let elf = cut.apply(&whole);
            // A file that was published without symbols is unchanged by stripping.
            if seen.contains(&elf) || whole.len() > SMALL_BYTES && cut == Cut::Symbols {
                continue;
            }
            seen.push(elf.clone());
            // Cuts only affect recovery, which is the same in all versions.
            let is_newest = whole.len() > SMALL_BYTES || seen.len() > 1;
            let versions = if is_newest { 2..3 } else { 0..3 };
            jobs.extend(versions.map(|version| Job {
                name: script.name.clone(),
                elf: elf.clone().into(),
                cut,
                version,
            }));
        }
    }
    jobs
}

/// Compares both tiers with the oracle, then with limits around the exact number of cycles. Returns the
/// native run.
fn check_job(machine: &mut Machine, job: &Job) -> Result<Equal, String> {
    let options = script(job.version);
    let case = |cycles_max| Case { elf: job.elf.clone(), args: Vec::new(), options, cycles_max, code: None };
    let mut run = |cycles_max, library: Option<&Library>| -> Result<Equal, String> {
        let equal = compare(machine, &case(cycles_max), library).map_err(|error| format!("{error:#}"))?;
        equal.map_err(|difference| format!("limit {cycles_max}, native {}: {difference}", library.is_some()))
    };
    let interpreted = run(CYCLES_MAX, None)?;
    let library = match kept::library(&job.elf, options).map_err(|error| format!("{error:#}"))? {
        Ok(library) => library,
        // We compile exactly the files that ckb-vm loads.
        Err(reason) if reason == "elf" && interpreted.cycles == 0 => return Ok(interpreted),
        Err(reason) => return Err(format!("refused: {reason}, but {}", interpreted.outcome)),
    };
    let native = run(CYCLES_MAX, Some(&library))?;
    let cycles = native.cycles;
    for limit in [cycles, cycles.saturating_sub(1), cycles / 2, 1, 0] {
        let limited = run(limit, Some(&library))?;
        let expected = if limit >= cycles { native.outcome.as_str() } else { "CyclesExceeded" };
        // For a failing script the counter is not exact, and the limit may be exceeded first or not.
        if native.outcome.starts_with("Exit") && limited.outcome != expected {
            return Err(format!("limit {limit} of {cycles}: {}", limited.outcome));
        }
    }
    Ok(native)
}

#[test]
fn published_scripts_end_alike_whole_stripped_and_cut() {
    let jobs = jobs();
    each(&jobs, |machine, job| {
        let name = format!("{}, {:?} cut, version {}", job.name, job.cut, job.version);
        match check_job(machine, job) {
            Ok(equal) => Ok(Some(shown(&name, &equal))),
            Err(failure) => Err(format!("{name}: {failure}")),
        }
    });
    println!("{} jobs", jobs.len());
}

fn shown(name: &str, equal: &Equal) -> String {
    let share = 100 * equal.native_cycles / equal.cycles.max(1);
    let left = equal.restarted.map_or("", |reason| reason.name());
    format!("{name}: {}, {} cycles, {share} % native {left}", equal.outcome, equal.cycles)
}
