//! `bench [NAME...]`: how fast scripts run, as ratios to the same C built for this machine, all in one interleaved loop.
//!
//! Prints a table and writes `target/bench/engine.json`.
#![allow(clippy::print_stdout, reason = "a command line tool")]
#![forbid(unsafe_code)]

mod measure;
mod programs;
mod report;
mod twin;

use std::env;

use anyhow::{Result, bail};

use crate::{measure::measure, programs::PROGRAMS, report::Report};

fn main() -> Result<()> {
    let wanted: Vec<String> = env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| PROGRAMS.iter().all(|program| program.name != **name)) {
        bail!("no program is named {unknown:?}");
    }
    let mut report = Report::default();
    for program in &PROGRAMS {
        if wanted.is_empty() || wanted.iter().any(|name| name == program.name) {
            let row = measure(program)?;
            println!("{row}");
            report.programs.push(row);
        }
    }
    report.finish()?;
    Ok(())
}
