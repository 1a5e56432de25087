//! Opens the newest complete store without trusting it. Sets a store that cannot be opened aside and creates
//! an empty one.

use std::{io, sync::Arc};

use crate::{
    error::{CacheError, StoreError},
    layout::Layout,
    store::BlobStore,
};

/// How many opens of one store may end with the death of the process before the store is set aside. A single
/// death may be an untimely kill; this many in a row point to the store.
const OPEN_TRIES_MAX: u32 = 3;

/// An open store and its number.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn BlobStore>,
    pub(crate) number: u64,
    /// It is empty, and an unusable one was set aside.
    pub(crate) is_replaced: bool,
}

/// Opens the newest complete store. If its files are damaged, sets it aside and creates an empty one.
pub(crate) fn open_or_replace(layout: &Layout) -> Result<Opened, CacheError> {
    let Some(number) = layout.choose()? else {
        return make(layout, false);
    };
    let tries = layout.tries_before(number) + 1;
    let failure = if tries > OPEN_TRIES_MAX {
        StoreError::Damaged(format!("{OPEN_TRIES_MAX} opens in a row did not come back"))
    } else {
        match layout.open_store(number, tries)? {
            Ok(store) => return Ok(Opened { store, number, is_replaced: false }),
            // A full disk or a missing permission is not damage of the files.
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
    tracing::error!(store = number, error = %failure, "the store cannot be opened; it is set aside and an empty one begins");
    layout.quarantine(number)?;
    make(layout, true)
}

/// Creates and opens an empty store.
fn make(layout: &Layout, is_replaced: bool) -> Result<Opened, CacheError> {
    let (store, number) = layout.begin()?;
    layout.complete(number)?;
    Ok(Opened { store, number, is_replaced })
}

/// Whether an operating-system error indicates damaged files: sled reports short reads and invalid contents
/// this way.
fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::NotFound
    )
}
