//! Machine code that no generator emits is refused at every location, by the check itself and by the
//! sandboxed child that checks each library before it is signed or run.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

#[path = "library/sample.rs"]
mod library;

use std::{mem::offset_of, path::PathBuf, time::Instant};

use antares_abi::{HOST_TABLE_OFFSET, Hints, HostTable, STATE_OFFSET, State};
use antares_codecheck::{CodeError, CodeFault, check};
use antares_pool::{
    Pool, PoolConfig, Sealed, Verdict,
    job::{CompileJob, CompileLimits, CompileReport, CompileTask},
};

use library::{OPTIONS, code, libraries, patched};

#[track_caller]
fn assert_accepted(bytes: &[u8]) {
    for library in libraries() {
        check(&patched(&library, bytes)).unwrap();
    }
}

#[track_caller]
fn assert_refused(bytes: &[u8], is_reason: impl Fn(CodeFault) -> bool) {
    for library in libraries() {
        match check(&patched(&library, bytes)) {
            Err(CodeError::Code { fault, .. }) if is_reason(fault) => {}
            other => panic!("{bytes:02x?}: {other:?}"),
        }
    }
}

#[test]
fn what_generators_make_is_in_order() {
    for library in libraries() {
        let checked = check(&library).unwrap();
        assert_eq!(checked.code_bytes as usize, code(&library).len());
        assert!(checked.instructions > 10);
    }
}

#[test]
fn a_system_call_is_refused_wherever_it_stands() {
    for library in libraries() {
        for place in code(&library) {
            let mut patched = library.clone();
            // In the middle of an instruction it may be an immediate; each breakpoint is an instruction.
            if patched.get(place..place + 2) == Some(&[0xcc, 0xcc]) {
                patched[place..place + 2].copy_from_slice(&[0x0f, 0x05]);
                let refused = check(&patched);
                assert!(refused.is_err(), "at {place:#x}");
            }
        }
    }
}

#[test]
fn other_ways_are_refused() {
    // Through another index, and through another field of the state.
    let pc = u32::try_from(STATE_OFFSET + offset_of!(State, pc)).unwrap().to_le_bytes();
    for bytes in [&[0xff, 0x14, 0xc8][..], &[&[0xff, 0x90][..], &pc].concat()] {
        assert_refused(bytes, |fault| fault == CodeFault::Computed);
    }
    // A table entry to which something else is added.
    let table = [0x48, 0x63, 0x0c, 0x8a, 0x48, 0x01, 0xf1, 0xff, 0xe1];
    assert_refused(&table, |fault| fault == CodeFault::Computed);
    // The table's address is in two registers: lea rdx, mov rsi, movsxd rdx, add rdx, jmp rdx.
    let (lea, copy) = ([0x48, 0x8d, 0x15, 0, 0, 0, 0], [0x48, 0x89, 0xd6]);
    let jump = [0x4a, 0x63, 0x14, 0x8a, 0x48, 0x01, 0xf2, 0xff, 0xe2];
    let copied = [&lea[..], &copy, &jump].concat();
    assert_accepted(&copied);
    // lea rdx, table; movsxd rcx, [rdx + rcx*4]; lea rcx, [rcx + rdx + displacement]; jmp rcx. Only a whole
    // thunk may be skipped.
    let skipping =
        |bytes: u8| [&lea[..], &[0x48, 0x63, 0x0c, 0x8a, 0x48, 0x8d, 0x4c, 0x11, bytes, 0xff, 0xe1]].concat();
    [0, 12].iter().for_each(|bytes| assert_accepted(&skipping(*bytes)));
    assert_refused(&skipping(8), |fault| fault == CodeFault::Computed);
    // One of the registers was changed by then.
    let changed = [&lea[..], &copy, &[0x48, 0xff, 0xc2], &jump].concat();
    assert_refused(&changed, |fault| fault == CodeFault::Computed);
}

/// With few free registers, LLVM materializes a table's address twice, the second time after the entry. Both
/// must be the same address.
#[test]
fn a_table_s_address_is_made_twice() {
    // lea rdx, table; movsxd rdx, [rdx + r14*4]; lea r14, table; add rdx, r14; jmp rdx
    let first = |distance: u8| [0x48, 0x8d, 0x15, distance, 0, 0, 0];
    let (entry, second, jump) =
        ([0x4a, 0x63, 0x14, 0xb2], [0x4c, 0x8d, 0x35, 0, 0, 0, 0], [0x4c, 0x01, 0xf2, 0xff, 0xe2]);
    assert_accepted(&[&first(11)[..], &entry, &second, &jump].concat());
    let (inc_rdx, inc_r14) = ([0x48, 0xff, 0xc2], [0x49, 0xff, 0xc6]);
    for changed in [
        // another table
        [&first(14)[..], &entry, &second, &jump].concat(),
        // one of them changed
        [&first(14)[..], &inc_rdx, &entry, &second, &jump].concat(),
        [&first(11)[..], &entry, &second, &inc_r14, &jump].concat(),
        // the entry changed
        [&first(14)[..], &entry, &inc_rdx, &second, &jump].concat(),
        // one of them from another instruction
        [&entry[..], &second, &jump].concat(),
        [&first(11)[..], &entry, &[0x90; 7], &jump].concat(),
    ] {
        assert_refused(&changed, |fault| fault == CodeFault::Computed);
    }
}

/// Shapes of very large functions compiled without passes, and of code with constant indices; and a variant
/// of each.
#[test]
fn ways_are_computed_in_few_other_shapes() {
    // lea rcx, table; lea rdx, function; sub edx, ecx; movsxd rdx, edx; add rdx, rcx; call rdx; ret
    let (table, function) = ([0x48, 0x8d, 0x0d, 0, 0, 0, 0], [0x48, 0x8d, 0x15, 0, 0, 0, 0]);
    let (difference, widened) = ([0x29, 0xca], [0x48, 0x63, 0xd2]);
    let call = [0x48, 0x01, 0xca, 0xff, 0xd2, 0xc3];
    let inc_rcx = [0x48, 0xff, 0xc1];
    assert_accepted(&[&table[..], &function, &difference, &widened, &call].concat());
    for changed in [
        [&table[..], &function, &difference, &inc_rcx, &widened, &call].concat(),
        [&table[..], &inc_rcx, &function, &difference, &widened, &call].concat(),
        [&table[..], &function, &difference, &inc_rcx, &call].concat(),
        [&table[..], &function, &difference, &table, &widened, &call].concat(),
    ] {
        assert_refused(&changed, |fault| fault == CodeFault::Computed);
    }
    // mov eax, [rax + rcx*4]; mov [rsp + 4], eax; mov ecx, [rsp + 4]; movsxd rdx, ecx; lea rcx, table; add
    // rcx, rdx; call rcx; ret
    let (entry, spill) = ([0x8b, 0x04, 0x88], [0x89, 0x44, 0x24, 0x04]);
    let reload = |slot: u8| [0x8b, 0x4c, 0x24, slot];
    let rest = [0x48, 0x63, 0xd1, 0x48, 0x8d, 0x0d, 0, 0, 0, 0, 0x48, 0x01, 0xd1, 0xff, 0xd1, 0xc3];
    assert_accepted(&[&entry[..], &spill, &reload(4), &rest].concat());
    for changed in [
        [&entry[..], &spill, &reload(8), &rest].concat(),
        [&entry[..], &spill, &[0x50], &reload(4), &rest].concat(),
        [&[0x8b, 0x04, 0x48][..], &spill, &reload(4), &rest].concat(),
    ] {
        assert_refused(&changed, |fault| fault == CodeFault::Computed);
    }
    // mov rax, [rdi + ecall]; call rax; ret. Another field of the page must not be loaded.
    let host = |field: usize| {
        let place = u32::try_from(HOST_TABLE_OFFSET + field).unwrap().to_le_bytes();
        [&[0x48, 0x8b, 0x87][..], &place, &[0xff, 0xd0, 0xc3]].concat()
    };
    assert_accepted(&host(offset_of!(HostTable, ecall)));
    assert_refused(&host(4000), |fault| fault == CodeFault::Memory);
    // mov r10, rsp; ret
    assert_accepted(&[0x49, 0x89, 0xe2, 0xc3]);
}

#[test]
fn code_has_an_end_and_thunks_a_beginning() {
    for library in libraries() {
        let range = code(&library);
        let mut open = library.clone();
        open[range.end - 1] = 0x90;
        let refused = check(&open).unwrap_err();
        assert!(matches!(refused, CodeError::Code { fault: CodeFault::End, .. }), "{refused}");
        open[range.end - 2..range.end].copy_from_slice(&[0x48, 0xb8]);
        let refused = check(&open).unwrap_err();
        assert!(matches!(refused, CodeError::Code { fault: CodeFault::Invalid, .. }), "{refused}");
        // An entry of the table is moved by a byte.
        let mut others = 0;
        for place in 0..range.start {
            let mut moved = library.clone();
            moved[place] = moved[place].wrapping_add(1);
            others += usize::from(matches!(check(&moved), Err(CodeError::Thunk { .. })));
        }
        assert!(others > 0);
    }
}

#[test]
fn another_child_refuses_it() {
    let worker = PathBuf::from(env!("CARGO_BIN_EXE_antares-compile-worker"));
    let pool = Pool::start(PoolConfig::new(worker, 1)).unwrap();
    let limits = CompileLimits::default();
    let job = CompileJob { options: OPTIONS, task: CompileTask::Check, hints: Hints::default(), limits };
    let asked = |library: &[u8]| {
        let deadline = Instant::now() + std::time::Duration::from_secs(120);
        match pool.compile(&job, &Sealed::new("library", library).unwrap(), deadline).unwrap() {
            Verdict::Done(compiled) => compiled.report,
            other => panic!("{other:?}"),
        }
    };
    for library in libraries() {
        assert!(matches!(asked(&library), CompileReport::Done(_)));
        match asked(&patched(&library, &[0x0f, 0x05])) {
            CompileReport::Refused { reason, detail } => {
                assert_eq!(reason, "code");
                assert!(detail.contains("is not one that our generators use"), "{detail}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(asked(b"junk"), CompileReport::Refused { .. }));
}
