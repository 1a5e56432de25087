//! The command line that the service binaries share.

use std::{
    error::Error,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
};

use antares_config::{Config, ConfigError, ConfigFile, Role};
use clap::Args;

use crate::status::chain;

/// Exit status for an invalid configuration.
const EXIT_USAGE: u8 = 2;

/// Words of a service's command line.
#[derive(Clone, Debug, Default, Args)]
pub struct Options {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Listen address for gRPC; overrides the configuration
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Cache directory; overrides the configuration
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Check the configuration, report all errors, and exit
    #[arg(long)]
    pub check_config: bool,
    /// Print the configuration with all defaults, and exit
    #[arg(long)]
    pub print_config: bool,
}

impl Options {
    /// Reads and checks the configuration, always as a whole. Returns a text if it is to be printed instead of
    /// serving.
    ///
    /// # Errors
    /// The configuration's errors.
    pub fn resolve(&self, role: Role, layers: &[&str]) -> Result<(Config, Option<String>), ConfigError> {
        let raw = ConfigFile::read(self.config.as_deref(), self.listen, self.data.as_deref())?;
        let config = raw.check(role, layers)?;
        let text = match (self.print_config, self.check_config) {
            (true, _) => Some(raw.print()?),
            (false, true) => Some("the configuration is fine\n".to_owned()),
            (false, false) => None,
        };
        Ok((config, text))
    }
}

/// The main function of a service: handles `options`, and serves with `serve`. Exit status 0 after a clean
/// end, 1 for a failed service, 2 for an invalid configuration.
pub fn main(
    options: &Options,
    role: Role,
    layers: &[&str],
    serve: impl FnOnce(&Config) -> Result<(), Box<dyn Error + Send + Sync>>,
) -> ExitCode {
    let failed = |error: &dyn Error, status: u8| {
        // Nothing can be done if standard error is closed.
        let _ = writeln!(io::stderr(), "error: {}", chain(error));
        ExitCode::from(status)
    };
    match options.resolve(role, layers) {
        Err(error) => failed(&error, EXIT_USAGE),
        Ok((_, Some(text))) => match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, 1),
        },
        Ok((config, None)) => match serve(&config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&*error, 1),
        },
    }
}
