//! Words of `antares doctor`.

#[cfg(feature = "server")]
use std::path::PathBuf;

use clap::Args;

/// Words of `antares doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The configuration of the services: what it asks for is tried (without one: what they ask for by
    /// default)
    #[cfg(feature = "server")]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}
