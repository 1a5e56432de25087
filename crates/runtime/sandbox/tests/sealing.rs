//! Code that is loaded after the first sealing is sealed by the next one.
#![allow(unsafe_code, clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::{ffi::c_void, io};

use antares_sandbox::seal_loaded;

/// Sets the permissions that the page of `address` already has: a no-op, unless the kernel refuses it.
fn touch(address: *mut c_void) -> io::Result<()> {
    let page = address.map_addr(|address| address & !4095);
    // SAFETY: the page is library code and stays so.
    match unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[test]
fn what_is_loaded_later_is_sealed_too() {
    match seal_loaded() {
        Err(error) => return println!("skipped: this kernel does not seal: {error}"),
        Ok(ranges) => assert!(ranges > 3, "{ranges}"),
    }
    assert!(touch(touch as *mut c_void).is_err());
    // Part of the C library's package, but not linked to this test.
    // SAFETY: its constructors have no relevant effect.
    let library = unsafe { libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    // SAFETY: the handle is valid; the symbol is only used as an address.
    let code = unsafe { libc::dlsym(library, c"nextafter".as_ptr()) };
    touch(code).unwrap();
    assert!(seal_loaded().unwrap() > 0);
    assert_eq!(touch(code).unwrap_err().raw_os_error(), Some(libc::EPERM));
    // There are no new objects.
    assert_eq!(seal_loaded().unwrap(), 0);
}
