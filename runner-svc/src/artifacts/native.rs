//! Native code of scripts, as callers pass it around.

use std::sync::Arc;

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Sha256Digest};
use antares_pool::Sealed;

/// Native code, ready to load.
#[derive(Clone, Debug)]
pub(crate) struct Native {
    pub(crate) script: Sha256Digest,
    pub(crate) options: CompileOptions,
    pub(crate) key: ArtifactKey,
    pub(crate) tier: CodeTier,
    pub(crate) library: Arc<Sealed>,
    pub(crate) made_ms: Option<u64>,
}

/// Native code, and the digest of the hints it was compiled with.
pub(crate) type HintedNative = (Native, Option<Sha256Digest>);

/// Origin of native code, for the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) key: ArtifactKey,
    pub(crate) tier: CodeTier,
    /// Wall time of its compile in milliseconds, if this call compiled it.
    pub(crate) made_ms: Option<u64>,
}

impl Native {
    pub(crate) fn origin(&self) -> Origin {
        Origin { key: self.key, tier: self.tier, made_ms: self.made_ms }
    }
}
