//! The compiler in this process, as a source.

use std::sync::Arc;

use antares_abi::{CodeTier, CompileOptions, Seen, Sha256Digest};
use antares_compiler_svc::{CompileError, CompileOrder, Compiler, Teacher};
use antares_serve::{Account, Fault, script_problem};
use antares_trust::Trust;
use bytes::Bytes;
use tonic::{Status, async_trait};

use crate::{
    grpc::status::source_error,
    source::{ArtifactSource, Fetched, FetchedLibrary, SourceError, Wanted},
};

/// A compiler in this process.
#[derive(Clone)]
pub struct LocalSource(pub Compiler);

#[async_trait]
impl ArtifactSource for LocalSource {
    fn of(&self, account: &Account) -> Arc<dyn ArtifactSource> {
        Arc::new(Self(self.0.of(account.clone())))
    }

    async fn script(&self, digest: Sha256Digest) -> Result<Bytes, SourceError> {
        self.0.script(digest).await.map_err(|error| failed(digest, error))
    }

    fn trust(&self) -> Option<Arc<Trust>> {
        Some(self.0.trust())
    }

    async fn artifact(&self, wanted: Wanted) -> Result<Option<Fetched>, SourceError> {
        if let Some(elf) = &wanted.elf
            && script_problem(elf).is_none()
            && !self.0.has_script(wanted.script)
            && let Err(error) = self.0.store_script(None, wanted.script, elf.clone()).await
        {
            // The compile works without: it gets the bytes.
            tracing::warn!(script = %wanted.script, %error, "an inline script is not stored");
        }
        let Wanted { script, options, elf, known, is_stored } = wanted;
        let order = CompileOrder { script, options, least: CodeTier::Baseline, elf };
        let found = match is_stored {
            true => self.0.find_stored(&order).await,
            false => self.0.compile(&order).await.map(Some),
        };
        let Some(artifact) = found.map_err(|error| failed(script, error))? else { return Ok(None) };
        Ok((known != Some(artifact.key)).then(|| Fetched {
            key: artifact.key,
            tier: artifact.tier,
            hints: artifact.hints,
            library: FetchedLibrary::Checked(artifact.library.clone()),
            manifest: artifact.manifest.clone(),
            made_ms: artifact.made.map(|made| made.compile_ms),
        }))
    }

    async fn learn(
        &self,
        script: Sha256Digest,
        options: CompileOptions,
        seen: Seen,
    ) -> Result<Option<Sha256Digest>, SourceError> {
        let learnt = self.0.learn(Teacher::Runner, (script, options), &seen).await;
        learnt.map_err(|error| failed(script, error))
    }
}

/// What a remote compiler's status for `error` means.
fn failed(script: Sha256Digest, error: CompileError) -> SourceError {
    source_error(script, Status::from(Fault::from(error)))
}
