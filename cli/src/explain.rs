//! `antares explain`: shows a stage on the way from ELF bytes to native code.

use std::process::ExitCode;

use antares_abi::{CodeTier, CompileOptions, Hints, Sha256Digest, Stage};
use anyhow::{Context as _, anyhow};

use crate::{
    args::{ExplainArgs, Shown},
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
    let wanted = match (args.stage, args.after) {
        (Shown::Stage(Stage::Ir), Some(passes)) => Shown::Stage(Stage::IrAfter { passes }),
        (_, Some(_)) => return Err(Failure::Usage(anyhow!("--after goes with --stage ir"))),
        (stage, None) => stage,
    };
    let shown = match wanted {
        Shown::Hash => hash(&elf, options, &hints).into_bytes(),
        Shown::Stage(stage) => {
            let compiled = local::compile(&local::seal(&elf)?, (options, &hints), stage)?;
            compiled.output.read().context("cannot read the output").map_err(Failure::Service)?
        }
    };
    match (&args.output, args.stage) {
        (Some(path), _) => output::write(path, &shown)?,
        (None, Shown::Stage(Stage::Object)) => output::print_binary(&shown)?,
        // Names in the text are the script's own choice.
        (None, _) => output::print(output::printable(&String::from_utf8_lossy(&shown)).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
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
