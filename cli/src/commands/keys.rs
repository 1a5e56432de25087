//! `antares keys`: a folder of keys that sign native code.

use std::path::{Path, PathBuf};

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
    let text = change(args).map_err(|error| Failure::Usage(error.into()))?;
    output::print(text.as_bytes())
}

/// Does it, and says with which keys.
fn change(KeysArgs { command, keys: folder }: &KeysArgs) -> Result<String, KeyError> {
    let name = match command {
        KeysCommand::Generate => Keyring::generate(folder, false)?,
        KeysCommand::List => return list(folder),
        KeysCommand::Rotate { id: None } => Keyring::generate(folder, true)?,
        KeysCommand::Rotate { id: Some(id) } => {
            Keyring::sign_with(folder, id)?;
            id.clone()
        }
        KeysCommand::Revoke { name } => {
            Keyring::revoke(folder, name)?;
            name.clone()
        }
    };
    Ok(name + "\n")
}

fn list(folder: &Path) -> Result<String, KeyError> {
    let keyring = Keyring::read(&folder.join(antares_trust::LIST))?;
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
