//! What runs, and how a call names it: by digest, or with all its bytes.

use antares_proto::v1;
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// An ELF. It is named by digest, and sent where a server has not got it.
    Elf(Bytes),
    /// Digest of one that was uploaded, in hex.
    Stored(String),
}

impl Script {
    pub(crate) fn message(&self, naming: Naming, options: Option<v1::ScriptOptions>) -> v1::Script {
        let source = match (self, naming) {
            (Self::Elf(elf), Naming::Inline) => v1::script::Source::Elf(elf.clone()),
            (Self::Elf(elf), Naming::Digest) => v1::script::Source::Sha256(digest(elf)),
            (Self::Stored(digest), _) => v1::script::Source::Sha256(digest.clone()),
        };
        v1::Script { source: Some(source), options }
    }
}

/// How a call names an ELF, or data of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// By digest.
    Digest,
    /// With all bytes.
    Inline,
}

pub(crate) fn digest(elf: &[u8]) -> String {
    hex::encode(Sha256::digest(elf))
}
