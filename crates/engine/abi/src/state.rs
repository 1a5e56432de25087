//! The memory layout that generated code and host share, byte for byte.
//!
//! ```text
//! | no access, REACH_BYTES | host's own head | guest memory, 4 MiB | guard, GUARD_BYTES | State | HostTable | counters, closed | no access, REACH_BYTES |
//!                                            ^ base                                     ^ base + STATE_OFFSET
//! ```
//! Generated code gets one pointer, `base`, the host address of guest address 0. Everything else is at a
//! constant distance from it. What an access reaches whose address is base and 32 bits, with a sign or
//! without, and whose check is wrong, is in this picture: a code pointer that can be written is not.

use std::mem::offset_of;

/// Version of this contract. A library with another version is refused (a cache miss, never an error).
pub const ABI_VERSION: u32 = 6;

/// Bytes of guest memory (ckb-vm's `RISCV_MAX_MEMORY`).
pub const GUEST_MEMORY_BYTES: u64 = 4 << 20;

/// Bytes of inaccessible address space on both sides of guest memory and of the native stack.
pub const GUARD_BYTES: usize = 64 << 10;

/// Bytes of address space without access on both sides of everything that generated code may touch.
pub const REACH_BYTES: usize = 4 << 30;

/// Distance in bytes from `base` to [`State`].
pub const STATE_OFFSET: usize = (4 << 20) + GUARD_BYTES;

/// Distance in bytes from `base` to [`HostTable`]: the page behind the state's.
pub const HOST_TABLE_OFFSET: usize = STATE_OFFSET + 4096;

/// The system call, which does not exist, by which a worker ends after native code has touched memory that no
/// guest address can mean: every filter ends the process for it, and the supervisor hears the number.
pub const WILD_FAULT_CALL: u32 = 0x5746;

/// The one exported symbol of a library: a [`LibraryHeader`].
pub const LIBRARY_SYMBOL: &str = "antares_library";

/// First bytes of a [`LibraryHeader`].
pub const LIBRARY_MAGIC: [u8; 8] = *b"ANTARES\x01";

/// The first bytes of an instruction that does nothing, `nop dword ptr [base + left + number]`, after a REX
/// prefix if one of its registers needs one. A SIB byte follows, and 4 bytes with the number.
pub const METER_MARK: [u8; 3] = [0x0f, 0x1f, 0x84];

/// Beside the number of [`BailoutReason::UnknownTarget`] in a trap: the target is in `pc`.
pub const NAMES_TARGET: u8 = 0x40;

/// As [`NAMES_TARGET`], from a jump that only goes to what it lists.
pub const PAST_TABLE: u8 = 0x20;

// The number of a trap is a displacement with a sign: from 0x80 on it would take four bytes instead of one.
const _: () = assert!(NAMES_TARGET < 0x80 && PAST_TABLE < 0x80 && BailoutReason::StackOverflow as u8 <= 0x1f);

/// What generated code and host exchange. Fields are read and written by generated code through their
/// offsets.
#[repr(C)]
#[derive(Debug)]
pub struct State {
    /// Guest registers `x0..x31`, current only while native code is left (entry, ecall, indirect dispatch).
    pub registers: [u64; 32],
    /// Guest pc: the entry on the way in; at an ecall, the address of the ecall; at an unknown target, the
    /// target; after a thunk has returned, where the guest returned to.
    pub pc: u64,
    /// Cycles that may still be used; negative means that the limit was passed. Written back at ecalls and
    /// exits.
    pub cycles_left: i64,
    /// Why native code was left: a [`BailoutReason`] as a number, 0 while it runs.
    pub bailout_reason: u64,
    /// 1 if all of `registers` are current, so that the script can go on from them. Written before each ecall
    /// and before native code is left for an unknown target. [`NAMES_TARGET`] or [`PAST_TABLE`] if only `pc`
    /// is.
    pub is_complete: u64,
}

/// What generated code finds of the host: on a page of its own that can only be read.
#[repr(C)]
#[derive(Debug)]
pub struct HostTable {
    /// Address of the host's `bail_out`: generated code jumps there with `base` in rax, from any depth; it never
    /// returns.
    pub bail_out: u64,
    /// Address of the host's `extern "C" fn(base: *mut u8)` for ecalls. It returns if native code goes on.
    /// Guest registers `a0..a7`, `pc` and `cycles_left` are current; `a0` and `cycles_left` are reloaded.
    pub ecall: u64,
    /// Address of the host's meter. Behind the call stands a [`METER_MARK`]: its registers are those that
    /// hold `base` and the cycles left, which are below zero; its number is the guest address of the block
    /// that was entered. The meter puts the new cycles left into their register and changes no other but the
    /// flags, or it leaves native code.
    pub meter: u64,
    /// Address of the host's `extern "C" fn(base: *mut u8, target: u64) -> u64`: the entry thunk of another
    /// library for a guest address, 0 if there is none.
    pub resolve: u64,
    /// Address of the host's `extern "C" fn(base: *mut u8, pc: u64, sp: u64) -> u64`, which returns 0, and
    /// once more for each [`far_jump`](Self::far_jump) to this guest pc with this guest `sp`: then 1, with
    /// all that this convention keeps as it was, and guest registers and `cycles_left` in the state. Until
    /// then native code must call [`unmark`](Self::unmark) in the same frame before it gives that up.
    pub mark: u64,
    /// Address of the host's `extern "C" fn(base: *mut u8)`: nobody returns any more to the frame that it is
    /// called in.
    pub unmark: u64,
    /// Address of the host's `extern "C" fn(base: *mut u8, target: u64)`, which does not return: goes on at
    /// the innermost frame that is marked with the target and the guest's `sp`, or leaves native code. Guest
    /// registers and `cycles_left` are current as far as any marked frame reads them.
    pub far_jump: u64,
    /// Where the host keeps its own; nothing for generated code.
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

/// Why native code was left for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum BailoutReason {
    /// The host's ecall function said so (the script exited, or a syscall failed).
    Ecall = 1,
    /// The entry function returned: the guest jumped to the return address it was started with.
    Returned = 2,
    /// An indirect jump went to an address without native code, or a return address did not match.
    UnknownTarget = 3,
    /// An instruction that native code does not run (invalid encoding, code outside the image).
    Unsupported = 4,
    /// The cycle limit was passed.
    OutOfCycles = 5,
    /// An address check failed: ud1 with this number, or a fault on a guard page.
    BadAddress = 6,
    /// The native stack was used up (guest recursion).
    StackOverflow = 7,
}

impl BailoutReason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Ecall,
        Self::Returned,
        Self::UnknownTarget,
        Self::Unsupported,
        Self::OutOfCycles,
        Self::BadAddress,
        Self::StackOverflow,
    ];

    /// The reason with this number, if there is one.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u64 == number)
    }

    /// Name for logs, metrics and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ecall => "ecall",
            Self::Returned => "returned",
            Self::UnknownTarget => "unknown_target",
            Self::Unsupported => "unsupported",
            Self::OutOfCycles => "out_of_cycles",
            Self::BadAddress => "bad_address",
            Self::StackOverflow => "stack_overflow",
        }
    }
}

/// A library's stores may go to any page.
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
    /// Not 0 if every store of the guest is one of the host, even where it changes nothing: then a page that
    /// became executable can be protected from them. [`STORES_ANYWHERE`] if stores are checked against all of
    /// memory: then those of the program itself have to be.
    pub keeps_stores: u32,
    /// Entries of the entry table: a multiple of [`ENTRIES_PER_GROUP`](crate::ENTRIES_PER_GROUP).
    pub table_length: u32,
    /// Guest address that the directory starts at.
    pub table_base: u64,
    /// Distance in bytes from this header to the entries (`table_length` times i32): each is the distance
    /// from the table's start to an entry thunk, 0 where there is none.
    ///
    /// An entry thunk follows `x86_regcallcc` with `base` in rax; it loads guest registers from [`State`],
    /// runs the guest function, and stores them when that returns.
    pub table_offset: i64,
    /// Distance in bytes from this header to the directory (`directory_length` times u16).
    pub directory_offset: i64,
}

const _: () = assert!(size_of::<State>() <= HOST_TABLE_OFFSET - STATE_OFFSET);
const _: () = assert!(offset_of!(State, registers) == 0);
const _: () = assert!(offset_of!(LibraryHeader, table_base) == 32);
const _: () = assert!(offset_of!(LibraryHeader, table_offset) == 40);
