//! Limits of symbols and views, with units and defaults.

/// Maximum bytes of the name of a function or file.
pub const NAME_BYTES_MAX: usize = 512;

/// Maximum symbols read from one ELF.
pub const SYMBOLS_MAX: usize = 1 << 18;

/// Maximum total bytes of an ELF's DWARF sections; larger ones are not read.
pub const DWARF_BYTES_MAX: usize = 64 << 20;

/// Maximum total rows of an ELF's line tables, and functions of its DWARF; the rest is omitted.
pub const LINE_ROWS_MAX: usize = 1 << 20;

/// Maximum inlined functions at one address; the rest is omitted.
pub const INLINED_MAX: usize = 64;

/// Maximum rows of a table.
pub const ROWS_MAX: usize = 1000;

/// Maximum samples in one OTLP request: Pyroscope rejects more than 16,000.
pub const OTLP_SAMPLES_MAX: usize = 15_000;

/// Maximum boxes of a flame graph page: the cheapest ones are omitted.
pub const HTML_NODES_MAX: usize = 20_000;

/// Maximum decompressed bytes of an archive of a profile and its programs.
pub const ARCHIVE_BYTES_MAX: usize = 256 << 20;

/// Maximum parts of an archive: the profile and its programs.
pub const ARCHIVE_PARTS_MAX: usize = 257;

/// Maximum functions whose code a page shows: the costliest ones.
pub const LISTED_FUNCTIONS_MAX: usize = 60;

/// Maximum total instructions of these functions.
pub const LISTED_INSTRUCTIONS_MAX: usize = 30_000;

/// Source lines that a page shows before and after a line with cycles.
pub const SOURCE_AROUND: u32 = 4;

/// Maximum bytes of a source line on a page.
pub const SOURCE_LINE_BYTES_MAX: usize = 300;

/// Maximum bytes of a source file; longer ones are not read.
pub const SOURCE_BYTES_MAX: u64 = 4 << 20;

/// Maximum total bytes of the source files of a command; further ones are not read.
pub const SOURCE_BYTES_ALL_MAX: u64 = 64 << 20;

/// Maximum file names that are looked up.
pub const SOURCE_FILES_MAX: usize = 4096;

/// Maximum lines of a file on a coverage page.
pub const COVERAGE_LINES_MAX: usize = 100_000;

/// Maximum bytes of a line on a coverage page; the rest is cut.
pub const COVERAGE_LINE_BYTES_MAX: usize = 500;
