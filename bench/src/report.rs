//! The table and the JSON file.

use std::{collections::BTreeMap, env, fmt, fs, path::PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Median and quartiles of a ratio.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    /// The lower quartile.
    pub(crate) low: f64,
    /// The median.
    pub(crate) median: f64,
    /// The upper quartile.
    pub(crate) high: f64,
}

impl Spread {
    /// Of values, which are not empty.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |part: usize| values.get(values.len() * part / 4).copied().unwrap_or(f64::NAN);
        Self { low: at(1), median: at(2), high: at(3) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6.3} [{:.3} {:.3}]", self.median, self.low, self.high)
    }
}

/// One program's results.
pub(crate) struct Row {
    /// The program.
    pub(crate) name: String,
    /// Our time to that of gcc -O3.
    pub(crate) gcc: Spread,
    /// Our time to that of clang -O3.
    pub(crate) clang: Spread,
    /// clang's time to gcc's.
    pub(crate) clang_to_gcc: Spread,
    /// ckb-vm's assembly interpreter to gcc.
    pub(crate) interpreter_to_gcc: Spread,
    /// Rounds.
    pub(crate) rounds: usize,
    /// Seconds to compile.
    pub(crate) compile_s: f64,
    /// Bytes of guest code.
    pub(crate) guest_text_bytes: u64,
    /// Bytes of the library.
    pub(crate) code_bytes: u64,
    /// From ELF bytes to the end of a first short native run, milliseconds.
    pub(crate) first_native_ms: f64,
    /// Median time of one run, milliseconds.
    pub(crate) engine_ms: f64,
    /// Guest cycles of one run.
    pub(crate) cycles: u64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<15} /gcc {}  /clang {}  asm interpreter/ours {:6.1}  {:8.2} ms  compile {:.2} s  code {} -> {} bytes",
            self.name,
            self.gcc,
            self.clang,
            self.interpreter_to_gcc.median / self.gcc.median,
            self.engine_ms,
            self.compile_s,
            self.guest_text_bytes,
            self.code_bytes
        )
    }
}

/// All results.
#[derive(Default)]
pub(crate) struct Report {
    /// One for each program.
    pub(crate) programs: Vec<Row>,
}

impl Report {
    /// Prints the mean and writes the file.
    pub(crate) fn finish(&self) -> Result<()> {
        let logarithms: f64 = self.programs.iter().map(|row| row.gcc.median.ln()).sum();
        let geomean = (logarithms / self.programs.len().max(1) as f64).exp();
        let programs: Vec<Value> = self.programs.iter().map(Row::to_json).collect();
        println!("geometric mean of the ratios to gcc -O3: {geomean:.3}");
        write("engine.json", &json!({ "programs": programs, "geomean_gcc": geomean }))
    }
}

/// Writes a file of results.
pub(crate) fn write(name: &str, value: &Value) -> Result<()> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = target.join("bench");
    fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    fs::write(&path, serde_json::to_string_pretty(value)?)
        .with_context(|| format!("writing {}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}

impl Row {
    fn to_json(&self) -> Value {
        let peers: BTreeMap<&str, f64> = BTreeMap::from([
            ("clang-22 -O3", self.clang_to_gcc.median),
            ("ckb-vm AsmMachine", self.interpreter_to_gcc.median),
        ]);
        json!({
            "name": self.name,
            "ratio_gcc": self.gcc.median,
            "ratio_gcc_quartiles": [self.gcc.low, self.gcc.high],
            "ratio_clang": self.clang.median,
            "peers": peers,
            "rounds": self.rounds,
            "compile_s": self.compile_s,
            "guest_text_bytes": self.guest_text_bytes,
            "code_bytes": self.code_bytes,
            "first_native_ms": self.first_native_ms,
            "engine_ms": self.engine_ms,
            "cycles": self.cycles,
        })
    }
}
