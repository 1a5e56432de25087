//! Builds guests: `guests list`, or `guests NAME OUT` to copy one to a file, including guests in Rust;
//! `--relocations` keeps the relocations of a C guest.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::{env, fs, process::exit};

use antares_guests::{self as guests, RustLevel};
use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for guest in guests::guests() {
                println!("{:<28} {}", guest.name, guest.about);
            }
        }
        [name, out] => {
            let is_rust = guests::guest_named(name).is_none();
            let elf = if is_rust { guests::rust_guest(name, RustLevel::Fast) } else { guests::bytes(name) };
            fs::write(out, elf?)?;
        }
        [name, out, "--relocations"] => {
            let guest = guests::guest_named(name).with_context(|| format!("no guest is named {name:?}"))?;
            fs::write(out, guests::with_relocations(&guest)?)?;
        }
        _ => {
            eprintln!("usage: guests list | guests NAME OUT [--relocations]");
            exit(2);
        }
    }
    Ok(())
}
