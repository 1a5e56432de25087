//! The worker program that the compile supervisor starts.

use anyhow::Result;

fn main() -> Result<()> {
    Ok(antares_compile_worker::work_by(antares_compiler::compile)?)
}
