//! Arguments of the commands that query a server.

use std::path::PathBuf;

use clap::Args;

use crate::args::credentials::CredentialArgs;

/// Which server.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server, such as http://127.0.0.1:50051 [default: ANTARES_SERVER]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    #[command(flatten)]
    pub credentials: CredentialArgs,
}

/// Arguments of `antares upload`.
#[derive(Debug, Args)]
pub(crate) struct UploadArgs {
    /// The scripts: RISC-V ELF files, or - for standard input
    #[arg(required = true)]
    pub elf: Vec<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Arguments of `antares ls`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// List what is stored: key, bytes, pinned, used
    #[arg(long, conflicts_with = "window_ms")]
    pub stored: bool,
    /// With --stored: list native code
    #[arg(long, requires = "stored")]
    pub artifacts: bool,
    /// How far back, in milliseconds [default: everything it keeps]
    #[arg(long, value_name = "N")]
    pub window_ms: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `antares health`.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `antares rm`, `pin` and `unpin`.
#[derive(Debug, Args)]
pub(crate) struct StoredArgs {
    /// SHA-256 or files of the scripts
    #[arg(required = true)]
    pub scripts: Vec<PathBuf>,
    /// The names are keys of native code
    #[arg(long)]
    pub artifacts: bool,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Arguments of `antares stat`.
#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// SHA-256 or file of the script
    pub script: PathBuf,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `antares top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// SHA-256 or file of the script [default: everything]
    pub script: Option<PathBuf>,
    #[command(flatten)]
    pub server: ServerArgs,
    /// How far back, in milliseconds [default: everything it keeps]
    #[arg(long, value_name = "N")]
    pub window_ms: Option<u64>,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
