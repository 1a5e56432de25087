//! Invalid shared objects, each for one reason, made by the host's C compiler.

use std::{fs, process::Command};

use antares_abi::{ABI_VERSION, FrameError, FrameRow, FrameTable, Sha256Digest};
use antares_pool::{ArtifactError, Sealed, verify_library};

/// A header with a valid magic and version; the machine checks the rest.
const HEADER: &str = "const struct { char magic[8]; unsigned version; unsigned rest[13]; } antares_library = \
                      { {'A','N','T','A','R','E','S',MAGIC_END}, VERSION };";
/// Code that is not exported.
const CODE: &str = "__attribute__((visibility(\"hidden\"), used)) int code(int x) { return x + 1; }";

/// Compiles `source` with `flags`, in addition to those that the project uses for linking.
fn library(source: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("library.c"), source).unwrap();
    let version = format!("-DVERSION={ABI_VERSION}");
    let usual = ["-shared", "-fPIC", "-O1", "-nostdlib", "-fno-asynchronous-unwind-tables", "-DMAGIC_END=1"];
    let linking = [
        "-Wl,-z,now,-z,noexecstack,-z,separate-code,-z,max-page-size=4096,-z,norelro",
        "-Wl,--hash-style=gnu,--build-id=none,--no-eh-frame-hdr",
    ];
    let mut compiler = Command::new("cc");
    compiler.args(usual).arg(version).args(linking).args(flags).arg("-o");
    let output = compiler.args([path("library.so"), path("library.c")]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut library = fs::read(path("library.so")).unwrap();
    make_data_read_only(&mut library);
    library
}

/// Does more than the linker's `-z rodynamic`: removes write permission from all segments without code.
fn make_data_read_only(library: &mut [u8]) {
    for index in 0..usize::from(library[56]) {
        let header = &mut library[SEGMENTS_AT + SEGMENT_BYTES * index..][..SEGMENT_BYTES];
        let is_code = header[4] & EXECUTE != 0;
        if [PT_LOAD, PT_DYNAMIC].contains(&u32::from_le_bytes(header[..4].try_into().unwrap())) && !is_code {
            header[4] &= !WRITE;
            // All bytes must be in the file.
            header.copy_within(32..40, 40);
        }
    }
}

/// `library` with an additional segment of `kind`, at `address` with `bytes`.
fn with_segment(library: &[u8], kind: u32, address: u64, bytes: u64) -> Vec<u8> {
    let mut changed = library.to_vec();
    let count = usize::from(library[56]);
    // A new table at the end of the file, because there is no space after the old one.
    let table = changed.len();
    changed.extend_from_within(SEGMENTS_AT..SEGMENTS_AT + SEGMENT_BYTES * count);
    changed.extend(kind.to_le_bytes());
    changed.extend(4_u32.to_le_bytes());
    for number in [address, address, address, bytes, bytes, 8] {
        changed.extend(number.to_le_bytes());
    }
    changed[32..40].copy_from_slice(&(table as u64).to_le_bytes());
    changed[56] += 1;
    changed
}

fn verify(bytes: &[u8]) -> Result<(), ArtifactError> {
    verify_library(&Sealed::new("library", bytes).unwrap(), Sha256Digest::of(bytes))
}

/// The valid library with the additional source `more`.
fn with(more: &str) -> String {
    format!("{HEADER}\n{CODE}\n{more}")
}

#[test]
fn another_digest_is_refused() {
    let sealed = Sealed::new("library", &library(&with(""), &[])).unwrap();
    let answer = verify_library(&sealed, Sha256Digest::of(b"another"));
    assert!(matches!(answer, Err(ArtifactError::Digest { .. })), "{answer:?}");
}

#[test]
fn what_has_no_place_in_a_library_is_refused() {
    let runs = |when: &str| {
        with(&format!("static volatile int x; __attribute__(({when})) static void f(void) {{ x = 1; }}"))
    };
    let resolver = "static int one(void) { return 1; } static void *pick(void) { return one; }
                    __attribute__((visibility(\"hidden\"), ifunc(\"pick\"))) int f(void); int (*const g)(void) = f;";
    let import = "int system(const char *); __attribute__((visibility(\"hidden\"))) int f(void) { return system(\"\"); }";
    let weak = "extern int weak __attribute__((weak)); int f(void) { return &weak != 0; }";
    let thread = "static __thread int x; int f(void) { return x++; }";
    let rows: [(String, &[&str], &str); 21] = [
        // The dynamic linker would run it.
        (runs("constructor"), &[], "Tag"),
        (runs("destructor"), &[], "Tag"),
        (with("void f(void) {}"), &["-Wl,-init=f", "-fvisibility=hidden"], "Tag Symbol Missing"),
        (with(resolver), &[], "Tag"),
        // It would fetch or resolve it.
        (with(""), &["-Wl,--no-as-needed", "-lc"], "Tag"),
        (with("static int x; int *const p = &x;"), &[], "Tag"),
        (with(import), &[], "Tag"),
        (with(weak), &[], "Tag Symbol"),
        (with(""), &["-Wl,-rpath,/tmp"], "Tag"),
        (with(""), &["-Wl,-soname,/proc/self/fd/./6"], "Tag"),
        // More symbols, others, or none.
        (with("int malloc(int x) { return x; }"), &[], "Symbol"),
        ("int antares_library(void) { return 0; }".to_owned(), &[], "Symbol"),
        (CODE.to_owned(), &[], "Missing"),
        (with(""), &["-Wl,--hash-style=sysv"], "Tag Missing"),
        // Segments.
        (with(thread), &["-ftls-model=initial-exec"], "Segment Tag"),
        (with("int data = 1;"), &["-Wl,--omagic"], "Writable Place"),
        (with(""), &["-Wl,-z,execstack"], "Stack"),
        (with(""), &["-Wl,-Ttext-segment=0x100000000"], "Place"),
        // The header.
        (with("").replace("MAGIC_END", "2"), &[], "Header"),
        (with("").replace("VERSION", "VERSION + 1"), &[], "Header"),
        ("const char antares_library[4] = \"ANT\";".to_owned(), &[], "Header"),
    ];
    for (source, flags, reasons) in rows {
        let error = verify(&library(&source, flags)).unwrap_err();
        let reason = format!("{error:?}");
        let is_reason = |one: &str| reason.split([' ', '(']).next() == Some(one);
        assert!(reasons.split(' ').any(is_reason), "{source} {flags:?}: {error}");
    }
}

/// These would make glibc change the protection of pages at any distance, call code at addresses from a forged
/// header table, confuse two libraries of the same name, or crash.
#[test]
fn what_misled_the_dynamic_linker_is_refused() {
    let good = library(&with(""), &[]);
    verify(&good).unwrap();
    let is_segment = |bytes: &[u8], wanted: u32| {
        let refused = verify(bytes).unwrap_err();
        assert!(matches!(refused, ArtifactError::Segment { kind } if kind == wanted), "{refused}");
    };
    let relocated = with_segment(&good, PT_GNU_RELRO, 0, 4096);
    is_segment(&relocated, PT_GNU_RELRO);
    is_segment(&with_segment(&relocated, PT_GNU_RELRO, 1 << 30, 4096), PT_GNU_RELRO);
    is_segment(&with_segment(&good, PT_PHDR, 0x800, 56), PT_PHDR);
    is_segment(&with_segment(&good, PT_NOTE, 0x7000_0000_0000, 1 << 20), PT_NOTE);
}

#[test]
fn headers_lie_at_the_start_of_the_first_segment() {
    let good = library(&with(""), &[]);
    let is_misplaced = |bytes: &[u8]| {
        let refused = verify(bytes).unwrap_err();
        assert!(matches!(refused, ArtifactError::Place { .. }), "{refused}");
    };
    // A header table outside of all segments.
    is_misplaced(&with_segment(&good, PT_NULL, 0, 0));
    // A first segment that is not at address 0, or not at the start of the file.
    for field in [8, 16] {
        let mut moved = good.clone();
        moved[SEGMENTS_AT + field + 1] = 0x10;
        is_misplaced(&moved);
    }
    // Bytes that are not in the file.
    let mut longer = good.clone();
    longer[SEGMENTS_AT + 40] += 1;
    is_misplaced(&longer);
}

#[test]
fn segments_that_are_writable_or_of_another_kind_are_refused() {
    let good = library(&with(""), &[]);
    for at in (0..usize::from(good[56])).map(|index| SEGMENTS_AT + SEGMENT_BYTES * index) {
        let kind = u32::from_le_bytes(good[at..at + 4].try_into().unwrap());
        let mut changed = good.clone();
        changed[at + 4] |= WRITE;
        let answer = verify(&changed);
        let is_mapped = [PT_LOAD, PT_DYNAMIC].contains(&kind);
        assert_eq!(matches!(answer, Err(ArtifactError::Writable { .. })), is_mapped, "{kind:#x}: {answer:?}");
        for other in [PT_INTERP, PT_TLS] {
            let mut changed = good.clone();
            changed[at..at + 4].copy_from_slice(&[other, 0, 0, 0]);
            assert!(verify(&changed).is_err(), "{kind:#x} as {other}");
        }
    }
}

#[test]
fn entries_of_the_dynamic_section_come_once() {
    let good = library(&with(""), &[]);
    let at = |kind: u32| {
        let header = (0..).map(|index| SEGMENTS_AT + SEGMENT_BYTES * index);
        header.into_iter().find(|at| good[*at..at + 4] == kind.to_le_bytes()).unwrap()
    };
    let place = usize::from(u16::from_le_bytes(good[at(PT_DYNAMIC) + 8..][..2].try_into().unwrap()));
    let mut twice = good.clone();
    twice.copy_within(place..place + 16, place + 16);
    let refused = verify(&twice).unwrap_err();
    assert!(matches!(refused, ArtifactError::Tag { .. }), "{refused}");
}

/// Offset of the first program header, bytes of each, and kinds of segment.
const SEGMENTS_AT: usize = 64;
const SEGMENT_BYTES: usize = 56;
const PT_NULL: u32 = 0;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u8 = 3;
const PT_NOTE: u32 = 4;
const PT_PHDR: u32 = 6;
const PT_TLS: u8 = 7;
const PT_GNU_RELRO: u32 = 0x6474_e552;
/// Flags of segments.
const EXECUTE: u8 = 1;
const WRITE: u8 = 2;

#[test]
fn damaged_files_are_refused_or_harmless() {
    let good = library(&with(""), &["-s"]);
    for end in (0..good.len()).step_by(7) {
        // The dynamic linker ignores section headers, which come last.
        if verify(&good[..end]).is_ok() {
            assert!(end > good.len() / 2, "{end} of {} bytes", good.len());
        }
    }
    assert!(verify(b"").is_err());
    // The check must terminate for any damage.
    for at in 0..good.len().min(2048) {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = good.clone();
            damaged[at] = value;
            let _ = verify(&damaged);
        }
    }
}

#[test]
fn a_frame_table_that_lies_is_refused() {
    let good = library(&with(""), &[]);
    let followed_by = |table: &[u8]| [&good, table].concat();
    let mut table = Vec::new();
    FrameTable::new([FrameRow { start: 0, bytes: 8, chain: vec![0x1_0000] }]).append_to(&mut table);
    verify(&followed_by(&table)).unwrap();
    // A row that removes more functions from the chain than it has.
    table[1] |= 2;
    let refused = verify(&followed_by(&table));
    assert!(matches!(refused, Err(ArtifactError::Frames(FrameError::Chain { place: 0 }))), "{refused:?}");
}
