//! Runs a script with native code that was compiled and signed elsewhere, without LLVM:
//! `without-llvm SCRIPT LIBRARY MANIFEST KEYS [ARG...]`.
#![forbid(unsafe_code)]

use std::{env, fs};

use antares::{Engine, Run, SignedArtifact, TrustedKeys, VmVersion};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = env::args().skip(1);
    let mut next = || args.next().ok_or("usage: without-llvm SCRIPT LIBRARY MANIFEST KEYS [ARG...]");
    let elf = fs::read(next()?)?;
    let artifact = SignedArtifact { library: fs::read(next()?)?, manifest: fs::read(next()?)? };
    let keys = TrustedKeys::read(next()?)?;
    let script = Engine::new().load(elf, VmVersion::V2, &artifact, &keys)?;
    let outcome = script.run(Run::new().args(args))?;
    println!("{:?}: {} cycles, {} of them native", outcome.end, outcome.cycles, outcome.native_cycles);
    Ok(())
}
