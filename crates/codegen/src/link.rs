//! `link`: object to shared object with lld, in this process, on memory files: no path on disk is ever read or made.

use std::{
    ffi::{CStr, CString, c_char},
    fs::File,
    io::{Read, Seek, Write},
    os::fd::{AsRawFd, FromRawFd},
};

use antares_abi::LIBRARY_SYMBOL;

use crate::CodegenError;

/// Bytes of the linker's messages that are kept.
const MESSAGE_BYTES_MAX: usize = 4096;

unsafe extern "C" {
    fn antares_lld_link(
        arguments: *const *const c_char,
        count: usize,
        messages: *mut c_char,
        capacity: usize,
    ) -> bool;
}

/// Links one object into a shared object that needs nothing, runs nothing when it is loaded, and exports one symbol.
///
/// # Errors
/// [`CodegenError::Link`] with lld's words, [`CodegenError::File`] if a memory file cannot be made or read.
pub fn link(object: &[u8]) -> Result<Vec<u8>, CodegenError> {
    let mut input = memory_file(c"object")?;
    input.write_all(object)?;
    let mut output = memory_file(c"library")?;
    let arguments = [
        "ld.lld".to_owned(),
        "-shared".to_owned(),
        "--threads=1".to_owned(),
        "--build-id=sha1".to_owned(),
        "--hash-style=gnu".to_owned(),
        "--no-undefined".to_owned(),
        "--fatal-warnings".to_owned(),
        "-znow".to_owned(),
        "-zrelro".to_owned(),
        "-znoexecstack".to_owned(),
        "-zseparate-code".to_owned(),
        "--no-mmap-output-file".to_owned(),
        format!("--export-dynamic-symbol={LIBRARY_SYMBOL}"),
        "-o".to_owned(),
        format!("/proc/self/fd/{}", output.as_raw_fd()),
        format!("/proc/self/fd/{}", input.as_raw_fd()),
    ];
    run(&arguments)?;
    let mut library = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut library)?;
    Ok(library)
}

fn memory_file(name: &CStr) -> Result<File, CodegenError> {
    // SAFETY: `name` is a C string; the flags are a plain number.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(CodegenError::File(std::io::Error::last_os_error()));
    }
    // SAFETY: the descriptor was just made and belongs to no one else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn run(arguments: &[String]) -> Result<(), CodegenError> {
    let owned: Vec<CString> =
        arguments.iter().filter_map(|argument| CString::new(argument.as_str()).ok()).collect();
    let pointers: Vec<*const c_char> = owned.iter().map(|argument| argument.as_ptr()).collect();
    let mut messages = vec![0_u8; MESSAGE_BYTES_MAX];
    // SAFETY: `pointers` are `len` C strings that live in `owned`; `messages` has `MESSAGE_BYTES_MAX` writable bytes.
    let is_linked = unsafe {
        antares_lld_link(pointers.as_ptr(), pointers.len(), messages.as_mut_ptr().cast(), MESSAGE_BYTES_MAX)
    };
    if is_linked {
        return Ok(());
    }
    let message = CStr::from_bytes_until_nul(&messages).map(|text| text.to_string_lossy().into_owned());
    Err(CodegenError::Link { message: message.unwrap_or_default() })
}
