//! Source of native code, and the server to use.

use clap::Args;

/// The hidden command of that process.
pub(crate) const COMMAND: &str = "compile-behind";

/// Where native code comes from, without a server.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct CodeArgs {
    /// Wait for the full compile
    #[arg(long, conflicts_with = "server")]
    pub full: bool,
    /// Disable the local cache of native code
    #[arg(long, conflicts_with = "server")]
    pub no_cache: bool,
}

/// The server in the option, or else in `ANTARES_SERVER`; an empty name is none.
pub(crate) fn server_of(option: Option<&str>) -> Option<String> {
    let named = option.map(str::to_owned).or_else(|| std::env::var("ANTARES_SERVER").ok());
    named.filter(|name| !name.is_empty())
}

impl CodeArgs {
    /// The server of a command; none if these options are set, which concern only this machine.
    pub fn server(self, option: Option<&str>) -> Option<String> {
        if self.full || self.no_cache { None } else { server_of(option) }
    }
}
