//! Occasional recompiles by another worker, with a comparison of the libraries. Builds are reproducible, so a
//! difference reveals a lying worker, a nondeterministic compiler or failing memory.

use std::sync::Arc;

use antares_abi::Sha256Digest;
use antares_cache::Space;
use antares_serve::{Account, Found};

use crate::{
    artifact::{Artifact, CompileError},
    blocking::blocking,
    compiler::Shared,
    order::Order,
};

impl Shared {
    /// Repeats the compile of `order` in the background, if it was just compiled and is drawn.
    pub(crate) fn compile_again(self: &Arc<Self>, order: &Order, artifact: &Artifact) {
        if artifact.made.is_none() || !self.again.is_drawn(1) {
            return;
        }
        let Some(turn) = self.again.place() else { return };
        let (shared, first) = (self.clone(), artifact.library.digest());
        // It is charged to no quota.
        let order = Order { account: Account::nobody(), ..order.clone() };
        tokio::spawn(async move {
            let second = shared.second(&order).await;
            let found = found(first, &second);
            if let (Found::Different, Ok(second)) = (found, second) {
                shared.retire(&order, [first, second]).await;
            }
            shared.again.record(found);
            drop(turn);
        });
    }

    async fn second(&self, order: &Order) -> Result<Sha256Digest, CompileError> {
        let elf = self.elf_of(order).await?;
        self.work(order, elf).await.map(|worked| worked.summary.sha256)
    }

    /// Retires an artifact that differed the second time: either of the two may be wrong.
    async fn retire(&self, order: &Order, digests: [Sha256Digest; 2]) {
        let [first, second] = digests;
        tracing::error!(script = %order.script, key = %order.key, %first, %second, "compiled twice, and differently");
        let key = order.storage_key();
        self.tiers.forget(Space::Artifact, key.0);
        let (cache, trust) = (self.cache.clone(), self.signing.trust.clone());
        // If it stays there, its digest is refused, provided that the key list is writable.
        let _ = blocking(move || {
            for digest in digests {
                if let Err(error) = trust.revoke(&digest.to_string()) {
                    tracing::error!(%digest, %error, "cannot be revoked");
                }
            }
            cache.remove(Space::Artifact, key.0)
        })
        .await;
    }
}

fn found(first: Sha256Digest, second: &Result<Sha256Digest, CompileError>) -> Found {
    match second {
        Ok(second) if *second == first => Found::Equal,
        Ok(_) => Found::Different,
        Err(_) => Found::PassedOver,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_compiles_are_compared_by_their_bytes() {
        let [one, other] = [b"one".as_slice(), b"other"].map(Sha256Digest::of);
        assert_eq!(found(one, &Ok(one)), Found::Equal);
        assert_eq!(found(one, &Ok(other)), Found::Different);
        assert_eq!(found(one, &Err(CompileError::Internal)), Found::PassedOver);
    }
}
