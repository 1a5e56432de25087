//! `antares serve`: both services in this process, on one address.

use antares_config::Role;
use antares_runner_svc::{app, embedded};
use antares_serve::Options;

use crate::{failure::Failure, output};

/// Serves until SIGTERM or SIGINT, or prints the requested information.
pub(crate) fn serve(options: &Options) -> Result<(), Failure> {
    let (config, text) =
        options.resolve(Role::Both, &app::layer_names()).map_err(|error| Failure::Usage(error.into()))?;
    match text {
        Some(text) => output::print(text.as_bytes()),
        None => embedded::serve(&config).map_err(|error| Failure::Service(error.into())),
    }
}
