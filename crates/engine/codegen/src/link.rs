//! `link`: links objects into a shared object with lld, in this process. Objects come from memory files and
//! the library stays in memory: no path on disk is read or created.

use std::{
    ffi::{CStr, CString, c_char},
    fs::File,
    io::Write,
    os::fd::AsRawFd,
};

use antares_abi::LIBRARY_SYMBOL;
use object::elf;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::{CodegenError, Result, frames, optimize};

/// Maximum bytes of the linker's messages to return.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Bytes of an ELF file header, which the program headers follow, and of a program header.
const FILE_HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;

unsafe extern "C" {
    fn antares_lld_link(
        arguments: *const *const c_char,
        count: usize,
        library: *mut *const u8,
        library_size: *mut usize,
        messages: *mut c_char,
        capacity: usize,
    ) -> bool;
}

/// Links objects into a shared object without dependencies or initializers, which exports one symbol. Appends
/// the frame table.
///
/// # Errors
/// [`CodegenError::Link`] with lld's message, [`CodegenError::Frames`] and [`CodegenError::Library`] if the
/// linked debug information cannot be read, [`CodegenError::File`] if a memory file cannot be made or read.
pub fn link(objects: &[Vec<u8>]) -> Result<Vec<u8>> {
    let inputs = objects.iter().map(|object| memory_file_of(object)).collect::<Result<Vec<File>, _>>()?;
    let mut arguments = vec![
        "ld.lld".to_owned(),
        "-shared".to_owned(),
        "--threads=1".to_owned(),
        "--build-id=none".to_owned(),
        "--hash-style=gnu".to_owned(),
        "--no-undefined".to_owned(),
        "--fatal-warnings".to_owned(),
        "-znow".to_owned(),
        // No segment is writable: there are no relocations, and loaders do not write to it.
        "-znorelro".to_owned(),
        "-zrodynamic".to_owned(),
        "-znoexecstack".to_owned(),
        "-zseparate-code".to_owned(),
        format!("--export-dynamic-symbol={LIBRARY_SYMBOL}"),
        "-o".to_owned(),
        // Only a name: the bytes stay in memory.
        "antares-library.so".to_owned(),
    ];
    arguments.extend(inputs.iter().map(|input| format!("/proc/self/fd/{}", input.as_raw_fd())));
    let table = frames::table(&run(&arguments)?)?;
    arguments.push("--strip-debug".to_owned());
    let mut library = run(&arguments)?;
    clear_program_headers_segment(&mut library);
    table.append_to(&mut library);
    Ok(library)
}

/// Turns the `PT_PHDR` segment into `PT_NULL`. Loaders use the file header's offset, and no loader should
/// trust a second one. The linker always writes this segment.
fn clear_program_headers_segment(library: &mut [u8]) {
    let count = library.get(56..58).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes);
    let headers = library.get_mut(FILE_HEADER_BYTES..).unwrap_or_default();
    for header in headers.chunks_exact_mut(PROGRAM_HEADER_BYTES).take(usize::from(count)) {
        if header.starts_with(&elf::PT_PHDR.0.to_le_bytes()) {
            header[..4].copy_from_slice(&elf::PT_NULL.0.to_le_bytes());
        }
    }
}

fn memory_file_of(bytes: &[u8]) -> Result<File> {
    let mut file = File::from(memfd_create(c"object", MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?);
    file.write_all(bytes)?;
    Ok(file)
}

/// Links one library at a time: lld keeps state in statics.
fn run(arguments: &[String]) -> Result<Vec<u8>> {
    optimize::without_options(|| run_alone(arguments))
}

fn run_alone(arguments: &[String]) -> Result<Vec<u8>> {
    let owned: Vec<CString> =
        arguments.iter().filter_map(|argument| CString::new(argument.as_str()).ok()).collect();
    let pointers: Vec<*const c_char> = owned.iter().map(|argument| argument.as_ptr()).collect();
    let mut messages = vec![0_u8; MESSAGE_BYTES_MAX];
    let (mut library, mut size) = (std::ptr::null(), 0);
    // SAFETY: `pointers` are `len` C strings that live in `owned`; `messages` has `MESSAGE_BYTES_MAX`
    // writable bytes; the other pointers are to locals; the lock keeps this the only link.
    let is_linked = unsafe {
        antares_lld_link(
            pointers.as_ptr(),
            pointers.len(),
            &raw mut library,
            &raw mut size,
            messages.as_mut_ptr().cast(),
            MESSAGE_BYTES_MAX,
        )
    };
    if is_linked && !library.is_null() {
        // SAFETY: after a successful link, `library` points to `size` bytes that stay valid until this
        // thread's next link.
        return Ok(unsafe { std::slice::from_raw_parts(library, size) }.to_vec());
    }
    let message = CStr::from_bytes_until_nul(&messages).map(|text| text.to_string_lossy().into_owned());
    Err(CodegenError::Link { message: message.unwrap_or_default() })
}
