//! How a store is opened without trusting it: the youngest complete one, or what verifies of it in a new one.

use std::{io, sync::Arc};

use crate::{
    error::{CacheError, StoreError},
    layout::Layout,
    salvage::salvage,
    store::BlobStore,
};

/// Opens of one store that may end with the death of the process before the store is set aside. One alone may
/// be a kill at a bad moment; so many are the store's fault.
const OPEN_TRIES_MAX: u32 = 3;

/// An open store and where it is.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn BlobStore>,
    pub(crate) number: u64,
    pub(crate) how: How,
}

/// How an open store came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// There was none.
    Made,
    /// It was there.
    Found,
    /// It was there, could not be used, and an empty one took its place.
    Replaced,
}

/// Opens the youngest complete store; sets it aside and makes one of what it can save when that fails for a
/// reason that lies in its files.
pub(crate) fn open_or_replace(layout: &Layout) -> Result<Opened, CacheError> {
    let Some(number) = layout.choose()? else {
        return make(layout, How::Made);
    };
    let tries = layout.tries_before(number) + 1;
    let failure = if tries > OPEN_TRIES_MAX {
        StoreError::Damaged { detail: format!("{OPEN_TRIES_MAX} opens in a row did not come back") }
    } else {
        match layout.open_store(number, tries)? {
            Ok(store) => return Ok(Opened { store, number, how: How::Found }),
            // A full disk or a missing permission is no fault of the files.
            Err(StoreError::Io(source)) if !is_damage(&source) => {
                return Err(layout.not_open(StoreError::Io(source)));
            }
            Err(failure @ StoreError::Unsynced(_)) => {
                layout.doubt(number);
                return Err(layout.not_open(failure));
            }
            Err(failure) => failure,
        }
    };
    tracing::error!(store = number, error = %failure, "the cache could not be opened");
    replace(layout, number)
}

/// Sets store `number` aside and opens one with what verifies in its files in its place.
pub(crate) fn replace(layout: &Layout, number: u64) -> Result<Opened, CacheError> {
    let kept = salvage(layout, layout.config(), number, None).unwrap_or_else(|error| {
        tracing::error!(%error, "nothing can be saved of a damaged store");
        0
    });
    layout.quarantine(number)?;
    match layout.choose()? {
        Some(number) if kept > 0 => {
            let opened = layout.open_store(number, 1)?;
            let store = opened.map_err(|source| layout.not_open(source))?;
            Ok(Opened { store, number, how: How::Replaced })
        }
        _ => make(layout, How::Replaced),
    }
}

/// Makes and opens an empty store.
fn make(layout: &Layout, how: How) -> Result<Opened, CacheError> {
    let (store, number) = layout.begin()?;
    layout.complete(number)?;
    Ok(Opened { store, number, how })
}

/// Whether an error of the operating system tells of damaged files: sled passes short reads and odd contents
/// as such.
fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::NotFound
    )
}
