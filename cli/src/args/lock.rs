//! Arguments of `antares run --as-lock`.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use antares_transaction::{AsLock, Mock};
use anyhow::anyhow;
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

/// Neither form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoContent;

impl fmt::Display for NoContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be 0x and pairs of hexadecimal digits, or @ and a file")
    }
}

impl std::error::Error for NoContent {}

impl FromStr for Content {
    type Err = NoContent;

    fn from_str(text: &str) -> Result<Self, NoContent> {
        if let Some(path) = text.strip_prefix('@').filter(|path| !path.is_empty()) {
            return Ok(Self::File(path.into()));
        }
        let (pairs, rest) = text.strip_prefix("0x").ok_or(NoContent)?.as_bytes().as_chunks::<2>();
        let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        let byte = |[high, low]: &[u8; 2]| Some(value(*high)? << 4 | value(*low)?);
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        bytes.filter(|_| rest.is_empty()).map(Self::Bytes).ok_or(NoContent)
    }
}
