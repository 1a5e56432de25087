//! Limits for the transactions that are read, each with a unit.

/// Maximum bytes of a transaction's text or encoding. A CKB block holds about 0.6 MB; in practice most bytes
/// are the hexadecimal data of cell deps.
pub const TRANSACTION_BYTES_MAX: usize = 64 << 20;

/// Maximum entries of any list in a transaction or its mock information. A transaction that fits into a block
/// has fewer than 14,000 inputs, outputs or witnesses.
pub const ENTRIES_MAX: usize = 16_384;

/// Maximum commas in a transaction's JSON. Each value costs memory, however short it is. A transaction of
/// 14,000 inputs with all their cells has about 300,000.
pub const VALUES_MAX: usize = 512 << 10;

/// Maximum members of all dep groups together: ckb's limit for the expansion of cell deps
/// (`MAX_DEP_EXPANSION_LIMIT` in ckb-types).
pub const GROUP_MEMBERS_MAX: usize = 2048;

/// Maximum programs of one transaction that are compiled.
pub const PROGRAMS_MAX: usize = 64;

/// Maximum bytes of a file in a template: in hexadecimal digits, it leaves space for the rest of a
/// transaction.
pub const EMBEDDED_FILE_BYTES_MAX: u64 = 31 << 20;

/// Maximum placeholders in a template.
pub const PLACEHOLDERS_MAX: usize = 4096;

/// Minimum bytes of cell data that is passed separately from its transaction: hashed once, and mapped by
/// workers.
pub const SHARED_BYTES_MIN: usize = 16 << 10;
