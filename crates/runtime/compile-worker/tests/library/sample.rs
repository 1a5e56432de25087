//! A valid library with space for additional machine code.

use std::ops::Range;

use antares_abi::{CompileOptions, Hints, Isa};
use antares_compile_worker::sample;
use antares_compiler::{Request, Stage};
use antares_pool::job::CompileLimits;

pub(crate) const OPTIONS: CompileOptions = CompileOptions { vm_version: 2, isa: Isa(7) };

/// The sample's library from both generators.
pub(crate) fn libraries() -> [Vec<u8>; 2] {
    [Stage::Library, Stage::Baseline].map(|stage| {
        let limits = CompileLimits::default();
        let request = Request { options: OPTIONS, stage, hints: Hints::default(), limits };
        antares_compiler::compile(&sample::elf(), &request).unwrap().bytes
    })
}

/// Range of the code in the file.
pub(crate) fn code(library: &[u8]) -> Range<usize> {
    let number =
        |at: usize| usize::try_from(u64::from_le_bytes(library[at..at + 8].try_into().unwrap())).unwrap();
    let headers = (0..usize::from(library[56])).map(|index| 64 + 56 * index);
    let code = headers.into_iter().find(|at| library[*at] == 1 && library[at + 4] & 1 == 1).unwrap();
    number(code + 8)..number(code + 8) + number(code + 32)
}

/// The library with `bytes` in place of the breakpoints that pad the last page of its code.
pub(crate) fn patched(library: &[u8], bytes: &[u8]) -> Vec<u8> {
    let end = code(library).end;
    let mut patched = library.to_vec();
    let place = end - 256;
    assert!(patched[place..end].iter().all(|byte| *byte == 0xcc), "room behind the code");
    patched[place..place + bytes.len()].copy_from_slice(bytes);
    patched
}
