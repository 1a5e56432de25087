//! Orders: what to compile, and for whom.

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Hints, Sha256Digest};
use antares_serve::Account;
use bytes::Bytes;

/// A checked request for native code.
#[derive(Clone, Debug)]
pub struct CompileOrder {
    /// The script.
    pub script: Sha256Digest,
    /// VM version and ISA.
    pub options: CompileOptions,
    /// The lowest acceptable tier.
    pub least: CodeTier,
    /// The script's bytes, if the caller has them: saves reading the script.
    pub elf: Option<Bytes>,
}

impl CompileOrder {
    /// The order for one tier, with the script's hints.
    pub(crate) fn of_tier(&self, account: &Account, tier: CodeTier, hints: &Hints) -> Order {
        Order::new(account, self.target(), tier, self.elf.clone()).hinted(hints)
    }

    pub(crate) fn target(&self) -> Target {
        Target { script: self.script, options: self.options }
    }
}

/// A script, and for which VM it is compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) script: Sha256Digest,
    pub(crate) options: CompileOptions,
}

/// A compile to run.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) script: Sha256Digest,
    pub(crate) options: CompileOptions,
    pub(crate) tier: CodeTier,
    pub(crate) hints: Hints,
    pub(crate) key: ArtifactKey,
    /// The script's bytes, if the caller has them.
    pub(crate) elf: Option<Bytes>,
    /// The account to charge.
    pub(crate) account: Account,
}

impl Order {
    pub(crate) fn new(account: &Account, target: Target, tier: CodeTier, elf: Option<Bytes>) -> Self {
        let Target { script, options } = target;
        let key = Sha256Digest::for_artifact(script, options, tier);
        Self { script, options, tier, hints: Hints::default(), key, elf, account: account.clone() }
    }

    /// The same with the script's hints.
    pub(crate) fn hinted(self, hints: &Hints) -> Self {
        let key = Sha256Digest::for_artifact(self.script, self.options, self.tier);
        Self { key: key.with_hints(hints.digest()), hints: hints.clone(), ..self }
    }

    /// Storage key of the artifact: its key, or the tenant's own.
    pub(crate) fn storage_key(&self) -> Sha256Digest {
        Sha256Digest(self.account.salt().apply(self.key.0))
    }
}
