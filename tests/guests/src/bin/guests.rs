//! Builds guests: `guests list`, or `guests NAME OUT` to copy one to a file.
#![allow(clippy::print_stdout, reason = "a command line tool")]
#![forbid(unsafe_code)]

use std::{env, fs, process::exit};

use antares_guests as guests;
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
            fs::write(out, guests::bytes(name)?)?;
        }
        _ => {
            eprintln!("usage: guests list | guests NAME OUT");
            exit(2);
        }
    }
    Ok(())
}
