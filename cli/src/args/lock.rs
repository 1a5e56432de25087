//! Arguments of `antares run --as-lock`.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use antares_transaction::{AsLock, Mock, limits::TRANSACTION_BYTES_MAX};
use anyhow::anyhow;
use bytes::Bytes;
use clap::Args;

use crate::{failure::Failure, input};

/// What a script that runs as a lock may look at.
#[derive(Clone, Debug, Default, Args)]
pub struct LockArgs {
    /// Run the script as the lock of a generated transaction, with all system calls; report as verify does
    #[arg(long, conflicts_with_all = ["isa", "args"])]
    pub as_lock: bool,
    /// With --as-lock: arguments of the lock script
    #[arg(long, value_name = "0xHEX|@FILE", requires = "as_lock", id = "lock_args")]
    pub args: Option<Content>,
    /// With --as-lock: witness of the input [default: none]
    #[arg(long, value_name = "0xHEX|@FILE", requires = "as_lock")]
    pub witness: Option<Content>,
    /// With --as-lock: data of the spent cell
    #[arg(long, value_name = "0xHEX|@FILE", requires = "as_lock")]
    pub data: Option<Content>,
}

impl LockArgs {
    /// The transaction whose lock is the script in `elf`.
    pub fn to_mock(&self, elf: &Path) -> Result<Mock, Failure> {
        let read = |content: &Option<Content>| content.as_ref().map(Content::read).transpose();
        let lock = AsLock {
            elf: input::read_script(elf)?.into(),
            args: read(&self.args)?.unwrap_or_default(),
            witness: read(&self.witness)?,
            data: read(&self.data)?.unwrap_or_default(),
        };
        lock.to_mock().map_err(|error| Failure::Usage(anyhow!("the script is invalid: {error}")))
    }
}

/// Bytes on the command line: hexadecimal digits after `0x`, or a file after `@`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl FromStr for Content {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix('@').filter(|path| !path.is_empty()) {
            return Ok(Self::File(path.into()));
        }
        let bytes = text.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok());
        bytes.map(Self::Bytes).ok_or("must be 0x and pairs of hexadecimal digits, or @ and a file")
    }
}

impl Content {
    pub fn read(&self) -> Result<Bytes, Failure> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone().into()),
            Self::File(path) => input::read(path, TRANSACTION_BYTES_MAX as u64).map(Bytes::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_digits_or_a_file() {
        assert_eq!("0x".parse(), Ok(Content::Bytes(Vec::new())));
        assert_eq!("0x00aFf0".parse(), Ok(Content::Bytes(vec![0, 0xaf, 0xf0])));
        assert_eq!("@folder/file".parse(), Ok(Content::File("folder/file".into())));
        for text in ["", "@", "00", "0x0", "0xgg", "0x+1", "0x 1"] {
            assert!(text.parse::<Content>().is_err(), "{text}");
        }
    }
}
