//! Now and then a script is compiled a second time, by another worker, and the libraries are compared: builds
//! are reproducible, so a difference is a worker that lied, a compiler that is not reproducible, or memory
//! that fails.

use std::sync::Arc;

use antares_abi::Sha256Digest;
use antares_cache::Space;
use antares_serve::Account;

use crate::{
    artifact::{Artifact, CompileError},
    blocking::blocking,
    compiler::Shared,
    order::Order,
    recompiles::Found,
};

impl Shared {
    /// Compiles what `order` asked for again, behind its answer, if it was just made and the lot falls on it.
    pub(crate) fn compile_again(self: &Arc<Self>, order: &Order, artifact: &Artifact) {
        if artifact.made.is_none() || !self.again.is_drawn() {
            return;
        }
        let Ok(turn) = self.again.turn.clone().try_acquire_owned() else {
            return self.again.record(Found::PassedOver);
        };
        let (shared, first) = (self.clone(), artifact.library.digest());
        // Nobody's quota pays for it.
        let order = Order { account: Account::nobody(), ..order.clone() };
        tokio::spawn(async move {
            let second = shared.second(&order).await;
            let found = Found::of(first, &second);
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

    /// Takes an artifact out of use that was another one the second time: which of the two is right nobody
    /// knows.
    async fn retire(&self, order: &Order, digests: [Sha256Digest; 2]) {
        let [first, second] = digests;
        tracing::error!(script = %order.script, key = %order.key, %first, %second, "compiled twice, and differently");
        let key = order.storage_key();
        self.tiers.forget(Space::Artifact, key.0);
        let (cache, trust) = (self.cache.clone(), self.signing.trust.clone());
        // What stays there is refused for its digest, where the list of keys can be written.
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
