//! Arguments of `antares explain`.

use std::path::PathBuf;

use antares_abi::Stage;
use antares_opt::Level;
use clap::Args;

use crate::args::{
    choice::{Choice, one_of},
    script::MachineArgs,
};

/// Arguments of `antares explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The script: a RISC-V ELF file, or - for standard input
    #[arg(required_unless_present = "passes")]
    pub elf: Option<PathBuf>,
    /// How to understand it.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// The stage
    #[arg(long, value_parser = one_of(SHOWN), required_unless_present = "passes")]
    pub stage: Option<Shown>,
    /// List the optimiser's passes; needs no script
    #[arg(long, conflicts_with_all = ["after", "hinted"])]
    pub passes: bool,
    /// The IR after this pass
    #[arg(long, value_name = "PASS", value_parser = passes_done)]
    pub after: Option<u32>,
    /// Use the jump targets learned from runs on this machine
    #[arg(long)]
    pub hinted: bool,
    /// Output file, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Output of `antares explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Digest of the bytes and key of the artifact.
    Hash,
    /// What the compiler gives at this stage.
    Stage(Stage),
}

/// Names, stages and descriptions.
const SHOWN: [Choice<Shown>; 8] = [
    ("hash", Shown::Hash, "Digest of the bytes and key of the artifact"),
    ("image", Shown::Stage(Stage::Image), "Segments, entry, symbols"),
    ("program", Shown::Stage(Stage::Program), "Functions and blocks"),
    ("ir", Shown::Stage(Stage::Ir), "The typed intermediate form"),
    ("passes", Shown::Stage(Stage::Passes), "The passes over the intermediate form, and what each leaves"),
    ("llvm", Shown::Stage(Stage::Llvm), "LLVM IR after optimisation"),
    ("asm", Shown::Stage(Stage::Asm), "Host assembly"),
    ("object", Shown::Stage(Stage::Object), "The relocatable object file (binary)"),
];

/// Number of full-tier passes up to and including the one of this name; 0 for `lift`, before all of them.
fn passes_done(name: &str) -> Result<u32, String> {
    let names = || std::iter::once("lift").chain(antares_opt::passes(Level::Full).map(|pass| pass.name));
    let done = (0..).zip(names()).find(|(_, known)| *known == name).map(|(done, _)| done);
    done.ok_or_else(|| {
        format!("no pass is called {name:?}; there are {}", names().collect::<Vec<_>>().join(", "))
    })
}
