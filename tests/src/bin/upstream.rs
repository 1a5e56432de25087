//! Runs ckb-script's own tests: `upstream stock|auto|native|interpreter [FILTER]`.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::env;

use antares_tests::upstream::{Machine, Suite};
use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (machine, filter) = match words[..] {
        [machine] => (machine, ""),
        [machine, filter] => (machine, filter),
        _ => bail!("usage: upstream stock|auto|native|interpreter [FILTER]"),
    };
    let machine = match machine {
        "stock" => Machine::Stock,
        "auto" => Machine::Ours("auto"),
        "native" => Machine::Ours("native"),
        "interpreter" => Machine::Ours("interpreter"),
        other => bail!("no machine is called {other:?}"),
    };
    let counts = Suite::prepare(machine)?.run(filter)?;
    let failed = counts.failed();
    println!("{} tests, {} failed\n{:#?}", counts.tests.len(), failed.len(), counts.shares);
    if !failed.is_empty() {
        bail!("{failed:?} failed:\n{}", counts.output);
    }
    Ok(())
}
