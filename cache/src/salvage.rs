//! What is saved of a store whose files are damaged: every entry that still verifies goes into a new one.

use std::{sync::Arc, time::Instant};

use sha2::{Digest, Sha256};

use crate::{
    config::CacheConfig,
    entry::EntryId,
    error::{CacheError, StoreError},
    layout::Layout,
    manifest::Manifest,
    recover::close,
    store::{BlobStore, Stored},
};

/// What a salvage came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Salvaged {
    /// Entries that verified.
    pub(crate) kept: u64,
    /// Entries that did not, or were not reached in time.
    pub(crate) lost: u64,
}

/// Copies those of `entries` (with their places in the order of use) that verify from `old` into a new store, which the next
/// [`Layout::open`] takes once `old` is out of the way. It may take as long as an open.
pub(crate) fn salvage(
    layout: &Layout,
    config: &CacheConfig,
    old: &dyn BlobStore,
    entries: &[(EntryId, u64)],
) -> Result<Salvaged, CacheError> {
    let deadline = Instant::now() + config.open_timeout;
    let (new, number) = layout.begin()?;
    let copied = copy(config, old, &new, entries, deadline);
    close(new);
    match copied {
        Ok(salvaged) => {
            layout.complete(number)?;
            tracing::warn!(
                kept = salvaged.kept,
                lost = salvaged.lost,
                "what verifies of a damaged store is kept"
            );
            Ok(salvaged)
        }
        Err(source) => {
            layout.discard(number)?;
            Err(CacheError::Open { dir: config.dir.clone(), source })
        }
    }
}

fn copy(
    config: &CacheConfig,
    old: &dyn BlobStore,
    new: &Arc<dyn BlobStore>,
    entries: &[(EntryId, u64)],
    deadline: Instant,
) -> Result<Salvaged, StoreError> {
    let (mut salvaged, mut charged_bytes) = (Salvaged::default(), 0);
    for &(id, tick) in entries {
        // Whatever is wrong with one entry says nothing about the next.
        let bytes = match old.read(id, config.entry_bytes_max) {
            Ok(Ok(bytes)) if Instant::now() < deadline => bytes,
            _ => {
                salvaged.lost += 1;
                continue;
            }
        };
        let manifest = Manifest::of(&bytes, Sha256::digest(&bytes).into(), config.unix_seconds());
        let Some(manifest) = manifest else { continue };
        charged_bytes += manifest.charged_bytes();
        new.import(&Stored { id, manifest, tick }, &bytes, charged_bytes)?;
        salvaged.kept += 1;
    }
    for id in old.pinned().unwrap_or_default() {
        new.set_pinned(id, true)?;
    }
    new.flush()?;
    Ok(salvaged)
}
