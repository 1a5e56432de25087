//! Reports how much of programs recovery finds, with and without section headers.
//!
//! ```sh
//! cargo run --release -p antares-tests --bin coverage -- [FILE [ARG...]]
//! ```
//! Without a file it uses the guests.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::{env, fs};

use antares_tests::{
    coverage::{Coverage, measure, without_sections},
    guests,
};
use anyhow::Result;
use bytes::Bytes;

fn print(name: &str, coverage: &Coverage) {
    let percent = |part: f64, whole: f64| 100.0 * part / whole.max(1.0);
    let Coverage { code_bytes, known_bytes, copied_bytes, executed, executed_known, missed } = coverage;
    println!(
        "{name} | {:.1} | {:.1} | {:.2} | {:x?}",
        percent(*known_bytes as f64, *code_bytes as f64),
        percent(*executed_known as f64, *executed as f64),
        *copied_bytes as f64 / (*known_bytes).max(1) as f64,
        missed.iter().take(8).collect::<Vec<_>>()
    );
}

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    println!("program | % of executable bytes | % of executed addresses | copies | calls without an entry");
    let Some(file) = arguments.next() else {
        for guest in guests::guests().into_iter().filter(|guest| guest.name.ends_with("-b")) {
            let elf = guests::bytes(&guest.name)?;
            print(&guest.name, &measure(&elf, &[Bytes::from("1")], 2)?);
            print(
                &format!("{}, no sections", guest.name),
                &measure(&without_sections(&elf), &[Bytes::from("1")], 2)?,
            );
        }
        return Ok(());
    };
    let elf = fs::read(&file)?;
    let args: Vec<Bytes> = arguments.map(Bytes::from).collect();
    print(&file, &measure(&elf, &args, 2)?);
    print("without sections", &measure(&without_sections(&elf), &args, 2)?);
    Ok(())
}
