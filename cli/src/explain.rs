//! `antares explain`: shows a stage on the way from ELF bytes to native code.

use std::process::ExitCode;

use antares_abi::{CodeTier, CompileOptions, Hints, Sha256Digest};
use antares_pool::job;
use anyhow::{Context as _, anyhow};

use crate::{
    args::{ExplainArgs, Stage},
    failure::Failure,
    input,
    kept::Kept,
    local, output,
};

/// Shows what `args` say.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let elf = input::read_script(&args.script.elf)?;
    let options = args.script.options();
    let kept = args.hinted.then(|| Kept::of_user(false)).flatten();
    let hints = kept.map(|kept| kept.hints(Sha256Digest::of(&elf), options)).unwrap_or_default();
    if args.after.is_some() && args.stage != Stage::Ir {
        return Err(Failure::Usage(anyhow!("--after goes with --stage ir")));
    }
    let shown = match compiler_stage(args) {
        None => hash(&elf, options, &hints).into_bytes(),
        Some(stage) => {
            let compiled = local::compile(&local::seal(&elf)?, (options, &hints), stage)?;
            compiled.output.read().context("cannot read the output").map_err(Failure::Service)?
        }
    };
    match (&args.output, args.stage) {
        (Some(path), _) => output::write(path, &shown)?,
        (None, Stage::Object) => output::print_binary(&shown)?,
        // Names in the text are the script's own choice.
        (None, _) => output::print(output::printable(&String::from_utf8_lossy(&shown)).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The stage as the compile worker knows it; none for what needs no compiler.
fn compiler_stage(args: &ExplainArgs) -> Option<job::Stage> {
    match args.stage {
        Stage::Hash => None,
        Stage::Image => Some(job::Stage::Image),
        Stage::Program => Some(job::Stage::Program),
        Stage::Ir => Some(args.after.map_or(job::Stage::Ir, |passes| job::Stage::IrAfter { passes })),
        Stage::Passes => Some(job::Stage::Passes),
        Stage::Llvm => Some(job::Stage::Llvm),
        Stage::Asm => Some(job::Stage::Asm),
        Stage::Object => Some(job::Stage::Object),
    }
}

/// What names the script and its artifact, and what the latter is made of beside the bytes.
fn hash(elf: &[u8], options: CompileOptions, hints: &Hints) -> String {
    let digest = Sha256Digest::of(elf);
    format!(
        "script   {digest}\nartifact {}\noptions  version {}, isa {}\nengine   {}, abi {}, llvm {}\ntarget   {} {} {}\n",
        Sha256Digest::for_artifact(digest, options, CodeTier::Full).with_hints(hints.digest()),
        options.vm_version,
        options.isa,
        antares_abi::ENGINE_VERSION,
        antares_abi::ABI_VERSION,
        antares_abi::LLVM_VERSION,
        antares_abi::TARGET_TRIPLE,
        antares_abi::TARGET_CPU,
        antares_abi::TARGET_FEATURES,
    )
}
