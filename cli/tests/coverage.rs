//! `antares coverage` on a C program: what ran over several runs, as a table, JSON, LCOV and a page.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::PathBuf,
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;

#[path = "scripts/command.rs"]
mod command;
#[path = "scripts/elf.rs"]
mod elf;

use command::{antares, text};

/// Lines count from 1.
const SOURCE: &str =
    "asm(\".globl _start\\n_start: lw a0, 0(sp)\\n addi a1, sp, 8\\n call main\\n li a7, 93\\n ecall\\n\");
static int never(int x) {
  return x * 3;
}
static int weigh(char letter) {
  if (letter == 'a')
    return 1;
  return 2;
}
int main(int argc, char **argv) {
  int sum = 0;
  for (int i = 0; i < 5; i++)
    sum += weigh(argv[0][0]);
  if (argc > 9)
    return never(sum);
  if (sum == 5 && argc == 1)
    return 0;
  return sum;
}
";

/// A folder with the same program twice, with two arguments; none without the compiler.
fn folder() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("guest.c");
    fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("riscv64-unknown-elf-gcc");
    compiler.args(["-march=rv64imc", "-mabi=lp64", "-g", "-O0", "-nostdlib", "-static"]);
    compiler.arg(format!("-ffile-prefix-map={}=.", folder.path().display()));
    let first = folder.path().join("runs/first");
    fs::create_dir(folder.path().join("runs")).unwrap();
    let built = compiler.arg("-o").arg(&first).arg(&source).current_dir(folder.path()).output();
    match built {
        Ok(output) if output.status.success() => {}
        other => {
            eprintln!("without a program with debug data: {other:?}");
            return None;
        }
    }
    fs::copy(&first, folder.path().join("runs/second")).unwrap();
    fs::write(folder.path().join("runs/first.args"), "a\n").unwrap();
    fs::write(folder.path().join("runs/second.args"), "b\n").unwrap();
    Some(folder)
}

/// A record of a tracefile, as geninfo(1) has it.
#[derive(Debug, Default)]
struct Record {
    lines: BTreeMap<u32, u64>,
    functions: BTreeMap<String, (u32, u64)>,
    /// By line and block; none where it was never evaluated.
    branches: BTreeMap<(u32, u32), Vec<Option<u64>>>,
}

/// Reads a tracefile strictly: keys in their order, sums that add up.
#[track_caller]
fn parse(lcov: &str) -> BTreeMap<String, Record> {
    let order = ["TN", "SF", "FN", "FNDA", "FNF", "FNH", "BRDA", "BRF", "BRH", "DA", "LF", "LH"];
    let (mut records, mut record, mut name) = (BTreeMap::new(), Record::default(), String::new());
    let (mut last, mut told): (usize, BTreeMap<String, u64>) = Default::default();
    for line in lcov.lines() {
        if line == "end_of_record" {
            let Record { lines, functions, branches } = &record;
            let sides: Vec<u64> = branches.values().flatten().map(|side| side.unwrap_or(0)).collect();
            let hit =
                |counts: &mut dyn Iterator<Item = u64>| counts.filter(|count| *count > 0).count() as u64;
            let sums = [
                ("LF", lines.len() as u64),
                ("LH", hit(&mut lines.values().copied())),
                ("FNF", functions.len() as u64),
                ("FNH", hit(&mut functions.values().map(|(_, count)| *count))),
                ("BRF", sides.len() as u64),
                ("BRH", hit(&mut sides.into_iter())),
            ];
            for (key, sum) in sums {
                assert_eq!(told.get(key), Some(&sum), "{key} of {name}");
            }
            records.insert(std::mem::take(&mut name), std::mem::take(&mut record));
            (last, told) = Default::default();
            continue;
        }
        let (key, value) = line.split_once(':').expect("a key and a value");
        let place = order.iter().position(|known| *known == key).expect("a key of geninfo");
        assert!(place >= last, "{key} comes too late");
        last = place;
        let (first, rest) = value.split_once(',').unwrap_or((value, ""));
        match key {
            "TN" => {}
            "SF" => value.clone_into(&mut name),
            "FN" => drop(record.functions.insert(rest.to_owned(), (first.parse().unwrap(), 0))),
            "FNDA" => record.functions.get_mut(rest).expect("a function").1 = first.parse().unwrap(),
            "BRDA" => {
                let parts: Vec<&str> = rest.split(',').collect();
                let [block, side, count] = parts[..] else { panic!("{line}") };
                let branch = (first.parse().unwrap(), block.parse().unwrap());
                let sides = record.branches.entry(branch).or_default();
                assert_eq!(sides.len().to_string(), side, "{line}");
                sides.push((count != "-").then(|| count.parse().unwrap()));
            }
            "DA" => drop(record.lines.insert(first.parse().unwrap(), rest.parse().unwrap())),
            _ => drop(told.insert(key.to_owned(), value.parse().unwrap())),
        }
    }
    assert!(name.is_empty(), "the last record ends");
    records
}

#[test]
fn lines_functions_and_branches_of_two_runs_are_counted_exactly() {
    let Some(folder) = folder() else { return };
    let words = ["coverage", "runs", "--lcov", "out.info", "--html", "out.html", "--json"];
    let json: Value = serde_json::from_str(&text(folder.path(), &words, 0)).unwrap();
    let lcov = fs::read_to_string(folder.path().join("out.info")).unwrap();
    let records = parse(&lcov);
    let record = &records["./guest.c"];
    let count = |line: u32| record.lines[&line];
    assert_eq!([count(3), count(7), count(8)], [0, 5, 5], "{lcov}");
    assert_eq!([count(12), count(13), count(15), count(17), count(18)], [12, 10, 0, 1, 1], "{lcov}");
    let calls = |name: &str| record.functions[name];
    assert_eq!([calls("never"), calls("weigh"), calls("main")], [(2, 0), (5, 10), (10, 2)]);
    // Whichever way round the compiler has put them.
    let sides = |line: u32| {
        let branches = record.branches.iter().filter(|((at, _), _)| *at == line);
        let told = branches.map(|(_, sides)| sides.iter().flatten().copied().collect::<BTreeSet<u64>>());
        told.collect::<Vec<_>>()
    };
    assert_eq!(sides(6), [BTreeSet::from([5])], "five each");
    assert_eq!(sides(12), [BTreeSet::from([2, 10])]);
    assert_eq!(sides(14), [BTreeSet::from([0, 2])]);
    assert_eq!(sides(16), [BTreeSet::from([1]), BTreeSet::from([0, 1])]);
    // The same figures in the other forms.
    assert_eq!((&json["runs"], &json["undecided_branches"]), (&2.into(), &0.into()));
    assert_eq!((&json["branches"]["found"], &json["branches"]["hit"]), (&10.into(), &8.into()));
    assert_eq!(json["files"][0]["missed_lines"], serde_json::json!([2, 3, 4, 15]));
    assert_eq!(json["files"][0]["missed_functions"], serde_json::json!(["never"]));
    let keys = ["runs", "lines", "functions", "branches", "undecided_branches", "files"];
    let found: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(found, BTreeSet::from(keys));
    compare("coverage.html", &fs::read_to_string(folder.path().join("out.html")).unwrap());
}

#[test]
fn one_run_is_less_and_profiles_count_as_runs() {
    let Some(folder) = folder() else { return };
    let figures = |words: &[&str]| -> Value {
        let words = [&["coverage", "--json"], words].concat();
        serde_json::from_str(&text(folder.path(), &words, 0)).unwrap()
    };
    let (first, both) = (figures(&["runs/first"]), figures(&["runs"]));
    assert!(first["lines"]["hit"].as_u64() < both["lines"]["hit"].as_u64());
    for (name, argument) in [("a.antares", "a"), ("b.antares", "b")] {
        let words = ["profile", "runs/first", "--format", "antares", "-o", name, "--", argument];
        text(folder.path(), &words, 0);
    }
    assert_eq!(figures(&["a.antares", "b.antares"]), both);
    // Without a file of its own a script has the arguments of the command.
    fs::copy(folder.path().join("runs/first"), folder.path().join("third")).unwrap();
    assert_eq!(figures(&["third", "--", "a"]), first);
    let table = text(folder.path(), &["coverage", "runs", "--fail-under", "70%"], 0);
    assert!(table.contains("./guest.c") && table.contains("of 2 runs"), "{table}");
    text(folder.path(), &["coverage", "runs", "--fail-under", "99.99%"], 1);
    let none = text(folder.path(), &["coverage", "runs", "--only", "other", "--json"], 0);
    assert!(none.contains("\"files\":[]"), "{none}");
}

#[test]
fn debug_data_names_neither_hidden_files_nor_lines_beyond_the_end() {
    let Some(folder) = folder() else { return };
    for name in [".env", ".git/config", "\u{202e}odd"] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "S3CRET\n").unwrap();
    }
    let lines = [".env", ".git/config", "guest.c", "\u{202e}odd"]
        .map(|name| format!("#line 1 \"{name}\"\n{{ volatile int x = 1; }}\n"));
    let text = format!("{SOURCE}#line 90 \"guest.c\"\nint more(void) {{\n{}return 0;\n}}\n", lines.concat());
    fs::write(folder.path().join("hostile.c"), text).unwrap();
    let mut compiler = Command::new("riscv64-unknown-elf-gcc");
    compiler.args(["-march=rv64imc", "-mabi=lp64", "-g", "-O0", "-nostdlib", "-static", "-o", "hostile"]);
    assert!(compiler.arg("hostile.c").current_dir(folder.path()).status().unwrap().success());
    let words = ["coverage", "hostile", "--lcov", "out.info", "--html", "out.html", "--json"];
    let json = self::text(folder.path(), &words, 0);
    serde_json::from_str::<Value>(&json).unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (page, lcov) = (read("out.html"), read("out.info"));
    assert!(!page.contains("S3CRET"), "{page}");
    assert!(lcov.contains("guest.c\n") && !lcov.contains(":90,") && !lcov.contains(":91,"), "{lcov}");
    assert!(![page, lcov, json].concat().contains('\u{202e}'));
}

#[test]
fn what_has_no_lines_or_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let says = |words: &[&str], what: &str| {
        let output = antares(folder.path(), &[&["coverage"], words].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(what), "{stderr}");
    };
    says(&["nothing"], "cannot read nothing");
    says(&["."], "no scripts and no transactions");
    fs::write(folder.path().join("plain"), elf::of(&[0x05d0_0893, 0x0000_0513, 0x73])).unwrap();
    says(&["plain"], "build with -g");
    fs::write(folder.path().join("text"), "no ELF").unwrap();
    says(&["text"], "text is no script, no transaction and no profile");
}

/// Compares with a file; `BLESS=1` writes it.
#[track_caller]
fn compare(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == found, "{} differs; BLESS=1 writes:\n{found}", path.display());
}
