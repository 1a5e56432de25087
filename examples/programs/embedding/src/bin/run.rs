//! Runs a script: `run SCRIPT [ARG...]`. Prints how it ended and what it cost.
#![forbid(unsafe_code)]

use std::{env, fs};

use antares::{Engine, Run, VmVersion};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = env::args().skip(1);
    let elf = fs::read(args.next().ok_or("usage: run SCRIPT [ARG...]")?)?;
    let script = Engine::new().compile(elf, VmVersion::V2)?;
    let outcome = script.run(Run::new().args(args))?;
    println!("{:?}: {} cycles, {} of them native", outcome.end, outcome.cycles, outcome.native_cycles);
    Ok(())
}
