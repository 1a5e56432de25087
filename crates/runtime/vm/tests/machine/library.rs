//! Which files are accepted as a library.

use std::{
    fs::File,
    io::Write,
    os::fd::{AsFd, AsRawFd, FromRawFd},
};

use antares_vm::{Library, LibraryError};

use crate::guests::{library_bytes, load};

#[test]
fn headers_and_tables_are_checked() {
    assert!(load(&library_bytes(&[], "ret")).is_ok());
    for (field, value, expected) in [
        ("{magic}", "65, 78, 84, 65, 82, 69, 83, 2", "Magic"),
        ("{abi_version}", "999", "AbiVersion { found: 999"),
        ("{symbol}", "other", "NoHeader"),
        ("{table_length}", "0x100000", "Table"),
        ("{table_length}", "0xffffffff", "Table"),
        ("{table_offset}", "table - header + 1", "Table"),
        ("{table_offset}", "0x100000", "Table"),
        ("{table_offset}", "-0x100000", "Table"),
        ("{table_offset}", "0x7fffffffffffffff", "Table"),
        ("{table_base}", "0x11001", "Directory"),
        ("{directory_length}", "0x10000", "Directory"),
        ("{directory_length}", "0xffffffff", "Directory"),
        ("{directory_offset}", "directory - header + 1", "Directory"),
        ("{directory_offset}", "-0x7fffffffffffffff", "Directory"),
    ] {
        let refused = load(&library_bytes(&[(field, value)], "ret")).expect_err("this is no library of ours");
        assert!(format!("{refused:?}").starts_with(expected), "{field} {value}: {refused:?}");
    }
}

#[test]
fn other_files_are_refused() {
    assert!(matches!(load(b"not an object"), Err(LibraryError::Load(_))));
    assert!(matches!(load(b""), Err(LibraryError::Load(_))));
    let writable_text = ".section .more, \"axw\"\n ret";
    let refused = load(&library_bytes(&[], writable_text));
    assert!(matches!(refused, Err(LibraryError::Text { found: 2 })));
}

#[test]
fn a_descriptor_number_that_comes_back_is_another_library() {
    let file_of = |isa| {
        // SAFETY: the name is NUL-terminated; the new descriptor is owned by the file from here on.
        let mut file =
            unsafe { File::from_raw_fd(libc::memfd_create(c"library".as_ptr(), libc::MFD_CLOEXEC)) };
        file.write_all(&library_bytes(&[("{isa}", isa)], "ret")).unwrap();
        file
    };
    let (first, second) = (file_of("1"), file_of("2"));
    let number = first.as_raw_fd();
    let one = Library::load(first.as_fd()).unwrap();
    // SAFETY: both descriptors are open and ours; `first` now is a second descriptor of the second file.
    assert_eq!(unsafe { libc::dup2(second.as_raw_fd(), number) }, number);
    let two = Library::load(first.as_fd()).unwrap();
    assert_eq!((one.isa(), two.isa(), one.vm_version()), (1, 2, 2));
}
