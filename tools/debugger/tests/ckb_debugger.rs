//! The program ckb-debugger: compares its lines and statuses with those of the published one, and tests its
//! file access. Runs the real command with real workers, like contract.rs.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use antares_pool::worker_path;
use goldens::{answer, assert_as_published, command, examples, file, goldens, published};
use tempfile::TempDir;

#[path = "ckb_debugger/goldens.rs"]
mod goldens;

const OURS: &str = env!("CARGO_BIN_EXE_ckb-debugger");

fn run(folder: &Path, words: &[&str]) -> Output {
    command(&[OURS], folder, words).output().unwrap()
}

/// Standard output of a run.
#[track_caller]
fn said(folder: &Path, words: &[&str]) -> String {
    String::from_utf8(run(folder, words).stdout).unwrap()
}

#[track_caller]
fn assert_ends(output: &Output, status: i32, stdout: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{errors}");
    assert_eq!(output.status.code(), Some(status), "{errors}");
}

#[test]
fn output_and_statuses_are_those_of_the_published_program() {
    assert_as_published(&[OURS]);
}

/// Golden files do not contain standard error.
#[test]
fn errors_are_reported_in_the_words_of_the_published_program_or_with_the_new_ones() {
    let (folder, ones) = (examples(), "1".repeat(64));
    let (hash, reported) = (format!("0x{ones}"), format!("Error: ScriptNotFound(Byte32(0x{ones}))\n"));
    let flamegraph = "instead of --pprof FILE there is --enable-flamegraph --flamegraph-output FILE\n";
    for (words, reported) in [
        (&["--tx-file", "mock_tx.json", "--script-hash", &hash][..], reported.as_str()),
        (&["--bin", "fib", "--pprof", "file"], flamegraph),
        (&["--bin", "fib", "-pprof"], flamegraph),
    ] {
        let output = run(folder.path(), words);
        assert!(String::from_utf8_lossy(&output.stderr).ends_with(reported), "{output:?}");
        assert_ends(&output, 1, "");
    }
}

/// Writes the golden files with the published program.
#[test]
#[ignore = "writes the golden files, with the program that ANTARES_ORIGINAL names"]
fn bless() {
    let original = std::env::var("ANTARES_ORIGINAL").unwrap();
    for (name, folder) in published() {
        let text = fs::read_to_string(file(name)).unwrap();
        let head = text.lines().take_while(|line| line.starts_with('#'));
        let mut blessed: String = head.map(|line| format!("{line}\n")).collect();
        for (command, _) in goldens(&text) {
            let space = if command.is_empty() { "" } else { " " };
            let answer = answer(&[original.as_str()], folder.path(), command);
            blessed += &format!("${space}{command}\n{answer}");
        }
        fs::write(file(name), blessed).unwrap();
    }
}

#[test]
fn the_three_names_are_one_program() {
    let folder = examples();
    let expected = "Run result: 0\nAll cycles: 3364(3.3K)\n";
    assert_ends(&run(folder.path(), &["--bin", "fib"]), 0, expected);
    let antares = worker_path("antares").unwrap();
    let antares = antares.to_str().unwrap();
    let words = ["debugger", "--bin", "fib"];
    assert_ends(&command(&[antares], folder.path(), &words).output().unwrap(), 0, expected);
    let link = folder.path().join("ckb-debugger");
    std::os::unix::fs::symlink(antares, &link).unwrap();
    let linked = command(&[link.to_str().unwrap()], folder.path(), &["--bin", "fib"]).output().unwrap();
    assert_ends(&linked, 0, expected);
    let help = run(folder.path(), &["--help"]);
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(help.status.success() && text.contains("--enable-flamegraph") && text.contains("--allow-path"));
}

/// npm's ckb-testtool uses the third-last and second-last parts of standard output, split at line ends.
#[test]
fn output_is_what_testtools_take_apart() {
    let folder = examples();
    let words =
        ["--tx-file", "-", "--cell-type", "input", "--script-group-type", "lock", "--cell-index", "0"];
    for (extra, code, cycles, status) in
        [(&[][..], "0", "1641938", 0), (&["--bin", "always_failure"][..], "1", "2493", 254)]
    {
        let stdin = fs::File::open(folder.path().join("mock_tx.json")).unwrap();
        let words: Vec<&str> = words.iter().chain(extra).copied().collect();
        let output = command(&[OURS], folder.path(), &words).stdin(stdin).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let parts: Vec<&str> = text.split('\n').collect();
        assert_eq!(parts[parts.len() - 3], format!("Run result: {code}"));
        let reported = parts[parts.len() - 2].strip_prefix("All cycles: ").unwrap();
        assert_eq!(reported.split('(').next(), Some(cycles));
        assert_eq!(output.status.code(), Some(status));
    }
}

#[test]
fn time_chance_and_input_reach_the_script() {
    let folder = examples();
    fs::write(folder.path().join("input"), "some text").unwrap();
    let output = run(folder.path(), &["--bin", "read_file", "--read-file", "input"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for line in
        ["Script log: read size = 9\n", "Script log: some text\n", "Script log: generate a random number: "]
    {
        assert!(text.contains(line), "{text}");
    }
    let stdin = fs::File::open(folder.path().join("input")).unwrap();
    let output =
        command(&[OURS], folder.path(), &["--bin", "read_file", "--read-file", "-"]).stdin(stdin).output();
    assert!(String::from_utf8(output.unwrap().stdout).unwrap().contains("Script log: some text\n"));
    let nanoseconds = said(folder.path(), &["--bin", "timenow"]);
    let reported = nanoseconds.lines().next().unwrap().strip_prefix("Script log: ").unwrap();
    assert!(reported.parse::<u64>().unwrap() > 1_700_000_000_000_000_000, "{nanoseconds}");
}

/// The first example writes `file_write_foo.txt`, the other one reads `fib.c`, each in its current folder.
#[test]
fn a_script_opens_files_of_the_named_folders_alone() {
    let examples = examples();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("fib.c"), "int main() { return 0; }").unwrap();
    let (writes, reads) = (examples.path().join("file_write"), examples.path().join("file_operations"));
    let (writes, reads) = (writes.to_str().unwrap(), reads.to_str().unwrap());
    let written = elsewhere.path().join("file_write_foo.txt");

    run(examples.path(), &["--bin", "file_write"]);
    assert!(!examples.path().join("file_write_foo.txt").exists());
    let output = run(elsewhere.path(), &["--bin", writes]);
    assert!(!written.exists());
    let errors = String::from_utf8(output.stderr).unwrap();
    let refused = "may not write file_write_foo.txt";
    assert!(errors.contains(refused) && errors.contains("--allow-path"), "{errors}");
    let text = said(elsewhere.path(), &["--bin", reads]);
    assert!(text.contains("Script log: Testing fopen failed\n"), "{text}");

    run(elsewhere.path(), &["--bin", writes, "--allow-path", "."]);
    assert_eq!(fs::read(&written).unwrap(), b"Hello World!\n");
    fs::remove_file(&written).unwrap();
    // A name in the script's arguments counts as named by the user.
    run(elsewhere.path(), &["--bin", writes, "--", "file_write_foo.txt"]);
    assert_eq!(fs::read(&written).unwrap(), b"Hello World!\n");
    let mut reported = command(&[OURS], elsewhere.path(), &["--bin", reads]);
    let output = reported.env("ANTARES_DEBUGGER_PATHS", elsewhere.path()).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("Run result: 0\n"));
}

#[test]
fn arguments_and_calls_for_files_reach_every_mode() {
    let folder = examples();
    let output = run(folder.path(), &["--bin", "file_operations", "--mode", "full"]);
    let text = String::from_utf8(output.stdout).unwrap();
    // The published program ends with `invalid syscall 9003` here.
    assert!(output.status.success() && text.ends_with("Run result: 0\nAll cycles: 52738(51.5K)\n"), "{text}");
    // The published program panics if a script is replaced.
    let output = run(folder.path(), &["--tx-file", "exec.json", "--mode", "full"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let tree = "Spawn tree: 0                    cell_dep[0][0..98424]\n\
                Spawn tree: └── 0/1              cell_dep[1][0..98912]\n";
    assert!(output.status.success() && text.contains(tree), "{text}");
    assert!(text.contains("Actual run: start\nScript log: exec_caller\n"), "{text}");
}

/// A script that dumps itself resumes from that point when the dump runs.
#[test]
fn a_dump_goes_on_where_it_was_made() {
    let folder = tempfile::tempdir().unwrap();
    // sub sp, 16; li s0, 7; li a7, 4097 (lui+addi); ecall; mv a0, s0; li a7, 93; ecall
    let code: [u32; 7] =
        [0x0070_0413, 0x0000_18b7, 0x0018_8893, 0x0000_0073, 0x0004_0513, 0x05d0_0893, 0x0000_0073];
    fs::write(folder.path().join("dumps"), antares_chain::elf(&code)).unwrap();
    let output = run(folder.path(), &["--bin", "dumps"]);
    assert_ends(&output, 254, "Run result: invalid syscall 4097\n");
    for words in [&["--bin", "dumps", "--dump-file", "dump.elf"][..], &["--bin", "dump.elf"]] {
        assert!(said(folder.path(), words).starts_with("Run result: 7\n"), "{words:?}");
    }
}

#[test]
fn a_script_that_takes_long_is_given_to_native_code() {
    let folder = tempfile::tempdir().unwrap();
    let kept = tempfile::tempdir().unwrap();
    // li s0, 0x20000000 cycles' worth of loops; addi s0, s0, -1; bnez s0, -4; li a0, 3; li a7, 93; ecall
    let code: [u32; 6] = [0x1800_0437, 0xfff4_0413, 0xfe04_1ee3, 0x0030_0513, 0x05d0_0893, 0x0000_0073];
    fs::write(folder.path().join("long"), antares_chain::elf(&code)).unwrap();
    let words = ["--bin", "long"];
    let mut ran = command(&[OURS], folder.path(), &words);
    let output = ran.env("XDG_CACHE_HOME", kept.path()).env_remove("ANTARES_CACHE").output().unwrap();
    // A script that may call the host is interpreted.
    let expected = said(folder.path(), &["--bin", "long", "--read-file", "long"]);
    assert!(expected.starts_with("Run result: 3\nAll cycles: "));
    assert_ends(&output, 254, &expected);
    assert!(fs::read_dir(kept.path()).unwrap().count() > 0, "no native code was made");
}

/// The resources of a script's process according to the kernel.
#[test]
fn the_process_of_a_script_has_nothing_but_its_pipes() {
    let folder = tempfile::tempdir().unwrap();
    // For ever.
    fs::write(folder.path().join("endless"), antares_chain::elf(&[0x6f])).unwrap();
    // Whom the host may be asked for is interpreted alone: it is the only child.
    let mut ours = Command::new(worker_path("antares").unwrap());
    ours.args(["debugger", "--bin", "endless", "--read-file", "endless", "--max-cycles", "900000000000"]);
    let mut ours = ours.current_dir(folder.path()).stdout(Stdio::null()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", ours.id());
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        assert!(Instant::now() < deadline, "no locked-in process within a minute");
        let child = fs::read_to_string(&children).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", child.trim())).unwrap_or_default();
        if status.contains("\nSeccomp:\t2\n") {
            break status;
        }
        thread::sleep(Duration::from_millis(5));
    };
    for line in ["NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "Threads:\t1"] {
        assert!(status.lines().any(|found| found == line), "{line} is not in {status}");
    }
    let child = fs::read_to_string(&children).unwrap();
    // Only root has access, because the process is not dumpable.
    if let Ok(open) = fs::read_dir(format!("/proc/{}/fd", child.trim())) {
        assert_eq!(open.count(), 3);
    }
    ours.kill().unwrap();
    ours.wait().unwrap();
    let gone = format!("/proc/{}", child.trim());
    while Path::new(&gone).exists() {
        assert!(Instant::now() < deadline, "the process outlives its parent");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn coverage_counts_the_lines_of_a_file() {
    let Some(folder) = with_debug_data() else { return };
    let words = ["--bin", "covered", "--enable-coverage", "--coverage-output", "lcov"];
    let output = run(folder.path(), &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lcov = fs::read_to_string(folder.path().join("lcov")).unwrap();
    let source = folder.path().join("covered.c");
    assert!(lcov.contains(&format!("SF:{}\n", source.display())), "{lcov}");
    assert!(lcov.contains("DA:4,0\n") && lcov.contains("DA:6,1\n"), "{lcov}");
    // The published program swaps these two.
    let figure = |key: &str| {
        let line = lcov.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.parse::<u32>().unwrap()
    };
    assert_eq!(figure("LF:"), 12);
    assert!(figure("LH:") < 12, "{lcov}");
}

#[test]
fn coverage_reads_regular_files_and_ends_with_them() {
    let Some(folder) = with_debug_data() else { return };
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    fs::write(folder.path().join(".hidden"), "1\n").unwrap();
    let lines = ["pipe", "/dev/zero", ".hidden", "covered.c"]
        .map(|name| format!("#line 50000000 \"{name}\"\n{{ volatile int x = 1; }}\n"));
    let end = "asm(\"li a0, 0\\n li a7, 93\\n ecall\");";
    fs::write(folder.path().join("hostile.c"), format!("void _start(void) {{\n{}{end}}}\n", lines.concat()))
        .unwrap();
    assert!(is_built(folder.path(), "hostile"));
    let words = ["--bin", "hostile", "--enable-coverage", "--coverage-output", "lcov"];
    let output = run(folder.path(), &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lcov = fs::read_to_string(folder.path().join("lcov")).unwrap();
    let files: Vec<&str> = lcov.lines().filter(|line| line.starts_with("SF:")).collect();
    assert!(files.iter().all(|file| file.ends_with(".c")), "{files:?}");
    assert!(lcov.len() < 4096, "{} bytes", lcov.len());
}

/// A program with debug data, built here; `None` without the compiler.
fn with_debug_data() -> Option<TempDir> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("covered.c"), include_str!("ckb_debugger/covered.c")).unwrap();
    is_built(folder.path(), "covered").then_some(folder)
}

/// Builds the C program of this name; says why it can not.
fn is_built(folder: &Path, name: &str) -> bool {
    let mut compiler = Command::new("riscv64-unknown-elf-gcc");
    compiler.args(["-march=rv64imc", "-mabi=lp64", "-g", "-O0", "-nostdlib", "-static", "-o"]);
    // The absolute path is in the debug data.
    let source = folder.join(name).with_extension("c");
    match compiler.arg(name).arg(source).current_dir(folder).output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => {
            eprintln!("without a program with debug data: {}", String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => eprintln!("without a program with debug data: {error}"),
    }
    false
}
