//! By what equal questions for native code are known.

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Sha256Digest};
use antares_serve::Account;

/// What all share who ask for native code of a script at the same time and have `known`. What one tenant may
/// not have, another that waits for it may.
pub(crate) fn flight(
    account: &Account,
    (script, options): (Sha256Digest, CompileOptions),
    known: Option<ArtifactKey>,
) -> (ArtifactKey, Option<ArtifactKey>) {
    let full = Sha256Digest::for_artifact(script, options, CodeTier::Full);
    (Sha256Digest(account.apart().apply(full.0)), known)
}
