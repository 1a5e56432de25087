//! The section `shared` as it is written.

use serde::{Deserialize, Serialize};

/// Section `[shared]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawShared {
    /// Object store that several servers share: `s3://bucket/prefix`, `gs://`, `az://` or `file:///folder`;
    /// empty for none.
    pub url: String,
    /// How long a read may take, milliseconds. Beyond it what is asked for is compiled.
    pub get_ms_max: u64,
    /// Reads at once; more are misses.
    pub gets_max: u64,
    /// Bytes of entries that reads under way may hold, all together; more wait.
    pub get_bytes_max: u64,
    /// How long one attempt of a write may take, milliseconds.
    pub put_ms_max: u64,
    /// Writes at once.
    pub puts_max: u64,
    /// How long a write is tried again, milliseconds.
    pub upload_ms_max: u64,
    /// Writes that wait; more are dropped.
    pub queue_max: u64,
    /// Their bytes.
    pub queue_bytes_max: u64,
    /// Memory for entries used lately, bytes; 0 for none.
    pub memory_bytes_max: u64,
}

impl Default for RawShared {
    fn default() -> Self {
        Self {
            url: String::new(),
            get_ms_max: 1_000,
            gets_max: 64,
            get_bytes_max: 256 << 20,
            put_ms_max: 30_000,
            puts_max: 4,
            upload_ms_max: 600_000,
            queue_max: 4_096,
            queue_bytes_max: 256 << 20,
            memory_bytes_max: 64 << 20,
        }
    }
}
