//! Profiles in the formats of other tools, read back with those tools: their sums equal the cycles of the
//! run. Reports and skips a tool that is not installed.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use antares_profile::Profile;
use antares_profile_view::{Format, Programs, View, read_archive};
use antares_tests::{guests, oracle::Case};
use antares_vm::{Limits, Machine, RunScript};

use crate::check::script;

/// A limit that no program here reaches.
const CYCLES_MAX: u64 = 1 << 30;

/// A C program with an inlined function, one that is not inlined, and a loop.
const SOURCE: &str = "
static inline unsigned twice(unsigned x) { return x * 3 + (x >> 2); }
__attribute__((noinline)) static unsigned mix(unsigned x, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        x = twice(x) ^ i;
    }
    return x;
}
__attribute__((noinline)) int main_(void) {
    volatile unsigned sum = 1;
    for (int i = 0; i < 50; i++) {
        sum += mix(sum, 40);
    }
    return sum == 0;
}
__attribute__((naked)) void _start(void) {
    __asm__(\"call main_\\n li a7, 93\\n ecall\");
}
";

/// The guest above with line numbers.
fn guest(folder: &Path, more: &[&str]) -> Option<Vec<u8>> {
    let (source, elf) = (folder.join("guest.c"), folder.join("guest.elf"));
    fs::write(&source, SOURCE).unwrap();
    let mut args =
        vec!["--target=riscv64-unknown-elf", "-march=rv64imc", "-O2", "-g", "-nostdlib", "-fuse-ld=lld-22"];
    args.extend(["-fdebug-info-for-profiling", "-fno-pic", "-static", "-mno-relax"]);
    args.extend(more);
    args.extend(["-o", elf.to_str().unwrap(), source.to_str().unwrap()]);
    request("clang-22", &args)?;
    Some(fs::read(elf).unwrap())
}

/// The profile of a run with these arguments.
pub(crate) fn profile(elf: &[u8], args: &[&str], cycles_max: u64) -> (Profile, Programs) {
    let limits = Limits { cycles_max, debug_bytes_max: 1 << 20 };
    let Case { elf, args, .. } = Case::new(elf, args, script(2), cycles_max);
    let script = RunScript { elf: &elf, args: &args, vm_version: 2, isa: script(2).isa.0 };
    let (report, recording) = Machine::new().unwrap().profile(&script, &limits).unwrap();
    let profile = recording.to_profile();
    assert_eq!(profile.sum().cycles, report.cycles);
    let mut programs = Programs::default();
    programs.add(&elf);
    (profile, programs)
}

fn write(format: Format, profile: &Profile, programs: &Programs, path: &Path) -> Vec<u8> {
    let labels =
        BTreeMap::from([("tenant".to_owned(), "a".to_owned()), ("script".to_owned(), "g".to_owned())]);
    let bytes = format.write(&View::new(profile, programs), &labels, None).unwrap();
    fs::write(path, &bytes).unwrap();
    bytes
}

/// Output of a tool, if it is installed.
fn request(tool: &str, args: &[&str]) -> Option<String> {
    match Command::new(tool).args(args).output() {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{tool} {args:?}: {error}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            println!("skipped: {tool}: {error}");
            None
        }
    }
}

fn rsa() -> (Profile, Programs) {
    profile(&guests::bytes("rsa1024-imc").unwrap(), &["-", "1"], CYCLES_MAX)
}

#[test]
fn callgrind_annotate_finds_the_same_totals() {
    let (profile, programs) = rsa();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("callgrind.out.rsa");
    write(Format::Callgrind, &profile, &programs, &path);
    let Some(text) = request("callgrind_annotate", &["--inclusive=no", path.to_str().unwrap()]) else {
        return;
    };
    let plain = text.replace(',', "");
    let sum = profile.sum();
    let line = plain.lines().find(|line| line.contains("PROGRAM TOTALS")).unwrap();
    let figures: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        (figures[0], figures[2]),
        (&*sum.cycles.to_string(), &*sum.instructions.to_string()),
        "{line}"
    );
    let view = View::new(&profile, &programs);
    let top = view.top(1);
    assert!(plain.contains(&format!("{} ", top[0].own.cycles)), "{text}");
}

#[test]
fn speedscope_and_folded_say_the_same() {
    let (profile, programs) = rsa();
    let folder = tempfile::tempdir().unwrap();
    let folded = write(Format::Folded, &profile, &programs, &folder.path().join("rsa.folded"));
    let folded = String::from_utf8(folded).unwrap();
    let sum: u64 = folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, profile.sum().cycles);
    let bytes = write(Format::Speedscope, &profile, &programs, &folder.path().join("rsa.json"));
    let file: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let sampled = &file["profiles"][0];
    assert_eq!((sampled["type"].as_str(), sampled["unit"].as_str()), (Some("sampled"), Some("none")));
    let weights = sampled["weights"].as_array().unwrap();
    let samples = sampled["samples"].as_array().unwrap();
    assert_eq!(weights.iter().map(|weight| weight.as_u64().unwrap()).sum::<u64>(), sum);
    assert_eq!((samples.len(), samples.len()), (weights.len(), folded.lines().count()));
    let frames = file["shared"]["frames"].as_array().unwrap().len() as u64;
    assert!(samples.iter().flat_map(|s| s.as_array().unwrap()).all(|frame| frame.as_u64().unwrap() < frames));
}

#[test]
fn lines_and_inlined_functions_come_from_dwarf() {
    let folder = tempfile::tempdir().unwrap();
    let Some(elf) = guest(folder.path(), &[]) else { return };
    let (profile, programs) = profile(&elf, &[], CYCLES_MAX);
    let view = View::new(&profile, &programs);
    let row = |name: &str| view.top(100).into_iter().find(|row| row.name == name).unwrap();
    // An inlined function has its own cycles; its caller's total includes them.
    assert!(row("twice").own.cycles == 50 * 40 * 4, "{:?}", view.top(9));
    assert!(row("mix").total.cycles >= row("mix").own.cycles + row("twice").own.cycles);
    assert_eq!(view.call_graph("twice").unwrap().callers[0].name, "mix");
    let lcov = write(Format::Lcov, &profile, &programs, &folder.path().join("guest.info"));
    let lcov = String::from_utf8(lcov).unwrap();
    assert!(lcov.contains("FNDA:50,mix\n"), "{lcov}");
    // The body of the loop is line 5 of the source.
    assert!(lcov.contains("DA:5,2000\n"), "{lcov}");
    let none = Format::Lcov.write(&View::new(&profile, &Programs::default()), &BTreeMap::new(), None);
    assert!(none.unwrap_err().to_string().contains("-g"));
}

#[test]
fn llvm_reads_the_sample_profile_and_compiles_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(elf) = guest(folder.path(), &[]) else { return };
    let (before, programs) = profile(&elf, &[], CYCLES_MAX);
    let (text, merged) = (folder.path().join("guest.afdo"), folder.path().join("merged.afdo"));
    write(Format::SampleProfile, &before, &programs, &text);
    let args = ["merge", "--sample", "--text", "-o", merged.to_str().unwrap(), text.to_str().unwrap()];
    if request("llvm-profdata-22", &args).is_none() {
        return;
    }
    let merged_text = fs::read_to_string(&merged).unwrap();
    assert!(merged_text.contains("mix:") && merged_text.contains("twice:"), "{merged_text}");
    let flag = format!("-fprofile-sample-use={}", merged.display());
    let better = guest(folder.path(), &[&flag]).unwrap();
    assert_ne!(better, elf, "the profile changes nothing");
    let (after, _) = profile(&better, &[], CYCLES_MAX);
    println!("{} cycles, {} with the profile", before.sum().cycles, after.sum().cycles);
}

#[test]
fn archives_and_pages_hold_the_whole() {
    let (profile, programs) = rsa();
    let folder = tempfile::tempdir().unwrap();
    let bytes = write(Format::Antares, &profile, &programs, &folder.path().join("rsa.antares"));
    let (back, elfs) = read_archive(&bytes).unwrap();
    assert_eq!(back, profile);
    assert_eq!(View::new(&back, &elfs).top(5), View::new(&profile, &programs).top(5));
    // A name that tries to break out of the page's script element.
    let page = write(Format::Html, &profile, &programs, &folder.path().join("rsa.html"));
    let page = String::from_utf8(page).unwrap();
    assert_eq!(page.matches("</script").count(), 1);
    assert!(page.contains("mpi_mul_hlp") && !page.contains("http://") && !page.contains("https://"));
    let stripped = antares_tests::elf::Cut::Sections.apply(&guests::bytes("rsa1024-imc").unwrap());
    let symbols = antares_profile_view::Symbols::of(&stripped, script(2));
    assert!(!symbols.has_names() && symbols.functions().len() > 20);
}
