//! Startup cost: whole processes of our `ckb-debugger` and `antares`, compared with the published program
//! that `ANTARES_ORIGINAL` names, with its examples and with long loops. Uses our programs in the folder of
//! this one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use antares_tests::{
    elf::{Elf, Segment},
    guests::debugger_examples,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Runs of each program per row.
const RUNS: usize = 30;
const QUICK_RUNS: usize = 5;
/// Width of the table's first column.
const NAME_COLUMNS: usize = 44;

/// Arguments of the published program's examples.
const EXAMPLES: [&str; 14] = [
    "--bin fib",
    "--bin always_failure",
    "--bin print_log",
    "--bin out_of_memory",
    "--bin file_write",
    "--bin file_operations",
    "--bin read_file --read-file fib.c",
    "--tx-file exec.json",
    "--tx-file spawn.json",
    "--tx-file mock_tx.json",
    "--tx-file mock_tx.json --script output.0.type",
    "--tx-file spawn_cycle_mismatch_tx.json",
    "--tx-file spawn_cycle_mismatch_tx.json --script output.0.type",
    "--tx-file dynamic.json",
];
/// Arguments of the published program, and the equivalent arguments of `antares`.
const COMMANDS: [(&str, &str); 6] = [
    ("--bin fib", "run --as-lock fib"),
    ("--tx-file exec.json", "verify --tx exec.json --group lock --cell input.0"),
    ("--tx-file spawn.json", "verify --tx spawn.json --group lock --cell input.0"),
    ("--tx-file mock_tx.json", "verify --tx mock_tx.json --group lock --cell input.0"),
    (
        "--tx-file spawn_cycle_mismatch_tx.json",
        "verify --tx spawn_cycle_mismatch_tx.json --group lock --cell input.0",
    ),
    ("--tx-file dynamic.json", "verify --tx dynamic.json --group lock --cell input.0"),
];
const LOOPS: [u32; 3] = [10_000_000, 100_000_000, 1_000_000_000];

/// Prints the table, and returns its rows.
pub(crate) fn measure(is_quick: bool) -> Result<Value> {
    let original = env::var_os("ANTARES_ORIGINAL").context("ANTARES_ORIGINAL names the published program")?;
    let beside = env::current_exe()?.parent().context("a folder")?.to_owned();
    let folder = tempfile::tempdir()?;
    for entry in fs::read_dir(debugger_examples()?)? {
        let path = entry?.path();
        fs::copy(&path, folder.path().join(path.file_name().context("a name")?))?;
    }
    let kept = tempfile::tempdir()?;
    let programs = Programs { original: original.into(), beside, folder, kept };
    let runs = if is_quick { QUICK_RUNS } else { RUNS };
    println!("whole processes, medians of {runs} runs in turn, ms; load before: {}", load());
    println!("{:<NAME_COLUMNS$} published     ours  ratio", "");
    let mut rows = Vec::new();
    for words in EXAMPLES {
        rows.push(programs.row(("ckb-debugger", words), words, runs)?);
    }
    for cycles in LOOPS {
        let name = format!("loop-{cycles}");
        fs::write(programs.folder.path().join(&name), looping(cycles / CYCLES_OF_A_TURN))?;
        let words = format!("--bin {name}");
        rows.push(programs.row(("ckb-debugger", &words), &words, runs)?);
    }
    for (published, ours) in COMMANDS {
        rows.push(programs.row(("antares", ours), published, runs)?);
    }
    println!("load behind: {}", load());
    Ok(json!({ "runs": runs, "rows": rows }))
}

fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

struct Programs {
    original: PathBuf,
    /// Folder of our programs.
    beside: PathBuf,
    /// Folder of the examples, the working directory of all programs.
    folder: TempDir,
    /// Cache of our native code.
    kept: TempDir,
}

impl Programs {
    /// Times one of our programs with its arguments, alternating with the published program with `published`.
    fn row(&self, (ours, words): (&str, &str), published: &str, runs: usize) -> Result<Value> {
        let program = self.beside.join(ours);
        let is_same = ours == "ckb-debugger";
        let (theirs, found) = (self.answer(&self.original, published)?, self.answer(&program, words)?);
        // This example prints the time and a random number.
        let is_told = is_same && !words.contains("read_file");
        ensure!(!is_told || theirs == found, "{words}: {found}, and not {theirs}");
        // Warm up: the first run may compile native code.
        self.answer(&program, words)?;
        let (mut of_theirs, mut of_ours) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            of_theirs.push(self.time(&self.original, published)?);
            of_ours.push(self.time(&program, words)?);
        }
        let (theirs, own) = (median(&mut of_theirs), median(&mut of_ours));
        let name = if is_same { words.to_owned() } else { format!("{ours} {words}") };
        println!("{name:<NAME_COLUMNS$} {theirs:>9.1} {own:>8.1}  {:>5.2}", own / theirs);
        Ok(json!({ "name": name, "published_ms": theirs, "ours_ms": own }))
    }

    fn command(&self, program: &Path, words: &str) -> Command {
        let mut command = Command::new(program);
        command.args(words.split(' ')).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("ANTARES_CACHE", self.kept.path()).env_remove("ANTARES_SERVER");
        command
    }

    /// Output and exit status of a program.
    fn answer(&self, program: &Path, words: &str) -> Result<String> {
        let output = self.command(program, words).output().with_context(|| program.display().to_string())?;
        Ok(format!("{}{:?}", String::from_utf8_lossy(&output.stdout), output.status.code()))
    }

    /// Duration of a program in milliseconds.
    fn time(&self, program: &Path, words: &str) -> Result<f64> {
        let mut command = self.command(program, words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        command.status()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len() % 2 == 1 { times[middle] } else { times[middle - 1].midpoint(times[middle]) }
}

/// Cycles of one iteration: an addition and a taken branch.
const CYCLES_OF_A_TURN: u32 = 4;

/// A script that counts down from `turns`: an ELF of one segment.
fn looping(turns: u32) -> Vec<u8> {
    // lui t0, HIGH; addi t0, t0, LOW; addi t0, t0, -1; bnez t0, -4; li a0, 0; li a7, 93; ecall
    let (high, low) = (turns.wrapping_add(0x800) & 0xffff_f000, turns & 0xfff);
    let code = [
        high | 0x2b7,
        low << 20 | 0x2_8293,
        0xfff2_8293,
        0xfe02_9ee3,
        0x0000_0513,
        0x05d0_0893,
        0x0000_0073_u32,
    ];
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let memory_bytes = bytes.len() as u64;
    let segments = vec![Segment { address: 0x10000, flags: 5, bytes, memory_bytes }];
    Elf { entry: 0x10000, segments, symbols: None }.to_bytes()
}
