//! `antares keys`: a folder of keys that sign native code.

use std::path::PathBuf;

use antares_trust::{KeyError, Keyring};
use clap::{Args, Subcommand};

use crate::{failure::Failure, output};

/// Arguments of `antares keys`.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    /// What to do.
    #[command(subcommand)]
    command: KeysCommand,
    /// Folder of the keys: `signing.keys` of the server, next to its `cache.dir` by default
    #[arg(long, value_name = "DIR", global = true, default_value = "antares-data-keys")]
    keys: PathBuf,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Generate a trusted key; the first one signs
    Generate,
    /// List trusted keys and revocations
    List,
    /// Sign with another key: the given one, or a new one
    Rotate {
        /// Id of an existing key
        id: Option<String>,
    },
    /// Revoke a signing key, a shared object, or all native code of a script
    Revoke {
        /// Key id or SHA-256
        name: String,
    },
}

pub(crate) fn keys(args: &KeysArgs) -> Result<(), Failure> {
    let folder = &args.keys;
    let text = match &args.command {
        KeysCommand::Generate => format!("{}\n", Keyring::generate(folder, false).map_err(key_failure)?),
        KeysCommand::List => list(args)?,
        KeysCommand::Rotate { id: None } => {
            format!("{}\n", Keyring::generate(folder, true).map_err(key_failure)?)
        }
        KeysCommand::Rotate { id: Some(id) } => {
            Keyring::sign_with(folder, id).map_err(key_failure)?;
            format!("{id}\n")
        }
        KeysCommand::Revoke { name } => {
            Keyring::revoke(folder, name).map_err(key_failure)?;
            format!("{name}\n")
        }
    };
    output::print(text.as_bytes())
}

fn list(args: &KeysArgs) -> Result<String, Failure> {
    let keyring = Keyring::read(&args.keys.join(antares_trust::LIST)).map_err(key_failure)?;
    let mut text = String::new();
    for key in keyring.keys() {
        let role = if key.id == keyring.signer_id() { "signs" } else { "trusted" };
        text += &format!("{}  {role:<8}  {}\n", key.id, key.public);
    }
    for name in keyring.revoked() {
        text += &format!("{name}  revoked\n");
    }
    Ok(text)
}

fn key_failure(error: KeyError) -> Failure {
    Failure::Usage(error.into())
}
