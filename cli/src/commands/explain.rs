//! `antares explain`: shows a stage of the compilation from ELF bytes to native code.

use std::fmt::Write as _;

use antares_abi::{CodeTier, CompileOptions, Hints, Sha256Digest, Stage};
use antares_opt::{Level, PASSES};
use anyhow::{Context as _, anyhow};

use crate::{
    args::explain::{ExplainArgs, Shown},
    failure::Failure,
    input,
    local::code_cache::CodeFolder,
    local::workers,
    output,
};

/// Shows the stage that `args` name.
pub(crate) fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let (Some(elf), Some(stage), false) = (&args.elf, args.stage, args.passes) else {
        return print(args, passes().as_bytes());
    };
    let elf = input::read_script(elf)?;
    let options = args.machine.options();
    let hints = CodeFolder::of_user(!args.hinted).hints(Sha256Digest::of(&elf), options);
    let wanted = match (stage, args.after) {
        (Shown::Stage(Stage::Ir), Some(passes)) => Shown::Stage(Stage::IrAfter { passes }),
        (_, Some(_)) => return Err(Failure::Usage(anyhow!("--after goes with --stage ir"))),
        (stage, None) => stage,
    };
    let shown = match wanted {
        Shown::Hash => hash(&elf, options, &hints).into_bytes(),
        Shown::Stage(stage) => {
            let compiled = workers::compile(&workers::seal(&elf)?, (options, &hints), stage)?;
            compiled.output.read().context("cannot read the output").map_err(Failure::Service)?
        }
    };
    print(args, &shown)
}

/// Writes the stage to the requested output.
fn print(args: &ExplainArgs, shown: &[u8]) -> Result<(), Failure> {
    match (&args.output, args.stage) {
        (Some(path), _) => output::write(path, shown),
        (None, Some(Shown::Stage(Stage::Object))) => output::print_binary(shown),
        // The script chooses the names in the text.
        (None, _) => output::print(output::printable(&String::from_utf8_lossy(shown)).as_bytes()),
    }
}

/// The table of passes: name, levels, effect, and required earlier passes.
fn passes() -> String {
    let levels = [("plain", Level::Plain), ("baseline", Level::Baseline), ("full", Level::Full)];
    let mut text = format!("{:<26}{:<24}about\n", "pass", "levels");
    for pass in PASSES {
        let of: Vec<_> =
            levels.iter().filter(|(_, level)| pass.is_of(*level)).map(|(name, _)| *name).collect();
        let _ = write!(text, "{:<26}{:<24}{}", pass.name, of.join(","), pass.about);
        let behind = [("requires", pass.requires), ("after", pass.after)];
        let behind = behind.iter().filter(|(_, names)| !names.is_empty());
        let behind: Vec<_> = behind.map(|(word, names)| format!("{word} {}", names.join(", "))).collect();
        let _ = match behind.as_slice() {
            [] => writeln!(text),
            parts => writeln!(text, " ({})", parts.join("; ")),
        };
    }
    text
}

/// Digests of the script and its artifact, and the other inputs of the artifact's key.
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
