//! The command line that the service binaries share.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use crate::config::{Config, ConfigError, Role};
use crate::raw_config::RawConfig;

/// Words of a service's command line.
#[derive(Clone, Debug, Default, Args)]
pub struct Options {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on for gRPC, over what the configuration says
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Directory of the cache, over what the configuration says
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Check the configuration, report every mistake, and stop
    #[arg(long)]
    pub check_config: bool,
    /// Print the configuration with all defaults filled in, and stop
    #[arg(long)]
    pub print_config: bool,
}

/// What a command line asks for.
#[derive(Debug)]
pub enum Request {
    /// To serve.
    Serve(Box<Config>),
    /// To print this text and stop.
    Print(String),
}

impl Options {
    /// Reads and checks the configuration. It is always checked whole, also before it is printed.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn resolve(&self, role: Role, layers: &[&str]) -> Result<Request, ConfigError> {
        let raw = RawConfig::read(self.config.as_deref(), self.listen, self.data.as_deref())?;
        let config = raw.check(role, layers)?;
        Ok(match (self.print_config, self.check_config) {
            (true, _) => Request::Print(raw.print()?),
            (false, true) => Request::Print("the configuration is fine\n".to_owned()),
            (false, false) => Request::Serve(Box::new(config)),
        })
    }
}
