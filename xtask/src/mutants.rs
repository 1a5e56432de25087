//! Mistakes put into a copy of the engine on purpose, one at a time: the differential test must find each of them.
//!
//! `cargo xtask mutants [NAME]`. Not part of `make test`: each mistake builds the engine again.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};

/// Programs that a mistake must be found within.
const PROGRAMS: &str = "8000";

/// A mistake: a file, what stands there once, and what is written instead.
struct Mutant {
    name: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const MUTANTS: [Mutant; 11] = [
    Mutant {
        name: "cycles-of-division",
        file: "crates/program/src/decode.rs",
        from: "u32::try_from(estimate_cycles(packed)).ok()?;",
        to: "u32::try_from(estimate_cycles(packed)).ok()?;\n        let cycles = if cycles == 32 { 31 } else { cycles };",
    },
    Mutant {
        name: "limit-not-checked-before-ecalls",
        file: "crates/lift/src/meter.rs",
        from: "Terminator::Ecall { .. } | Terminator::Exit { .. }",
        to: "Terminator::Ecall { .. }",
    },
    Mutant {
        name: "reads-not-checked",
        file: "crates/lift/src/memory.rs",
        from: ".filter(|group| !is_covered(group))",
        to: ".filter(|group| !is_covered(group) && group.access == Access::Write)",
    },
    Mutant {
        name: "check-one-byte-short",
        file: "crates/lift/src/memory.rs",
        from: "(first, Op::Check { access, base, low, high })",
        to: "(first, Op::Check { access, base, low, high: high - 1 })",
    },
    Mutant {
        name: "last-byte-of-version-0",
        file: "crates/lift/src/memory.rs",
        from: "vm_version > 0\n",
        to: "vm_version < 9\n",
    },
    Mutant {
        name: "ecall-result-not-returned",
        file: "crates/lift/src/liveness.rs",
        from: "Terminator::Ecall { .. } => RegSet::of(&[Reg::A0]),",
        to: "Terminator::Ecall { .. } => RegSet::EMPTY,",
    },
    Mutant {
        name: "callee-changes-forgotten",
        file: "crates/lift/src/liveness.rs",
        from: "self.changed_by(*callee)\n                }\n                Terminator::Ecall",
        to: "self.changed_by(*callee).without(Reg::A0)\n                }\n                Terminator::Ecall",
    },
    Mutant {
        name: "signature-registers-swapped",
        file: "crates/codegen/src/emit/function.rs",
        from: "signature.params.iter().zip(params)",
        to: "signature.params.iter().rev().zip(params)",
    },
    Mutant {
        name: "srliw-extends-with-sign",
        file: "crates/lift/src/instruction.rs",
        from: "Op::Srliw => (B::Lshr, Some(U::ZextW)),",
        to: "Op::Srliw => (B::Lshr, Some(U::SextW)),",
    },
    Mutant {
        name: "entry-table-off-by-one",
        file: "crates/vm/src/native.rs",
        from: "let index = offset / 2;",
        to: "let index = offset / 2 + 1;",
    },
    Mutant {
        name: "loaded-code-stays-writable",
        file: "crates/vm/src/program.rs",
        from: "                core.protect(page);\n",
        to: "                let _ = page;\n",
    },
];

/// Tries the mistakes whose names contain `filter`.
///
/// # Errors
///
/// A mistake is not found, does not fit the source, or cannot be tried.
pub(crate) fn run(filter: &str) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent folder")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let copy = target.join("mutants");
    let mut missed = Vec::new();
    for mutant in MUTANTS.iter().filter(|mutant| mutant.name.contains(filter)) {
        renew(root, &copy)?;
        apply(mutant, &copy)?;
        let found = try_one(&copy)?;
        eprintln!("{}: {}", mutant.name, found.as_deref().unwrap_or("NOT FOUND"));
        if found.is_none() {
            missed.push(mutant.name);
        }
    }
    ensure!(missed.is_empty(), "not found: {missed:?}");
    Ok(())
}

/// Writes the checkout's files to the copy; those that are equal keep their times, so that little is built again.
fn renew(root: &Path, copy: &Path) -> anyhow::Result<()> {
    let listing = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output()?;
    let names = String::from_utf8(listing.stdout).context("a path is not UTF-8")?;
    for name in names.split_terminator('\0') {
        let Ok(bytes) = fs::read(root.join(name)) else { continue };
        let to = copy.join(name);
        if fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        fs::write(to, bytes)?;
    }
    Ok(())
}

fn apply(mutant: &Mutant, copy: &Path) -> anyhow::Result<()> {
    let path = copy.join(mutant.file);
    let text = fs::read_to_string(&path)?;
    let found = text.matches(mutant.from).count();
    ensure!(found == 1, "{}: expected once, found {found} times in {}", mutant.name, mutant.file);
    fs::write(path, text.replacen(mutant.from, mutant.to, 1))?;
    Ok(())
}

/// The first line that says what differs.
fn try_one(copy: &Path) -> anyhow::Result<Option<String>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--release", "--package=antares-tests", "--bin=differential", "--"]);
    command.args(["--programs", PROGRAMS, "--as-found"]);
    // A target folder of its own: cargo tells checkouts apart by their paths from the workspace's root alone.
    let output = command.current_dir(copy).env("CARGO_TARGET_DIR", copy.join("target")).output()?;
    if output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.lines().find(|line| line.starts_with("DIFFERENT")) {
        Some(line) => Ok(Some(line.to_owned())),
        // A crash is found as well, but a mistake that does not compile proves nothing.
        None if String::from_utf8_lossy(&output.stderr).contains("could not compile") => {
            bail!("does not compile:\n{}", String::from_utf8_lossy(&output.stderr))
        }
        None => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            Ok(Some(format!("{}: {}", output.status, text.lines().next().unwrap_or_default())))
        }
    }
}
