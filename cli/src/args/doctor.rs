//! Arguments of `antares doctor`.

#[cfg(feature = "server")]
use std::path::PathBuf;

use clap::Args;

/// Arguments of `antares doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Check the sandbox of this configuration [default: that of the services' defaults]
    #[cfg(feature = "server")]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}
