//! Section `[cache]`.

use antares_abi::LIBRARY_BYTES_MAX;

use crate::section::{GIB, MIB, section};

section! {
/// The store of scripts and artifacts (compiler).
"cache": RawCache => StoreConfig {
    /// Directory, made if it is not there. One process at a time.
    dir: folder = "antares-data".into();
    /// Disk that entries may take: three for each byte stored, so a third of it is what fits. Plan the volume
    /// at twice this, and 512 MiB more for uploads.
    budget_bytes: at_least(MIB) = 2 * GIB;
    /// Free bytes of the file system under which nothing more is stored.
    fixed free_bytes_min: whole = 64 * MIB;
    /// Accept network, FUSE and overlay file systems, whose locks and syncs cannot be relied on.
    allow_any_filesystem: flag;
}
}

impl StoreConfig {
    /// Maximum length of a stored artifact or script, in bytes: that of the largest library, or the whole
    /// budget of a small store.
    #[must_use]
    pub fn entry_bytes_max(&self) -> u64 {
        LIBRARY_BYTES_MAX.min(self.budget_bytes)
    }
}
