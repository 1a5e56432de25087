//! A script, and the machine it targets.

use std::path::PathBuf;

use antares_abi::{CompileOptions, Isa};
use clap::{Args, value_parser};

/// Which script, and how its bytes are to be understood.
#[derive(Debug, Args)]
pub(crate) struct ScriptArgs {
    /// The script: a RISC-V ELF file, or - for standard input
    pub elf: PathBuf,
    /// How to understand it.
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// How the bytes of a script are to be understood.
#[derive(Clone, Copy, Debug, Args)]
pub struct MachineArgs {
    /// VM version
    #[arg(long, value_name = "0|1|2", default_value_t = 2, value_parser = value_parser!(u32).range(0..=2))]
    pub vm_version: u32,
    /// Instruction set [default: implied by the VM version]
    #[arg(long, value_name = "imc[+b][+mop][+a]")]
    pub isa: Option<Isa>,
}

impl Default for MachineArgs {
    fn default() -> Self {
        Self { vm_version: 2, isa: None }
    }
}

impl MachineArgs {
    /// VM version and ISA; the version implies a missing ISA.
    pub fn options(&self) -> CompileOptions {
        let isa = self.isa.unwrap_or_else(|| Isa::of_version(self.vm_version));
        CompileOptions { vm_version: self.vm_version, isa }
    }
}
