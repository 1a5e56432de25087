//! Mutation tests: applies the mutants of `mutants.toml` to a copy of the engine, one at a time. The campaign
//! of each must detect it.
//!
//! `cargo xtask mutants [NAME]`, or `NAME..` for that mutant and all later ones. Not part of `make test`:
//! each mutant rebuilds the engine.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use toml::Table;

use crate::tree::git;

/// Number of programs within which a mutant must be detected.
const PROGRAMS: &str = "8000";
/// Number of transactions within which a mutant must be detected.
const SCENARIOS: &str = "2000";

/// Timeout of the programs, in seconds; a mutant that exceeds it does not enforce the cycle limit.
const SECONDS_MAX: &str = "300";
/// Exit status of `timeout` after a timeout.
const TIMED_OUT: i32 = 124;

/// Test binaries that do not start our other programs.
const IN_ONE_PROCESS: [&str; 4] = ["lib", "bins", "filetests", "differential"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    name: String,
    file: String,
    from: String,
    to: String,
    #[serde(default)]
    test: Vec<String>,
}

impl Mutant {
    /// Runs the campaign on the mutant in `copy`; returns the first line that describes a difference.
    fn try_in(&self, copy: &Path) -> anyhow::Result<Option<String>> {
        match self.test.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => generate(copy, "differential", ["--programs", PROGRAMS, "--as-found"]),
            ["transactions"] => generate(copy, "transactions", ["--scenarios", SCENARIOS, "--as-found"]),
            [binary, name] => test_alone(copy, [binary, name]),
            _ => bail!("a test has a binary and a name"),
        }
    }
}

fn all() -> anyhow::Result<Vec<Mutant>> {
    let mut table: Table = include_str!("../mutants.toml").parse()?;
    Ok(table.remove("mutant").context("no mutants")?.try_into()?)
}

/// Tests the mutants selected by `filter`.
///
/// # Errors
/// A mutant is not detected, does not match the source, or cannot be tested.
pub(crate) fn run(filter: &str) -> anyhow::Result<()> {
    let root = crate::tree::root()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let copy = target.join("mutants");
    let mut missed = Vec::new();
    let chosen = chosen(all()?, filter);
    ensure!(!chosen.is_empty(), "no mistake is called {filter:?}");
    for mutant in &chosen {
        renew(root, &copy)?;
        let found = match apply(mutant, &copy).and_then(|()| mutant.try_in(&copy)) {
            Ok(Some(found)) => found,
            other => {
                missed.push(&mutant.name);
                other.err().map_or_else(|| "NOT FOUND".to_owned(), |error| format!("NOT TRIED: {error:#}"))
            }
        };
        eprintln!("{}: {found}", mutant.name);
    }
    ensure!(missed.is_empty(), "not found: {missed:?}");
    Ok(())
}

/// The mutants whose names contain `filter`; `NAME..` selects that mutant and all later ones.
fn chosen(all: Vec<Mutant>, filter: &str) -> Vec<Mutant> {
    match filter.strip_suffix("..") {
        Some(first) => all.into_iter().skip_while(|mutant| mutant.name != first).collect(),
        None => all.into_iter().filter(|mutant| mutant.name.contains(filter)).collect(),
    }
}

/// Updates the copy from the checkout. Equal files keep their modification times, to limit rebuilds.
fn renew(root: &Path, copy: &Path) -> anyhow::Result<()> {
    for name in git(&["ls-files", "-z"])?.split_terminator('\0') {
        let (from, to) = (root.join(name), copy.join(name));
        let Ok(bytes) = fs::read(&from) else { continue };
        // Compare modes too: tests call scripts, and a script that is not executable would look like a
        // detected mutant.
        let mode = |path: &Path| fs::metadata(path).map(|data| data.permissions()).ok();
        if fs::read(&to).is_ok_and(|old| old == bytes) && mode(&from) == mode(&to) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        fs::copy(from, to)?;
    }
    Ok(())
}

fn apply(mutant: &Mutant, copy: &Path) -> anyhow::Result<()> {
    let path = copy.join(&mutant.file);
    let text = fs::read_to_string(&path)?;
    let found = text.matches(&mutant.from).count();
    ensure!(found == 1, "{}: expected once, found {found} times in {}", mutant.name, mutant.file);
    fs::write(path, text.replacen(&mutant.from, &mutant.to, 1))?;
    Ok(())
}

fn cargo_path() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Uses a separate target folder: cargo identifies packages by their path from the workspace root, so two
/// checkouts would collide.
fn in_copy<'a>(command: &'a mut Command, copy: &Path) -> &'a mut Command {
    command.current_dir(copy).env("CARGO_TARGET_DIR", copy.join("target"))
}

/// Builds the copy. A mutant that does not compile is an error.
fn build(copy: &Path, words: &[&str]) -> anyhow::Result<()> {
    let output = in_copy(Command::new(cargo_path()).args(words), copy).output()?;
    ensure!(output.status.success(), "does not compile:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Runs one test; returns its output if it fails. Builds the whole workspace, because features of crates
/// depend on what is built together.
fn test_alone(copy: &Path, [binary, name]: [&str; 2]) -> anyhow::Result<Option<String>> {
    if !IN_ONE_PROCESS.contains(&binary) {
        // The other tests start programs of the same build.
        build(copy, &["build", "--quiet", "--workspace", "--bins"])?;
    }
    let mut words = vec!["test", "--quiet", "--workspace"];
    match binary {
        "lib" => words.push("--lib"),
        "bins" => words.push("--bins"),
        binary => words.extend(["--test", binary]),
    }
    build(copy, &[&words[..], &["--no-run"]].concat())?;
    let mut test = Command::new("timeout");
    test.arg(SECONDS_MAX).arg(cargo_path()).args(words).args(["--", name]);
    let output = in_copy(&mut test, copy).output()?;
    if output.status.code() == Some(TIMED_OUT) {
        return Ok(Some(format!("not at its end after {SECONDS_MAX} s")));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // A renamed or removed test must not count as passed.
    let ran = |line: &str| line.starts_with("running ") && !line.starts_with("running 0 ");
    ensure!(text.lines().any(ran), "there is no test {name}");
    if output.status.success() {
        return Ok(None);
    }
    let failed = text.lines().skip_while(|line| !line.contains("panicked at")).take(2).collect::<Vec<_>>();
    Ok(Some(failed.join(" ").chars().take(300).collect()))
}

/// Runs a generator of programs or transactions that compares tiers; returns the first line that describes a
/// difference.
fn generate(copy: &Path, binary: &str, words: [&str; 3]) -> anyhow::Result<Option<String>> {
    // Use the profile of the tests, so that only affected crates are rebuilt.
    build(copy, &["build", "--quiet", "--workspace", "--bin", binary])?;
    let mut command = Command::new("timeout");
    command.arg(SECONDS_MAX).arg(copy.join("target/debug").join(binary));
    let output = command.args(words).current_dir(copy).output()?;
    if output.status.success() {
        return Ok(None);
    }
    if output.status.code() == Some(TIMED_OUT) {
        return Ok(Some(format!("not at its end after {SECONDS_MAX} s")));
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    let difference = text.lines().position(|line| line.starts_with("DIFFERENT"));
    Ok(Some(match difference {
        // The next line names the kind of program.
        Some(at) => text.lines().skip(at).take(2).collect::<Vec<_>>().join("; "),
        // A crash or an error of the IR's verifier also detects the mutant.
        None => {
            text = String::from_utf8_lossy(&output.stderr).into_owned();
            let error = text.lines().filter(|line| !line.ends_with(" s")).collect::<Vec<_>>();
            format!("{}: {}", output.status, error.join(" ").chars().take(300).collect::<String>())
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chooses_by_its_part_and_from_there_on() {
        let names = |filter: &str| -> Vec<_> {
            chosen(all().unwrap(), filter).into_iter().map(|mutant| mutant.name).collect()
        };
        let all = names("");
        assert_eq!(names(&format!("{}..", all[3])), all[3..]);
        assert_eq!(names("links-known"), ["links-known"]);
        assert!(names("no-such-mistake..").is_empty());
    }

    #[test]
    fn every_mistake_fits_once_and_has_a_name_of_its_own() {
        let root = crate::tree::root().unwrap();
        let (mut names, mut misfits) = (std::collections::BTreeSet::new(), Vec::new());
        for mutant in all().unwrap() {
            let text = fs::read_to_string(root.join(&mutant.file)).unwrap_or_default();
            let found = text.matches(&mutant.from).count();
            if found != 1 {
                misfits.push(format!("{}: {} has it {found} times", mutant.name, mutant.file));
            }
            assert_ne!(mutant.from, mutant.to, "{}", mutant.name);
            assert!(matches!(mutant.test.len(), 0..=2), "{}", mutant.name);
            assert!(names.insert(mutant.name.clone()), "{}", mutant.name);
        }
        assert!(misfits.is_empty(), "{misfits:#?}");
    }
}
