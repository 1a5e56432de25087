//! `antares admin`: an operator's actions on a process of the service.

use antares_proto::v1::{self, admin_service_client::AdminServiceClient};
use clap::Subcommand;

use crate::{args::servers::ServerArgs, failure::Failure, output, remote::calls::inventory::call};

/// What to do to a process.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Stop as on SIGTERM: calls in progress finish
    Drain {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Revoke a signing key, a shared object, or all native code of a script
    Revoke {
        /// Key id or SHA-256
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Change the log filter until the process ends; prints the previous one
    LogFilter {
        /// A filter such as info, or info,antares_pool=debug
        filter: String,
        #[command(flatten)]
        server: ServerArgs,
    },
}

pub(crate) fn admin(command: &AdminCommand) -> Result<(), Failure> {
    let (AdminCommand::Drain { server }
    | AdminCommand::Revoke { server, .. }
    | AdminCommand::LogFilter { server, .. }) = command;
    let text = server.server()?.request(async |channel| {
        let mut client = AdminServiceClient::new(channel);
        Ok(match command {
            AdminCommand::Drain { .. } => {
                client.drain(call(v1::DrainRequest {})).await?;
                "draining\n".to_owned()
            }
            AdminCommand::Revoke { name, .. } => {
                let asked = call(v1::RevokeRequest { name: name.clone() });
                revoked(name, client.revoke(asked).await?.get_ref())
            }
            AdminCommand::LogFilter { filter, .. } => {
                let asked = call(v1::SetLogFilterRequest { filter: filter.clone() });
                let answer = client.set_log_filter(asked).await?;
                format!("{}\n", output::printable(&answer.get_ref().previous))
            }
        })
    })?;
    output::print(text.as_bytes())
}

/// What was revoked and its dependents, one per line.
fn revoked(name: &str, answer: &v1::RevokeResponse) -> String {
    let mut text = format!("{name}  revoked\n");
    let script = output::printable(&answer.script_sha256);
    match answer.kind() {
        v1::RevokedKind::Unspecified | v1::RevokedKind::Key => return text,
        v1::RevokedKind::NotStored => return text + "nothing of it is stored here\n",
        v1::RevokedKind::Script => {}
        v1::RevokedKind::Library => text += &format!("{script}  its script goes on: revoke it too\n"),
    }
    for library in answer.library_sha256.iter().filter(|library| *library != name) {
        let state = if answer.kind() == v1::RevokedKind::Script { "stopped with it" } else { "goes on" };
        text += &format!("{}  {state}\n", output::printable(library));
    }
    text
}
