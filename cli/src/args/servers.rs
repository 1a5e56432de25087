//! The words of the commands that ask a server about itself.

use std::path::PathBuf;

use clap::Args;

use crate::args::credentials::CredentialArgs;

/// Which server.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server, for example http://127.0.0.1:50051 [default: ANTARES_SERVER]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    #[command(flatten)]
    pub credentials: CredentialArgs,
}

/// Words of `antares upload`.
#[derive(Debug, Args)]
pub(crate) struct UploadArgs {
    /// The scripts: RISC-V RV64 ELF files, or - for standard input
    #[arg(required = true)]
    pub elf: Vec<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Words of `antares ls`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// List what is stored, not what was run: key, bytes, and whether it is pinned and was used
    #[arg(long, conflicts_with = "window_ms")]
    pub stored: bool,
    /// With --stored: artifacts, not scripts
    #[arg(long, requires = "stored")]
    pub artifacts: bool,
    /// How far back, milliseconds [default: all that it keeps]
    #[arg(long, value_name = "N")]
    pub window_ms: Option<u64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Words of `antares health`.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Words of `antares rm`, `pin` and `unpin`.
#[derive(Debug, Args)]
pub(crate) struct KeptArgs {
    /// The scripts: their SHA-256, or their files
    #[arg(required = true)]
    pub scripts: Vec<PathBuf>,
    /// They are keys of artifacts
    #[arg(long)]
    pub artifacts: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Words of `antares stat`.
#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// The script: its SHA-256, or its file
    pub script: PathBuf,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// Words of `antares top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The script: its SHA-256, or its file [default: everything that was run]
    pub script: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// How far back, milliseconds [default: all that it keeps]
    #[arg(long, value_name = "N")]
    pub window_ms: Option<u64>,
    /// Functions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: u32,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
