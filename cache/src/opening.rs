//! Opens the youngest complete store without trusting it; one that cannot be opened is set aside and an empty
//! one takes its place.

use std::{io, sync::Arc};

use crate::{
    error::{CacheError, StoreError},
    layout::Layout,
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

/// Opens the youngest complete store. Sets it aside and makes an empty one when that fails for a reason that
/// lies in its files.
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
    tracing::error!(store = number, error = %failure, "the store cannot be opened; it is set aside and an empty one begins");
    replace(layout, number)
}

/// Sets store `number` aside and opens an empty one in its place.
pub(crate) fn replace(layout: &Layout, number: u64) -> Result<Opened, CacheError> {
    layout.quarantine(number)?;
    make(layout, How::Replaced)
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
