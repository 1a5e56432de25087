//! Section `[cache]`.

use antares_abi::LIBRARY_BYTES_MAX;

use crate::section::{GIB, MIB, section};

section! {
/// The store of scripts and artifacts (compiler).
"cache": RawCache => StoreConfig {
    /// Directory, made if it is not there. One process at a time.
    dir: folder = "antares-data".into();
    /// Disk that entries may take: three for each byte stored, so a third of it is what fits. Plan the volume
    /// at twice this, and `compiler.upload_bytes_max` more.
    budget_bytes: at_least(MIB) = 2 * GIB;
    /// Largest artifact or script that is stored.
    entry_bytes_max: positive = LIBRARY_BYTES_MAX;
    /// Free bytes of the file system under which nothing more is stored.
    free_bytes_min: whole = 64 * MIB;
    /// Accept network, FUSE and overlay file systems, whose locks and syncs cannot be relied on.
    allow_any_filesystem: flag;
}
}
