//! `antares-peers ENGINE FILE`: runs a program on another engine. The first line of output is `ready`, once
//! the program is compiled. Then each line of input is a number of repetitions, and each line of output has
//! the program's exit code and its processor time in nanoseconds. Every run starts from a fresh instance.
#![forbid(unsafe_code)]

#[cfg(feature = "contrib")]
mod contrib;
#[cfg(feature = "polkavm")]
mod polka;
mod qemu;
#[cfg(feature = "wasmtime")]
mod wasm;

use std::{
    env, fs,
    io::{BufRead, Write, stdin, stdout},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::time::{ClockId, clock_gettime};

trait Peer {
    /// Runs it from the start; returns its exit code and processor time.
    fn run(&mut self, repetitions: u32) -> Result<(i32, Duration)>;
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [engine, path] = arguments.as_slice() else { bail!("usage: antares-peers ENGINE FILE") };
    let program = fs::read(path).with_context(|| format!("reading {path}"))?;
    let mut peer = open(engine, &program).with_context(|| format!("{engine} {path}"))?;
    println!("ready");
    for line in stdin().lock().lines() {
        let (code, time) = peer.run(line?.trim().parse().context("a number of repetitions")?)?;
        println!("{code} {}", time.as_nanos());
        stdout().flush()?;
    }
    Ok(())
}

fn open(engine: &str, program: &[u8]) -> Result<Box<dyn Peer>> {
    Ok(match engine {
        "qemu" => Box::new(qemu::Program::new(program)?),
        #[cfg(feature = "contrib")]
        "contrib" => Box::new(contrib::Program::new(program)?),
        #[cfg(feature = "wasmtime")]
        "wasmtime" | "wasmtime-fuel" => Box::new(wasm::Program::new(program, engine.ends_with("fuel"))?),
        #[cfg(feature = "polkavm")]
        "polkavm" | "polkavm-gas" => Box::new(polka::Program::new(program, engine.ends_with("gas"))?),
        _ => bail!("no such engine here"),
    })
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Runs `work`; returns its result and the processor time of this thread.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = processor_time();
    let result = work();
    (result, processor_time().saturating_sub(before))
}
