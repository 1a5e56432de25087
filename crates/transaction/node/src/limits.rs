//! Every limit of what a node may answer and how long it may take: name, unit, default.

use std::time::Duration;

/// Bytes of one answer of a node. A block of CKB has at most 597,000 bytes, twice that in hexadecimal digits;
/// the genesis block is longer.
pub const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Calls in one batch.
pub const BATCH_CALLS_MAX: usize = 32;

/// Time for a connection, with TLS.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Time for one request and its whole answer.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(60);

/// How often a request is sent at the most.
pub const ATTEMPTS_MAX: u32 = 5;

/// Wait before the second time; each next one is twice as long.
pub const BACKOFF: Duration = Duration::from_millis(250);

/// Longest wait before a request is sent again, also where the node asks for more.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Characters of a node's error message that are told.
pub const MESSAGE_CHARS_MAX: usize = 300;

/// Bytes of transactions, headers and extensions that are kept in memory.
pub const MEMORY_BYTES_MAX: u64 = 128 << 20;

/// Bytes of a cache on disk.
pub const DISK_BYTES_MAX: u64 = 1 << 30;

/// Inputs, cell deps or header deps of a transaction that is resolved. One that fits into a block has fewer.
pub const ENTRIES_MAX: usize = 16_384;

/// Members of all dep groups together: what ckb allows cell deps to expand to.
pub const GROUP_MEMBERS_MAX: usize = 2048;

/// Bytes of all transactions whose cells a transaction uses: they are in memory while it is resolved. 32 more
/// may be read before they are counted.
pub const SOURCE_BYTES_MAX: usize = 40 << 20;

/// Entries of one list of a transaction that comes as JSON. One that fits into a block has fewer.
pub const LIST_ENTRIES_MAX: usize = 1 << 16;

/// Bytes of data of all cells together: in hexadecimal digits they leave room for the rest of a mock
/// transaction.
pub const CELL_BYTES_MAX: usize = 31 << 20;

/// Bytes of a transaction without its cells, as text: more than fits into a block.
pub const BARE_BYTES_MAX: usize = 8 << 20;
