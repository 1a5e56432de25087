//! Guests and libraries built from assembly text with the compiler's tools: `clang-22` and `ld.lld-22`.

use std::{fs, os::fd::AsFd as _, path::Path, process::Command};

use antares_abi::{
    ABI_VERSION, GUARD_BYTES, HOST_TABLE_OFFSET, HostTable, LIBRARY_MAGIC, LIBRARY_SYMBOL, STATE_OFFSET,
    State,
};
use antares_vm::Library;
use bytes::Bytes;

/// Guest address of `_start` in every guest that [`guest`] makes.
pub(crate) const ENTRY: u64 = 0x11000;

/// Prefix of every library's code: offsets from base, and an ecall in the form of generated code. The thunk
/// keeps base in rbx.
const PREAMBLE: &str = "
    .intel_syntax noprefix
    .macro ecall_at pc, cycles
        mov qword ptr [rbx + PC], \\pc
        sub qword ptr [rbx + CYCLES_LEFT], \\cycles
        mov rdi, rbx
        call qword ptr [rbx + ECALL]
    .endm
    .macro set index, value
        mov qword ptr [rbx + STATE + 8 * \\index], \\value
    .endm
    .macro trap reason
        .byte 0x67, 0x0f, 0xb9, 0x40, \\reason
    .endm
    .text
    thunk:
        mov rbx, rax
";

/// Assembles and links a RISC-V program whose `_start` is at [`ENTRY`], in instructions of 4 bytes.
#[track_caller]
pub(crate) fn guest(source: &str) -> Bytes {
    let source = format!(".text\n.globl _start\n_start:\n{source}");
    let flags = ["--target=riscv64-unknown-elf", "-march=rv64im_zba_zbb_zbc_zbs", "-mno-relax"];
    Bytes::from(build(&source, &flags, &["-static", &format!("-Ttext={ENTRY:#x}")]))
}

/// A library's header, and its table with one thunk. Each name in braces stands for a field.
const TABLE: &str = "
    .section .rodata
    .p2align 3
    .globl {symbol}
    {symbol}:
    header:
    .byte {magic}
    .long {abi_version}, {vm_version}, {isa}, {directory_length}, 0, {table_length}
    .quad {table_base}, {table_offset}, {directory_offset}
    table:
    .zero 64
    .long thunk - table
    .zero 60
    directory:
    .short 1
";

/// A shared object with one thunk, `code`, for the first entry of the table, and a header with these changes.
#[track_caller]
pub(crate) fn library_bytes(changes: &[(&str, &str)], code: &str) -> Vec<u8> {
    let offset = |field: usize| STATE_OFFSET + field;
    let host = |field: usize| HOST_TABLE_OFFSET + field;
    let constants = [
        ("STATE", STATE_OFFSET),
        ("GUARD", GUARD_BYTES),
        ("PC", offset(std::mem::offset_of!(State, pc))),
        ("CYCLES_LEFT", offset(std::mem::offset_of!(State, cycles_left))),
        ("ECALL", host(std::mem::offset_of!(HostTable, ecall))),
        ("RESOLVE", host(std::mem::offset_of!(HostTable, resolve))),
        ("HOST", host(std::mem::offset_of!(HostTable, host))),
        ("METER", host(std::mem::offset_of!(HostTable, meter))),
    ];
    let constants: String = constants.iter().map(|(name, value)| format!(".set {name}, {value}\n")).collect();
    let magic = LIBRARY_MAGIC.map(|byte| byte.to_string()).join(", ");
    let (abi_version, entry) = (ABI_VERSION.to_string(), ENTRY.to_string());
    let good = [
        ("{symbol}", LIBRARY_SYMBOL),
        ("{magic}", &magic),
        ("{abi_version}", &abi_version),
        ("{vm_version}", "2"),
        ("{isa}", "3"),
        ("{table_length}", "32"),
        ("{table_base}", &entry),
        ("{table_offset}", "table - header"),
        ("{directory_length}", "1"),
        ("{directory_offset}", "directory - header"),
    ];
    let fields = changes.iter().chain(&good);
    let table = fields.fold(TABLE.to_owned(), |table, (field, value)| table.replace(field, value));
    let source = format!("{constants}{PREAMBLE}{code}{table}");
    build(&source, &["--target=x86_64-unknown-linux-gnu", "-fPIC"], &["-shared"])
}

/// Loads the result of [`library_bytes`].
#[track_caller]
pub(crate) fn library(code: &str) -> Library {
    load(&library_bytes(&[], code)).unwrap()
}

/// Loads a library from its bytes.
pub(crate) fn load(bytes: &[u8]) -> Result<Library, antares_vm::LibraryError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("library.so");
    fs::write(&path, bytes).unwrap();
    Library::load(fs::File::open(&path).unwrap().as_fd())
}

#[track_caller]
fn build(source: &str, assembler: &[&str], linker: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("source.s"), source).unwrap();
    call(
        Command::new("clang-22")
            .args(assembler)
            .arg("-c")
            .arg(path("source.s"))
            .arg("-o")
            .arg(path("object")),
    );
    call(Command::new("ld.lld-22").args(linker).arg(path("object")).arg("-o").arg(path("linked")));
    fs::read(path("linked")).unwrap()
}

#[track_caller]
fn call(command: &mut Command) {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}
