//! Which files are accepted as a library.

use std::{
    fs::File,
    io::Write,
    os::fd::{AsFd, AsRawFd, FromRawFd},
};

use antares_vm::{Library, LibraryError};

use crate::guests::{Header, library_bytes, load};

#[track_caller]
fn refused(header: Header) -> LibraryError {
    load(&library_bytes(&header, "ret")).expect_err("this is no library of ours")
}

#[test]
fn headers_are_checked() {
    let good = Header::default();
    assert!(load(&library_bytes(&good, "ret")).is_ok());
    assert!(matches!(refused(Header { magic: *b"ANTARES\x02", ..good.clone() }), LibraryError::Magic { .. }));
    let other = Header { abi_version: 999, ..good.clone() };
    assert!(matches!(refused(other), LibraryError::AbiVersion { found: 999, .. }));
    assert!(matches!(refused(Header { symbol: "other", ..good }), LibraryError::NoHeader(_)));
}

#[test]
fn tables_are_checked() {
    let good = Header::default();
    let bad = [
        Header { table_length: 1 << 20, ..good.clone() },
        Header { table_length: u32::MAX, ..good.clone() },
        Header { table_offset: "table - header + 1", ..good.clone() },
        Header { table_offset: "0x100000", ..good.clone() },
        Header { table_offset: "-0x100000", ..good.clone() },
        Header { table_offset: "0x7fffffffffffffff", ..good.clone() },
    ];
    for header in bad {
        let shown = format!("{header:?}");
        assert!(matches!(refused(header), LibraryError::Table { .. }), "{shown}");
    }
    let bad = [
        Header { table_base: 0x11001, ..good.clone() },
        Header { directory_length: 1 << 16, ..good.clone() },
        Header { directory_length: u32::MAX, ..good.clone() },
        Header { directory_offset: "directory - header + 1", ..good.clone() },
        Header { directory_offset: "-0x7fffffffffffffff", ..good },
    ];
    for header in bad {
        let shown = format!("{header:?}");
        assert!(matches!(refused(header), LibraryError::Directory { .. }), "{shown}");
    }
}

#[test]
fn other_files_are_refused() {
    assert!(matches!(load(b"not an object"), Err(LibraryError::Load(_))));
    assert!(matches!(load(b""), Err(LibraryError::Load(_))));
    let writable_text = ".section .more, \"axw\"\n ret";
    assert!(matches!(
        load(&library_bytes(&Header::default(), writable_text)),
        Err(LibraryError::Text { found: 2 })
    ));
}

#[test]
fn a_descriptor_number_that_comes_back_is_another_library() {
    let file_of = |isa| {
        // SAFETY: the name is NUL-terminated; the new descriptor is owned by the file from here on.
        let mut file =
            unsafe { File::from_raw_fd(libc::memfd_create(c"library".as_ptr(), libc::MFD_CLOEXEC)) };
        file.write_all(&library_bytes(&Header { isa, ..Header::default() }, "ret")).unwrap();
        file
    };
    let (first, second) = (file_of(1), file_of(2));
    let number = first.as_raw_fd();
    let one = Library::load(first.as_fd()).unwrap();
    // SAFETY: both descriptors are open and ours; `first` now is a second descriptor of the second file.
    assert_eq!(unsafe { libc::dup2(second.as_raw_fd(), number) }, number);
    let two = Library::load(first.as_fd()).unwrap();
    assert_eq!((one.isa(), two.isa(), one.vm_version()), (1, 2, 2));
}
