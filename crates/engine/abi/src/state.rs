//! The memory layout that generated code and host share, byte for byte.
//!
//! ```text
//! | no access, REACH_BYTES | host's own head | guest memory, 4 MiB | guard, GUARD_BYTES | State | HostTable | counters, closed | no access, REACH_BYTES |
//!                                            ^ base                                     ^ base + STATE_OFFSET
//! ```
//! Generated code gets one pointer, `base`, the host address of guest address 0. Everything else is at a
//! constant distance from it. The picture contains every address that base plus 32 bits, signed or unsigned,
//! can reach without a valid check. It contains no writable code pointers.

use std::mem::offset_of;

use serde::{Deserialize, Serialize};
use strum::{FromRepr, IntoStaticStr, VariantArray};

/// Version of this contract. Hosts refuse a library with another version (a cache miss, never an error).
pub const ABI_VERSION: u32 = 7;

/// Bytes of guest memory (ckb-vm's `RISCV_MAX_MEMORY`).
pub const GUEST_MEMORY_BYTES: u64 = 4 << 20;

/// Bytes of inaccessible address space on both sides of guest memory and of the native stack.
pub const GUARD_BYTES: usize = 64 << 10;

/// Bytes of inaccessible address space on both sides of everything that generated code may touch.
pub const REACH_BYTES: usize = 4 << 30;

/// Distance in bytes from `base` to [`State`].
pub const STATE_OFFSET: usize = (4 << 20) + GUARD_BYTES;

/// Distance in bytes from `base` to [`HostTable`], which is on the page after the state's.
pub const HOST_TABLE_OFFSET: usize = STATE_OFFSET + 4096;

/// A nonexistent system call that ends a worker after native code touched memory outside any guest address.
/// Every filter kills the process for it, and the supervisor receives the number.
pub const WILD_FAULT_CALL: u32 = 0x5746;

/// The one exported symbol of a library: a [`LibraryHeader`].
pub const LIBRARY_SYMBOL: &str = "antares_library";

/// First bytes of a [`LibraryHeader`].
pub const LIBRARY_MAGIC: [u8; 8] = *b"ANTARES\x01";

/// Bytes of an entry thunk, which precedes its function.
pub const THUNK_BYTES: u32 = 12;

/// The first bytes of the no-op `nop dword ptr [base + left + number]`, after a REX prefix if a register
/// needs one. A SIB byte and the 4 bytes of the number follow.
pub const METER_MARK: [u8; 3] = [0x0f, 0x1f, 0x84];

/// Flag on a trap's [`BailoutReason::UnknownTarget`]: `pc` holds the target.
pub const NAMES_TARGET: u8 = 0x40;

/// Like [`NAMES_TARGET`], for a jump that only goes to listed targets.
pub const PAST_TABLE: u8 = 0x20;

// A trap's number is a signed displacement: from 0x80 on it would take four bytes instead of one.
const _: () = assert!(NAMES_TARGET < 0x80 && PAST_TABLE < 0x80 && BailoutReason::StackOverflow as u8 <= 0x1f);

/// The data that generated code and host exchange. Generated code accesses the fields through their offsets.
#[repr(C)]
#[derive(Debug)]
pub struct State {
    /// Guest registers `x0..x31`, current only outside native code (entry, ecall, indirect dispatch).
    pub registers: [u64; 32],
    /// Guest pc. At entry, the entry address; at an ecall, the address of the ecall; at an unknown target,
    /// the target; after a thunk returns, where the guest returned to.
    pub pc: u64,
    /// Cycles left; negative if the limit was exceeded. Native code writes it back at ecalls and exits.
    pub cycles_left: i64,
    /// Why native code bailed out: a [`BailoutReason`] as a number, 0 while it runs.
    pub bailout_reason: u64,
    /// 1 if all of `registers` are current, so that the script can resume from them. [`NAMES_TARGET`] or
    /// [`PAST_TABLE`] if only `pc` is. Native code writes it before each ecall and before it bails out at an
    /// unknown target.
    pub is_complete: u64,
}

/// The host's functions for generated code, on a read-only page of their own.
#[repr(C)]
#[derive(Debug)]
pub struct HostTable {
    /// Address of the host's `extern "C" fn(base: *mut u8)` for ecalls. It returns if native code continues.
    /// Guest registers `a0..a7`, `pc` and `cycles_left` are current; `a0` and `cycles_left` are reloaded.
    pub ecall: u64,
    /// Address of the host's meter. A [`METER_MARK`] follows the call: its registers hold `base` and the
    /// cycles left, which are negative; its number is the guest address of the entered block. The meter
    /// updates the register of the cycles left and otherwise changes only the flags, or it bails out.
    pub meter: u64,
    /// Address of the host's `extern "C" fn(base: *mut u8, target: u64) -> u64`. It returns the entry thunk
    /// of another library for a guest address, 0 if there is none.
    pub resolve: u64,
    /// Address of the host's `extern "C" fn(base: *mut u8, pc: u64, sp: u64) -> u64`. It returns 0, then 1
    /// for each [`far_jump`](Self::far_jump) to this guest pc with this guest `sp`. Callee-saved registers
    /// are then restored; guest registers and `cycles_left` are in the state. Before the frame ends, native
    /// code must call [`unmark`](Self::unmark) in it.
    pub mark: u64,
    /// Address of the host's `extern "C" fn(base: *mut u8)`, which removes the marks of the calling frame.
    pub unmark: u64,
    /// Address of the host's `extern "C" fn(base: *mut u8, target: u64)`, which does not return. It resumes
    /// at the innermost frame marked with the target and the guest's `sp`, or bails out. All guest registers
    /// that a marked frame reads are current, and so is `cycles_left`.
    pub far_jump: u64,
    /// Private to the host; generated code does not use it.
    pub host: u64,
}

impl State {
    /// Offset of guest register `index` from the start of the state.
    #[must_use]
    pub const fn register_offset(index: usize) -> usize {
        assert!(index < 32);
        offset_of!(State, registers) + 8 * index
    }
}

/// Why native code bailed out.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, FromRepr, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case", const_into_str)]
#[repr(u64)]
pub enum BailoutReason {
    /// The host's ecall function requested it (the script exited, or a syscall failed).
    Ecall = 1,
    /// The entry function returned: the guest jumped to its initial return address.
    Returned = 2,
    /// An indirect jump went to an address without native code, or a return address did not match.
    UnknownTarget = 3,
    /// Native code does not support an instruction (invalid encoding, code outside the image).
    Unsupported = 4,
    /// The cycle limit was exceeded.
    OutOfCycles = 5,
    /// An address check failed: ud1 with this number, or a fault on a guard page.
    BadAddress = 6,
    /// The native stack overflowed (guest recursion).
    StackOverflow = 7,
}

impl BailoutReason {
    /// All reasons.
    pub const ALL: [Self; 7] = *Self::VARIANTS.first_chunk().unwrap();

    /// Name for logs, metrics and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into_str()
    }
}

/// Value of [`LibraryHeader::keeps_stores`]: a library's stores may go to any page.
pub const STORES_ANYWHERE: u32 = 2;

/// The header of a library, in its read-only data, free of relocations.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LibraryHeader {
    /// [`LIBRARY_MAGIC`].
    pub magic: [u8; 8],
    /// [`ABI_VERSION`].
    pub abi_version: u32,
    /// VM version that the code was compiled for.
    pub vm_version: u32,
    /// ISA flags that the code was compiled for.
    pub isa: u32,
    /// Entries of the directory of the entry table (see [`EntryTable`](crate::EntryTable)): pages of guest
    /// code.
    pub directory_length: u32,
    /// Not 0 if the code performs every store of the guest, even one that changes nothing. Then the host can
    /// protect pages that become executable. [`STORES_ANYWHERE`] if stores are checked against all of
    /// memory. Then the host must protect the program's own pages too.
    pub keeps_stores: u32,
    /// Entries of the entry table: a multiple of [`ENTRIES_PER_GROUP`](crate::ENTRIES_PER_GROUP).
    pub table_length: u32,
    /// Guest address at which the directory starts.
    pub table_base: u64,
    /// Distance in bytes from this header to the entries (`table_length` times i32). Each entry is the
    /// distance from the table's start to an entry thunk, or 0.
    ///
    /// An entry thunk follows `x86_regcallcc` with `base` in rax. It loads guest registers from [`State`],
    /// runs the guest function, and stores them after its return.
    pub table_offset: i64,
    /// Distance in bytes from this header to the directory (`directory_length` times u16).
    pub directory_offset: i64,
}

const _: () = assert!(size_of::<State>() <= HOST_TABLE_OFFSET - STATE_OFFSET);
const _: () = assert!(offset_of!(State, registers) == 0);
const _: () = assert!(offset_of!(LibraryHeader, table_base) == 32);
const _: () = assert!(offset_of!(LibraryHeader, table_offset) == 40);
