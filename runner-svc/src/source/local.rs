//! The compiler in this process, as a source.

use std::sync::Arc;

use antares_abi::{CodeTier, CompileOptions, Seen, Sha256Digest};
use antares_compiler_svc::{CompileError, Compiler, Teacher};
use antares_serve::{Account, Fault, script_problem};
use antares_trust::Trust;
use bytes::Bytes;
use tonic::{Status, async_trait};

use crate::source::{ArtifactSource, Fallback, Fetched, FetchedLibrary, SourceError, Wanted};

/// A compiler in this process.
#[derive(Clone)]
pub struct LocalSource(pub Compiler);

#[async_trait]
impl ArtifactSource for LocalSource {
    fn of(&self, account: &Account) -> Arc<dyn ArtifactSource> {
        Arc::new(Self(self.0.of(account.clone())))
    }

    async fn script(&self, digest: Sha256Digest) -> Result<Bytes, SourceError> {
        self.0.script(digest).await.map_err(source_error)
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
        let artifact = if is_stored {
            match self
                .0
                .find_stored((script, options), CodeTier::Baseline, elf)
                .await
                .map_err(source_error)?
            {
                Some(artifact) => artifact,
                None => return Ok(None),
            }
        } else {
            self.0.compile_soon(script, options, elf).await.map_err(source_error)?
        };
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
        self.0.learn(Teacher::Runner, (script, options), &seen).await.map_err(source_error)
    }
}

fn source_error(error: CompileError) -> SourceError {
    let why = match &error {
        CompileError::ScriptNotFound(digest) => return SourceError::ScriptNotFound(*digest),
        CompileError::Refused { .. } => Fallback::CompileRefused,
        CompileError::Timeout { .. } => Fallback::CompileTimeout,
        CompileError::Busy { .. } => Fallback::WorkersBusy,
        CompileError::Quota(_) => Fallback::Quota,
        CompileError::WorkerLost { .. }
        | CompileError::Violation { .. }
        | CompileError::Failed { .. }
        | CompileError::Internal => Fallback::CompileFailed,
    };
    SourceError::NoArtifact { why, status: Box::new(Status::from(Fault::from(error))) }
}
