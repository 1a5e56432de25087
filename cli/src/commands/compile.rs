//! `antares compile`: writes the shared object of a script.

use std::path::{Path, PathBuf};

use antares_abi::{CodeTier, Hints, Sha256Digest};
use antares_pool::job::Stage;
use anyhow::{Context as _, anyhow};

use crate::{
    args::compile::CompileArgs, failure::Failure, input, local::workers, output, output::report::grouped,
};

/// Compiles as `args` say.
pub(crate) fn compile(args: &CompileArgs) -> Result<(), Failure> {
    let path = match &args.output {
        Some(path) => path.clone(),
        None => default_output(&args.script.elf)?,
    };
    let elf = workers::seal(&input::read_script(&args.script.elf)?)?;
    let options = args.script.machine.options();
    let compiled = workers::compile(&elf, (options, &Hints::default()), Stage::Library)?;
    let bytes = compiled.output.read().context("cannot read the output").map_err(Failure::Service)?;
    output::write(&path, &bytes)?;
    if input::is_stdio(&path) {
        return Ok(());
    }
    let summary = compiled.summary;
    let text = format!(
        "{}\n  artifact {}\n  sha256   {}\n  size     {} bytes from {} bytes of guest code, {} functions, {} blocks\n  \
             compile  {} ms\n",
        path.display(),
        Sha256Digest::for_artifact(elf.digest(), options, CodeTier::Full),
        summary.sha256,
        grouped(summary.output_bytes),
        grouped(summary.guest_code_bytes),
        grouped(summary.functions),
        grouped(summary.blocks),
        grouped(summary.compile_ms),
    );
    output::print(text.as_bytes())
}

/// The script's file name with `.so`, in the current directory.
fn default_output(elf: &Path) -> Result<PathBuf, Failure> {
    match elf.file_name() {
        Some(name) if !input::is_stdio(elf) => Ok(Path::new(name).with_extension("so")),
        _ => Err(Failure::Usage(anyhow!("say where to write the shared object: -o FILE"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_named_after_the_script() {
        assert_eq!(default_output(Path::new("/scripts/verify")).unwrap(), Path::new("verify.so"));
        assert_eq!(default_output(Path::new("verify.elf")).unwrap(), Path::new("verify.so"));
        assert!(default_output(Path::new("-")).is_err());
    }
}
