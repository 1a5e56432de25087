//! `antares admin`: an operator's actions on a process of the service.

use antares_proto::v1::{self, admin_service_client::AdminServiceClient};
use clap::{Args, Subcommand};

use crate::{
    args::servers::ServerArgs,
    failure::Failure,
    output,
    remote::calls::{Server, inventory::call},
};

/// Arguments of `antares admin`.
#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// What to do.
    #[command(subcommand)]
    command: AdminCommand,
}

/// What to do to a process.
#[derive(Debug, Subcommand)]
enum AdminCommand {
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

pub(crate) fn admin(args: &AdminArgs) -> Result<(), Failure> {
    match &args.command {
        AdminCommand::Drain { server } => {
            server.server()?.drain()?;
            output::print(b"draining\n")
        }
        AdminCommand::Revoke { name, server } => {
            let answer = server.server()?.revoke(name)?;
            output::print(revoked(name, &answer).as_bytes())
        }
        AdminCommand::LogFilter { filter, server } => {
            let previous = server.server()?.set_log_filter(filter)?;
            output::print(format!("{}\n", output::printable(&previous)).as_bytes())
        }
    }
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

impl Server {
    fn drain(&self) -> Result<(), Failure> {
        self.request(async |channel| {
            AdminServiceClient::new(channel).drain(call(v1::DrainRequest {})).await.map(drop)
        })
    }

    fn revoke(&self, name: &str) -> Result<v1::RevokeResponse, Failure> {
        self.request(async |channel| {
            let asked = call(v1::RevokeRequest { name: name.to_owned() });
            AdminServiceClient::new(channel).revoke(asked).await.map(tonic::Response::into_inner)
        })
    }

    fn set_log_filter(&self, filter: &str) -> Result<String, Failure> {
        self.request(async |channel| {
            let asked = call(v1::SetLogFilterRequest { filter: filter.to_owned() });
            Ok(AdminServiceClient::new(channel).set_log_filter(asked).await?.into_inner().previous)
        })
    }
}
