//! `antares snapshot`: cycles, outcomes and sizes of a folder of scripts and transactions, in one file for
//! version control.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::IsTerminal as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use antares_profile_view::View;
use anyhow::{Context as _, anyhow};
use serde::{Deserialize, Serialize};

use crate::{
    args::{
        percent::{Percent, share},
        snapshot::SnapshotArgs,
    },
    commands::profile,
    commands::runnable::{files, in_parallel, target, tracked},
    failure::Failure,
    input,
    limits::{SNAPSHOT_BYTES_MAX, SNAPSHOT_FUNCTIONS_MAX},
    output,
    output::report::{self, Numbers, grouped},
};

/// Default name of the file.
const FILE: &str = "antares-snapshot.json";
/// Version of the format.
const VERSION: u32 = 1;
/// Error of a script that runs without the transaction it requests. The transaction is the entry instead.
const NEEDS_TRANSACTION: &str = "InvalidEcall";
/// Maximum number of functions in a reported change.
const FUNCTIONS_SHOWN: usize = 10;

/// The file. Keys are only added.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Snapshot {
    version: u32,
    /// Entries by path relative to the folder.
    entries: BTreeMap<String, Entry>,
}

/// A script or a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// The outcome: `exit 0`, `accepted`, or the name of an error.
    ending: String,
    cycles: u64,
    /// Of the script; for a transaction, of all programs in its cells.
    size_bytes: u64,
    /// Self cycles of the most expensive functions.
    functions: Numbers,
}

/// A change of an entry.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Changed<'a> {
    name: &'a str,
    before: Option<&'a Entry>,
    after: Option<&'a Entry>,
}

/// Takes a snapshot, or compares with one.
pub(crate) fn snapshot(args: &SnapshotArgs) -> Result<ExitCode, Failure> {
    let path = args.file.clone().unwrap_or_else(|| args.folder.join(FILE));
    let hint = "nothing to compare with: antares snapshot without --check records it";
    let before = match read(&path) {
        Err(failure) if args.check => return Err(failure.of(hint)),
        // Replaces an existing file whatever its content.
        before => before.unwrap_or_default(),
    };
    let after = take(args, &path, &before)?;
    if !args.check {
        let text = serde_json::to_string_pretty(&after).unwrap_or_default() + "\n";
        output::write(&path, text.as_bytes())?;
        let said = if args.json { text } else { listed(&after, &path) };
        output::print(output::printable(&said).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let changed = changes(&before, &after, args.tolerance.unwrap_or(Percent::NOTHING));
    let said = match args.json {
        true => serde_json::json!({ "changed": changed }).to_string() + "\n",
        false if std::io::stdout().is_terminal() => plain(&table(&changed, after.entries.len())),
        false => table(&changed, after.entries.len()),
    };
    output::print(output::printable(&said).as_bytes())?;
    Ok(if changed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(path: &Path) -> Result<Snapshot, Failure> {
    let bytes = input::read(path, SNAPSHOT_BYTES_MAX)?;
    let snapshot: Snapshot = serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is no snapshot", path.display()))
        .map_err(Failure::Usage)?;
    if snapshot.version != VERSION {
        let text = format!("{} has version {}, not {VERSION}", path.display(), snapshot.version);
        return Err(Failure::Usage(anyhow!(text)));
    }
    Ok(snapshot)
}

/// Runs everything; of files that git ignores, only those in the snapshot `before`.
fn take(args: &SnapshotArgs, file: &Path, before: &Snapshot) -> Result<Snapshot, Failure> {
    let mut found = files(&args.folder)?;
    found.retain(|path| path != file && path.file_name().is_none_or(|name| name != FILE));
    let named = |path: &PathBuf| path.strip_prefix(&args.folder).unwrap_or(path).display().to_string();
    if let Some(tracked) = tracked(&args.folder) {
        found.retain(|path| tracked.contains(path) || before.entries.contains_key(&named(path)));
    }
    let entries = in_parallel(&found, |path| Ok(entry(path, args)?.map(|entry| (named(path), entry))))?;
    let entries: BTreeMap<String, Entry> = entries.into_iter().flatten().collect();
    if entries.is_empty() {
        let text = format!("{} has no scripts and no transactions", args.folder.display());
        return Err(Failure::Usage(anyhow!(text)));
    }
    Ok(Snapshot { version: VERSION, entries })
}

/// Runs one file; none if it is not runnable, or needs a transaction.
fn entry(path: &Path, args: &SnapshotArgs) -> Result<Option<Entry>, Failure> {
    let Some(target) = target(path, args.limits, &[])? else { return Ok(None) };
    let profiled = profile::target(&target).map_err(|failure| failure.of(&path.display().to_string()))?;
    if target.elf.is_some() && profiled.ending.contains(NEEDS_TRANSACTION) {
        return Ok(None);
    }
    let view = View::new(&profiled.profile, &profiled.programs);
    let functions = view.top(SNAPSHOT_FUNCTIONS_MAX).into_iter().filter(|row| row.own.cycles > 0);
    Ok(Some(Entry {
        ending: profiled.ending,
        cycles: profiled.profile.sum().cycles,
        size_bytes: profiled.size_bytes,
        functions: functions.map(|row| (row.name.clone(), row.own.cycles)).collect(),
    }))
}

/// Entries that are new, gone, end differently or differ by more than `tolerance`.
fn changes<'a>(before: &'a Snapshot, after: &'a Snapshot, tolerance: Percent) -> Vec<Changed<'a>> {
    let names: BTreeSet<&String> = before.entries.keys().chain(after.entries.keys()).collect();
    let is_kept = |old: u64, new: u64| !tolerance.is_passed(old, new) && !tolerance.is_passed(new, old);
    let changed = names.into_iter().filter_map(|name| {
        let (old, new) = (before.entries.get(name), after.entries.get(name));
        let is_same = old.zip(new).is_some_and(|(old, new)| {
            old.ending == new.ending
                && is_kept(old.cycles, new.cycles)
                && is_kept(old.size_bytes, new.size_bytes)
        });
        (!is_same).then_some(Changed { name, before: old, after: new })
    });
    changed.collect()
}

fn listed(snapshot: &Snapshot, path: &Path) -> String {
    let mut text = String::new();
    for (name, entry) in &snapshot.entries {
        let (cycles, size) = (grouped(entry.cycles), grouped(entry.size_bytes));
        let _ = writeln!(text, "{name}: {}, {cycles} cycles, {size} bytes", entry.ending);
    }
    let _ = writeln!(text, "{} entries in {}", snapshot.entries.len(), path.display());
    text
}

/// Markdown converted for a terminal.
fn plain(markdown: &str) -> String {
    let lines = markdown.lines().filter(|line| !line.starts_with("|---"));
    let lines =
        lines.map(|line| line.trim_matches('|').trim().replace(" | ", "  ").replace("&emsp;", "    "));
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

/// The changes, in Markdown.
fn table(changed: &[Changed<'_>], entries: usize) -> String {
    if changed.is_empty() {
        return format!("{entries} entries, nothing has changed\n");
    }
    let mut text = String::from("| | before | after | change |\n|---|---:|---:|---:|\n");
    for Changed { name, before, after } in changed {
        let (Some(old), Some(new)) = (before, after) else {
            let word = |entry: &Option<&Entry>| entry.map_or("-".to_owned(), |it| grouped(it.cycles));
            let what = if before.is_none() { "new" } else { "gone" };
            let _ = writeln!(text, "| {name}: cycles | {} | {} | {what} |", word(before), word(after));
            continue;
        };
        if old.ending != new.ending {
            let _ = writeln!(text, "| {name}: ending | {} | {} | |", old.ending, new.ending);
        }
        for (what, old, new) in
            [("cycles", old.cycles, new.cycles), ("bytes", old.size_bytes, new.size_bytes)]
        {
            if old != new {
                row(&mut text, &format!("{name}: {what}"), old, new);
            }
        }
        functions(&mut text, old, new);
    }
    let _ = writeln!(
        text,
        "\n{} of {entries} entries have changed: antares snapshot writes them anew",
        changed.len()
    );
    text
}

/// The functions whose cycles changed most.
fn functions(text: &mut String, old: &Entry, new: &Entry) {
    let changed = report::changes(&old.functions, &new.functions);
    for (name, old, new) in changed.into_iter().take(FUNCTIONS_SHOWN) {
        row(text, &format!("&emsp;{}", name.replace('|', "\\|")), old, new);
    }
}

fn row(text: &mut String, name: &str, old: u64, new: u64) {
    let sign = if new >= old { '+' } else { '-' };
    let share = if old == 0 { String::new() } else { format!(" ({sign}{}%)", share(old.abs_diff(new), old)) };
    *text += &report::change_row(name, old, new, &share);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(cycles: u64, ending: &str) -> Entry {
        let functions = [("main".to_owned(), cycles)].into();
        Entry { ending: ending.to_owned(), cycles, size_bytes: 10, functions }
    }

    fn of(entries: &[(&str, Entry)]) -> Snapshot {
        let entries = entries.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
        Snapshot { version: VERSION, entries }
    }

    #[test]
    fn changes_beyond_the_tolerance_are_reported() {
        let before =
            of(&[("a", entry(1000, "exit 0")), ("b", entry(1000, "exit 0")), ("c", entry(5, "exit 0"))]);
        let after =
            of(&[("a", entry(1005, "exit 0")), ("b", entry(990, "exit 0")), ("d", entry(5, "exit 0"))]);
        let names = |share: &str| -> Vec<String> {
            let changed = changes(&before, &after, share.parse().unwrap());
            changed.iter().map(|it| it.name.to_owned()).collect()
        };
        assert_eq!(names("0%"), ["a", "b", "c", "d"]);
        assert_eq!(names("0.5%"), ["b", "c", "d"]);
        assert_eq!(names("2%"), ["c", "d"]);
        let other = of(&[("a", entry(1000, "exit 1"))]);
        assert_eq!(changes(&of(&[("a", entry(1000, "exit 0"))]), &other, "50%".parse().unwrap()).len(), 1);
        let text = table(&changes(&before, &after, Percent::NOTHING), 3);
        assert!(text.contains("| a: cycles | 1,000 | 1,005 | +5 (+0.50%) |"), "{text}");
        assert!(text.contains("| &emsp;main | 1,000 | 990 | -10 (-1.00%) |"), "{text}");
        assert!(text.contains("| c: cycles | 5 | - | gone |"), "{text}");
    }
}
