//! `library-once FILE`: verifies one transaction of ckb-debugger's JSON with ckb-script and its assembly
//! machine, and exits. Represents a command that embeds the library. Prints the cycles.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use antares_transaction::{Environment, Mock};
use antares_verifier::{Interpreter, Prepared, StopHandle, TransactionLimits, Verifier, VerifyOutcome};
use anyhow::{Context, Result, ensure};

const LIMITS: TransactionLimits = TransactionLimits { cycles_max: 3_500_000_000, debug_bytes_max: 1 << 20 };

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("which transaction?")?;
    let mock = Mock::from_json(&std::fs::read(path)?)?;
    let prepared = Prepared::new(&mock, &Environment::default())?;
    let report = Verifier::new(prepared, LIMITS, Interpreter, StopHandle::default()).verify(None)?;
    ensure!(report.outcome == VerifyOutcome::Ok, "{report:?}");
    println!("{}", report.cycles);
    Ok(())
}
