//! Cycles and size of one RSA verification beside what was published for the same library on the same virtual
//! machine in 2020 (Mbed TLS with another toolchain and another C library; files with their symbols).

use antares_tests::{
    guests,
    oracle::{self, Case},
};
use anyhow::{Result, ensure};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::{engine::CYCLES_MAX, programs::OPTIONS};

/// Thousands of cycles and KB, where they were published.
type Published = Option<(u64, u64)>;

/// Guest, optimisation, what was published.
const PROGRAMS: [(&str, &str, Published); 6] = [
    ("rsa1024-o2-imc", "-O2", Some((1828, 228))),
    ("rsa1024-imc", "-O3", Some((1831, 247))),
    ("rsa1024-os-imc", "-Os", Some((1955, 220))),
    ("rsa2048-o2-imc", "-O2", None),
    ("rsa2048-imc", "-O3", None),
    ("rsa2048-os-imc", "-Os", Some((6780, 220))),
];

/// Prints a line for each program.
pub(crate) fn measure() -> Result<Vec<Value>> {
    println!("RSA: cycles of one verification and bytes of the ELF file, beside the published numbers");
    let mut rows = Vec::new();
    for (guest, level, published) in PROGRAMS {
        let elf = Bytes::from(guests::bytes(guest)?);
        let file_bytes = elf.len();
        let case = Case { elf, args: vec!["1".into()], options: OPTIONS, cycles_max: CYCLES_MAX, code: None };
        let run = oracle::run(&case);
        ensure!(run.outcome == "Exit(0)", "{guest} ends with {}", run.outcome);
        let shown = published
            .map_or("-".to_owned(), |(cycles, size)| format!("{cycles},000 cycles, {size},000 bytes"));
        println!("{guest:<16} {level}  {:>9} cycles, {file_bytes:>6} bytes   published: {shown}", run.cycles);
        rows.push(json!({ "name": guest, "level": level, "cycles": run.cycles, "file_bytes": file_bytes }));
    }
    Ok(rows)
}
