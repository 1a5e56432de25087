//! Smaller ELFs behave like the originals: published scripts and our guests, by memory, outcome and cycles in
//! each VM version.

use std::fs;

use antares_analysis::size::{ShrinkError, Sizes, shrink};
use antares_tests::guests::{self, RustLevel, published_scripts, rust_guest};
use antares_vm::{Limits, Machine, RunScript, Tier};
use bytes::Bytes;

use crate::check::script;

/// Runs both ELFs and checks that they behave equally.
#[track_caller]
fn compare(machine: &mut Machine, name: &str, elf: &Bytes, smaller: &Bytes) {
    let limits = Limits { cycles_max: 300_000, debug_bytes_max: 1 << 20 };
    let args = [Bytes::from_static(b"-"), Bytes::from_static(b"1")];
    for vm_version in 0..3 {
        let isa = script(vm_version).isa.0;
        let mut run = |elf: &Bytes| {
            let script = RunScript { elf, args: &args, vm_version, isa };
            let report = machine.run(&script, &limits, Tier::Interpreter, None).unwrap();
            (report.outcome, report.cycles, report.load_cycles, report.debug)
        };
        assert_eq!(run(elf), run(smaller), "{name}, version {vm_version}");
    }
}

#[test]
fn smaller_scripts_are_the_same_scripts() {
    let mut machine = Machine::new().unwrap();
    let published = published_scripts().unwrap().into_iter();
    let published = published.map(|script| (script.name, Bytes::from(fs::read(&script.path).unwrap())));
    let ours = ["secp256k1-b", "rsa1024-b", "lua-b"]
        .into_iter()
        .filter_map(|name| Some((name, guests::bytes(name).ok()?)));
    let ours = ours.map(|(name, elf)| (name.to_owned(), Bytes::from(elf)));
    let rust = ["collections", "formats", "handlers", "witness"];
    let rust = rust.map(|name| (name.to_owned(), Bytes::from(rust_guest(name, RustLevel::Small).unwrap())));
    let (mut scripts, mut before, mut after, mut shares) = (0_u64, 0, 0, 0.0);
    for (name, elf) in published.chain(ours).chain(rust) {
        let shrunk = match shrink(&elf) {
            Ok(shrunk) => shrunk,
            Err(ShrinkError::NoScript) => continue,
            // Files made by a fuzzer, whose segments overlap the removed parts, are not shrunk.
            Err(ShrinkError::Differs) if name.contains("crash-") => continue,
            Err(error) => panic!("{name}: {error}"),
        };
        let smaller = Bytes::from(shrunk.elf);
        compare(&mut machine, &name, &elf, &smaller);
        assert!(shrunk.header_bytes <= 14, "{name}");
        // Shrinking again removes nothing.
        assert_eq!(shrink(&smaller).unwrap().elf, smaller, "{name}");
        println!("{name}: {} to {}, packed {}", elf.len(), smaller.len(), shrunk.is_packed);
        (scripts, before, after) = (scripts + 1, before + elf.len(), after + smaller.len());
        shares += 1.0 - smaller.len() as f64 / elf.len() as f64;
    }
    println!(
        "{scripts} scripts, {before} to {after} bytes, {:.1} % less on average",
        100.0 * shares / scripts as f64
    );
    assert!(scripts > 20 && after < before, "{scripts}");
}

#[test]
fn libraries_stay_whole() {
    assert_eq!(shrink(&guests::loaded_library("-Os").unwrap()), Err(ShrinkError::Library));
}

#[test]
fn sizes_add_up() {
    for published in published_scripts().unwrap() {
        let elf = fs::read(&published.path).unwrap();
        let Some(sizes) = Sizes::of(&elf, script(2)) else { continue };
        let sum = sizes.loaded_bytes + sizes.padding_bytes + sizes.strippable_bytes;
        assert_eq!(sum, elf.len() as u64, "{}", published.name);
        assert!(sizes.sections.is_sorted_by_key(|part| std::cmp::Reverse(part.bytes)), "{}", published.name);
    }
}

#[test]
fn hostile_files_are_refused_or_survived() {
    let elf = guests::bytes("exit-imc").unwrap();
    for at in (0..elf.len().min(400)).step_by(5) {
        for value in [0, 1, 0x7f, 0xff] {
            let mut broken = elf.clone();
            broken[at] = value;
            if let Ok(shrunk) = shrink(&broken) {
                assert!(shrunk.elf.len() <= broken.len());
            }
            drop(Sizes::of(&broken, script(2)));
        }
        assert!(shrink(&elf[..at.min(119)]).is_err());
    }
}
