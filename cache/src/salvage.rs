//! What is saved of a store whose files are damaged: every entry that still verifies goes into a new one.

use std::{collections::HashMap, sync::Arc, time::Instant};

use crate::{
    config::CacheConfig,
    entry::EntryId,
    error::{CacheError, StoreError},
    layout::Layout,
    scan::Remains,
    store::{BlobStore, Stored, close},
};

/// What is known of a store's entries beside its files: those of a store that was open are in the account. Of
/// one that cannot be opened nothing is known, and what was removed shortly before may come back.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Places in the order of use.
    pub(crate) ticks: HashMap<EntryId, u64>,
    /// Entries kept from eviction.
    pub(crate) pinned: Vec<EntryId>,
}

/// Copies what verifies in the files of store `number` into a new store, which the next open takes. Returns
/// the number of entries kept; it may take as long as an open.
pub(crate) fn salvage(
    layout: &Layout,
    config: &CacheConfig,
    number: u64,
    known: Option<&Known>,
) -> Result<u64, CacheError> {
    let deadline = Instant::now() + config.open_timeout;
    let path = layout.store_path(number);
    let remains = Remains::of(&path, deadline).map_err(CacheError::io("read", path))?;
    let Some(remains) = remains else { return Ok(0) };
    let (new, new_number) = layout.begin()?;
    let copied = copy(config, &remains, &new, known, deadline);
    close(new);
    match copied {
        Ok(kept) => {
            layout.complete(new_number)?;
            tracing::warn!(kept, "what verifies of a damaged store is kept");
            Ok(kept)
        }
        Err(source) => {
            layout.discard(new_number)?;
            Err(CacheError::Open { dir: config.dir.clone(), source })
        }
    }
}

fn copy(
    config: &CacheConfig,
    remains: &Remains,
    new: &Arc<dyn BlobStore>,
    known: Option<&Known>,
    deadline: Instant,
) -> Result<u64, StoreError> {
    let mut manifests = remains.manifests();
    if let Some(known) = known {
        manifests.retain(|(id, _)| known.ticks.contains_key(id));
        manifests.sort_by_key(|(id, _)| u64::MAX - known.ticks[id]);
    }
    let mut kept: HashMap<EntryId, u64> = HashMap::new();
    let mut charged_bytes = 0;
    let places = (1..=manifests.len() as u64).rev();
    for ((id, manifest), place) in manifests.into_iter().zip(places) {
        let charge = charged_bytes + manifest.charged_bytes();
        if kept.contains_key(&id) || charge > config.budget_bytes || Instant::now() >= deadline {
            continue;
        }
        // Whatever is wrong with one entry says nothing about the next.
        let Some(bytes) = remains.read(id, &manifest, config.entry_bytes_max) else { continue };
        let tick = known.map_or(place, |known| known.ticks[&id]);
        charged_bytes = charge;
        new.import(&Stored { id, manifest, tick }, &bytes, charged_bytes)?;
        kept.insert(id, tick);
    }
    for &id in known.map_or(&[][..], |known| &known.pinned) {
        new.set_pinned(id, true)?;
    }
    new.flush()?;
    Ok(kept.len() as u64)
}
