//! Every limit of a transaction that is read: name, unit, default.

/// Bytes of a transaction's text or encoding. A block of CKB holds about 0.6 MB; what is large in practice
/// are the cells that a transaction depends on, in hexadecimal digits.
pub const TRANSACTION_BYTES_MAX: usize = 64 << 20;

/// Entries of any list in a transaction or its mock information. A transaction that fits into a block has
/// fewer than 14,000 inputs, outputs or witnesses.
pub const ENTRIES_MAX: usize = 16_384;

/// Commas in a transaction's JSON. Each value costs memory, however short it is; a transaction of 14,000
/// inputs with all their cells has some 300,000.
pub const VALUES_MAX: usize = 512 << 10;

/// Members of all dep groups together: what ckb allows cell deps to expand to (`MAX_DEP_EXPANSION_LIMIT` in
/// ckb-types).
pub const GROUP_MEMBERS_MAX: usize = 2048;

/// Programs that one transaction may have compiled.
pub const PROGRAMS_MAX: usize = 64;

/// Bytes of a file that a template names: in hexadecimal digits it leaves room for the rest of a transaction.
pub const EMBEDDED_FILE_BYTES_MAX: u64 = 31 << 20;

/// Placeholders in a template.
pub const PLACEHOLDERS_MAX: usize = 4096;

/// Bytes of a cell's data from which on it travels beside a transaction that came with it: hashed once, and
/// mapped by workers.
pub const SHARED_BYTES_MIN: usize = 16 << 10;
