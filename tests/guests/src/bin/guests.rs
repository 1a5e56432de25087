//! Builds guests: `guests list`, or `guests NAME OUT` to copy one to a file, those in Rust too.
#![allow(clippy::print_stdout, reason = "a command line tool")]
#![forbid(unsafe_code)]

use std::{env, fs, process::exit};

use antares_guests::{self as guests, RustLevel};
use anyhow::Result;

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
        _ => {
            eprintln!("usage: guests list | guests NAME OUT");
            exit(2);
        }
    }
    Ok(())
}
