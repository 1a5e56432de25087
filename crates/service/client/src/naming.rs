//! Scripts, and how calls name them: by digest, or inline.

use antares_proto::v1;
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// A script to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// An ELF. It is named by digest, and uploaded to servers that lack it.
    Elf(Bytes),
    /// Digest of an uploaded script, in hex.
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

/// How a call names an ELF or cell data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// By digest.
    Digest,
    /// Inline.
    Inline,
}

pub(crate) fn digest(elf: &[u8]) -> String {
    hex::encode(Sha256::digest(elf))
}
