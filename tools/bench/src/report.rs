//! Tables and JSON files of results.

use std::{fmt, fs};

use antares_tests::crates::target_folder;
use anyhow::{Context, Result};
use serde::Serialize;

/// Median and quartiles of a ratio.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// Statistics of `values`, which must not be empty.
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

#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Ratio of our time to that of gcc -O3.
    pub(crate) gcc: Spread,
    /// Ratio of our time to that of clang -O3.
    pub(crate) clang: Spread,
    /// Ratios of the peers' times to that of gcc.
    pub(crate) peers: Vec<(&'static str, Spread)>,
    /// Peers that do not run this program, each with the reason.
    pub(crate) missing: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) compile_s: f64,
    pub(crate) guest_text_bytes: u64,
    /// Bytes of the library.
    pub(crate) code_bytes: u64,
    /// Bytes after the library, which only profiles read.
    pub(crate) frame_table_bytes: u64,
    /// Milliseconds from ELF bytes to the end of a first short native run with baseline code.
    pub(crate) first_native_ms: f64,
    pub(crate) engine_ms: f64,
    pub(crate) cycles: u64,
    /// Peak memory of the process during the compile.
    pub(crate) peak_memory_bytes: u64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, gcc, clang, engine_ms, compile_s, guest_text_bytes, code_bytes, .. } = self;
        let peak_mb = self.peak_memory_bytes >> 20;
        write!(f, "{name:<16} /gcc {gcc}  /clang {clang}  {engine_ms:7.2} ms  compile {compile_s:6.2} s ")?;
        write!(f, "{peak_mb:4} MB  code {guest_text_bytes:6} -> {code_bytes:7} bytes")?;
        if !self.peers.is_empty() {
            write!(f, "\n{:<16} to gcc:", "")?;
        }
        for (name, ratio) in &self.peers {
            write!(f, " {name} {:.2};", ratio.median)?;
        }
        for missing in &self.missing {
            write!(f, "\n{:<16} without {missing}", "")?;
        }
        Ok(())
    }
}

impl Row {
    /// Missed targets of this program.
    fn gaps(&self) -> Vec<String> {
        let ratio_max = match self.name.as_str() {
            "secp256k1" => 1.12,
            "rsa1024" | "rsa2048" => 1.25,
            _ => RATIO_MAX,
        };
        let mut gaps = Vec::new();
        let mut check = |what: &str, value: f64, limit: f64| {
            if value > limit {
                gaps.push(format!("{}{what} {value:.3} > {limit}", self.name));
            }
        };
        check("", self.gcc.median, ratio_max);
        if self.guest_text_bytes > SMALL_BYTES {
            let bytes = self.guest_text_bytes as f64;
            check(" code", self.code_bytes as f64 / bytes, GROWTH_MAX);
            check(" compile s/100 KB", self.compile_s * 100_000.0 / bytes, COMPILE_S_MAX);
        }
        gaps
    }
}

/// Maximum ratio of our time to gcc's for one program.
const RATIO_MAX: f64 = 1.35;
/// Maximum geometric mean of these ratios.
const GEOMEAN_MAX: f64 = 1.10;
/// Maximum ratio of library bytes to guest code bytes.
const GROWTH_MAX: f64 = 3.5;
/// Maximum seconds to compile 100 KB of guest code.
const COMPILE_S_MAX: f64 = 2.0;
/// Below this size, the fixed part of every library dominates.
const SMALL_BYTES: u64 = 20_000;

/// Prints the mean and the missed targets, and writes the files.
pub(crate) fn finish(programs: &[Row]) -> Result<()> {
    let geomean = geomean(programs.iter().map(|row| row.gcc.median));
    println!("geometric mean of the ratios to gcc -O3: {geomean:.3}");
    if geomean > GEOMEAN_MAX {
        println!("not reached: mean {geomean:.3} > {GEOMEAN_MAX}");
    }
    for gap in programs.iter().flat_map(Row::gaps) {
        println!("not reached: {gap}");
    }
    write("engine.json", &programs)
}

pub(crate) fn geomean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len().max(1) as f64;
    (ratios.map(f64::ln).sum::<f64>() / count).exp()
}

pub(crate) fn write(name: &str, results: &impl Serialize) -> Result<()> {
    let folder = target_folder().join("bench");
    fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    fs::write(&path, serde_json::to_string_pretty(results)?)
        .with_context(|| format!("writing {}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ratio: f64) -> Row {
        let spread = Spread::of(vec![ratio]);
        Row {
            name: name.to_owned(),
            gcc: spread,
            clang: spread,
            peers: vec![("qemu-user", Spread::of(vec![4.0]))],
            missing: Vec::new(),
            rounds: 15,
            compile_s: 0.5,
            guest_text_bytes: 50_000,
            code_bytes: 100_000,
            frame_table_bytes: 10_000,
            first_native_ms: 510.0,
            engine_ms: 40.0,
            cycles: 1,
            peak_memory_bytes: 1 << 20,
        }
    }

    #[test]
    fn gaps_name_the_number_and_its_limit() {
        assert_eq!(row("secp256k1", 1.285).gaps(), ["secp256k1 1.285 > 1.12"]);
        assert!(row("sort", 1.285).gaps().is_empty());
        let mut large = row("sort", 1.0);
        (large.code_bytes, large.compile_s) = (200_000, 2.0);
        assert_eq!(large.gaps(), ["sort code 4.000 > 3.5", "sort compile s/100 KB 4.000 > 2"]);
    }
}
