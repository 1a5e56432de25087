//! `antares coverage` on a C program: coverage of several runs, as a table, JSON, LCOV and a page.

use std::{collections::BTreeSet, fs, process::Command};

use antares_guests::golden;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    command::{text, usage},
    elf,
};

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

/// A folder with two copies of a program, with one and two arguments; none without the compiler.
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

#[test]
fn lines_functions_and_branches_of_two_runs_are_counted_exactly() {
    let Some(folder) = folder() else { return };
    let words = ["coverage", "runs", "--lcov", "out.info", "--html", "out.html", "--json"];
    let json: Value = serde_json::from_str(&text(folder.path(), &words, 0)).unwrap();
    let lcov = fs::read_to_string(folder.path().join("out.info")).unwrap();
    // Keys in the order of geninfo(1).
    let mut keys: Vec<&str> = lcov.lines().map(|line| line.split(':').next().unwrap()).collect();
    keys.dedup();
    assert_eq!(keys.join(" "), "TN SF FN FNDA FNF FNH BRDA BRF BRH DA LF LH end_of_record");
    let rows = |key: &str| lcov.lines().filter(|line| line.starts_with(key)).count();
    let hit = lcov.lines().filter(|line| line.starts_with("DA:") && !line.ends_with(",0")).count();
    let sums = [format!("LF:{}", rows("DA:")), format!("LH:{hit}")];
    let rows = "SF:./guest.c FN:2,never FN:5,weigh FN:10,main FNDA:0,never FNDA:10,weigh FNDA:2,main FNF:3 FNH:2 BRF:10 \
                BRH:8 DA:3,0 DA:7,5 DA:8,5 DA:12,12 DA:13,10 DA:15,0 DA:17,1 DA:18,1";
    for row in rows.split_whitespace().chain(sums.iter().map(String::as_str)) {
        assert!(lcov.lines().any(|line| line == row), "{row} is not in {lcov}");
    }
    // The compiler may choose either order.
    let sides = |line: u32| {
        let of_line = format!("BRDA:{line},");
        let counts =
            lcov.lines().filter_map(|row| row.strip_prefix(&of_line)?.rsplit(',').next()?.parse().ok());
        let mut counts: Vec<u64> = counts.collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!([sides(6), sides(12), sides(14)], [[5, 5], [2, 10], [0, 2]]);
    assert_eq!(sides(16), [0, 1, 1, 1]);
    // The same numbers in the other formats.
    assert_eq!((&json["runs"], &json["undecided_branches"]), (&2.into(), &0.into()));
    assert_eq!((&json["branches"]["found"], &json["branches"]["hit"]), (&10.into(), &8.into()));
    assert_eq!(json["files"][0]["missed_lines"], serde_json::json!([2, 3, 4, 15]));
    assert_eq!(json["files"][0]["missed_functions"], serde_json::json!(["never"]));
    let keys = ["runs", "lines", "functions", "branches", "undecided_branches", "files"];
    let found: BTreeSet<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(found, BTreeSet::from(keys));
    let page = fs::read_to_string(folder.path().join("out.html")).unwrap();
    golden(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/coverage.html"), &page);
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
    // Without its own arguments file, a script gets the command's arguments.
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
    let json = crate::command::text(folder.path(), &words, 0);
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
        let stderr = usage(folder.path(), &[&["coverage"], words].concat());
        assert!(stderr.contains(what), "{stderr}");
    };
    says(&["nothing"], "cannot read nothing");
    says(&["."], "no scripts and no transactions");
    fs::write(folder.path().join("plain"), elf::of(&[0x05d0_0893, 0x0000_0513, 0x73])).unwrap();
    says(&["plain"], "build with -g");
    fs::write(folder.path().join("text"), "no ELF").unwrap();
    says(&["text"], "text is no script, no transaction and no profile");
}
