//! Every limit of symbols and views: name, unit, default.

/// Bytes of a name of a function or file, at most.
pub const NAME_BYTES_MAX: usize = 512;

/// Symbols that are looked at in one ELF.
pub const SYMBOLS_MAX: usize = 1 << 18;

/// Bytes of all DWARF sections of an ELF together, beyond which they are not read.
pub const DWARF_BYTES_MAX: usize = 64 << 20;

/// Rows of all line tables of an ELF together, and functions of its DWARF; the rest is left out.
pub const LINE_ROWS_MAX: usize = 1 << 20;

/// Inlined functions at one address, beyond which the rest is left out.
pub const INLINED_MAX: usize = 64;

/// Rows of a table for people.
pub const ROWS_MAX: usize = 1000;

/// Samples in one OTLP request: Pyroscope refuses more than 16,000.
pub const OTLP_SAMPLES_MAX: usize = 15_000;

/// Boxes of a flame graph page, at most: those that cost least are not drawn.
pub const HTML_NODES_MAX: usize = 20_000;

/// Bytes of an archive of a profile and its programs when it is decompressed.
pub const ARCHIVE_BYTES_MAX: usize = 256 << 20;

/// Parts of an archive: the profile and its programs.
pub const ARCHIVE_PARTS_MAX: usize = 257;

/// Functions whose code a page shows: those that cost most.
pub const LISTED_FUNCTIONS_MAX: usize = 60;

/// Instructions of all of them together.
pub const LISTED_INSTRUCTIONS_MAX: usize = 30_000;

/// Lines of source around a line with cycles that a page shows, on each side.
pub const SOURCE_AROUND: u32 = 4;

/// Bytes of a source line on a page.
pub const SOURCE_LINE_BYTES_MAX: usize = 300;

/// Bytes of a source file, beyond which it is not read.
pub const SOURCE_BYTES_MAX: u64 = 4 << 20;

/// Bytes of all source files of a command together; those after them are not read.
pub const SOURCE_BYTES_ALL_MAX: u64 = 64 << 20;

/// Names of source files that are looked for.
pub const SOURCE_FILES_MAX: usize = 4096;

/// Lines of a file on a page about coverage.
pub const COVERAGE_LINES_MAX: usize = 100_000;

/// Bytes of a line there; what is behind them is cut.
pub const COVERAGE_LINE_BYTES_MAX: usize = 500;
