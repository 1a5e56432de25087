//! Limits of a node's answers and response times, with units and defaults.

use std::time::Duration;

/// Maximum bytes of one answer. A block of CKB has at most 597,000 bytes, twice that in hexadecimal digits; the
/// genesis block is longer.
pub const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Maximum calls in one batch.
pub const BATCH_CALLS_MAX: usize = 32;

/// Maximum time for connecting, including TLS.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum time for one request with its complete answer.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum attempts of a request.
pub const ATTEMPTS_MAX: u32 = 5;

/// Wait before the second attempt; doubles for each further one.
pub const BACKOFF: Duration = Duration::from_millis(250);

/// Maximum wait before another attempt, even if the node requests more.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Maximum reported characters of a node's error message.
pub const MESSAGE_CHARS_MAX: usize = 300;

/// Maximum bytes of transactions, headers and extensions cached in memory.
pub const MEMORY_BYTES_MAX: u64 = 128 << 20;

/// Maximum bytes of a disk cache.
pub const DISK_BYTES_MAX: u64 = 1 << 30;

/// Maximum inputs, cell deps or header deps of a resolved transaction. One that fits into a block has fewer.
pub const ENTRIES_MAX: usize = 16_384;

/// Maximum members of all dep groups together: ckb's limit for the expansion of cell deps.
pub const GROUP_MEMBERS_MAX: usize = 2048;

/// Maximum bytes of all transactions whose cells a transaction uses, since they are in memory during
/// resolution. 32 more may be read before they are counted.
pub const SOURCE_BYTES_MAX: usize = 40 << 20;

/// Maximum entries of one list in a transaction's JSON. One that fits into a block has fewer.
pub const LIST_ENTRIES_MAX: usize = 1 << 16;

/// Maximum data bytes of all cells together: in hexadecimal digits they leave space for the rest of a mock
/// transaction.
pub const CELL_BYTES_MAX: usize = 31 << 20;

/// Maximum bytes of a transaction without its cells, as text: more than fits into a block.
pub const BARE_BYTES_MAX: usize = 8 << 20;
