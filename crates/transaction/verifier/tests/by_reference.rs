//! Shared data of transactions is neither copied nor hashed for them. This must be the only test of its
//! process, because the counter of hashed bytes is process-wide.
#![allow(clippy::unwrap_used, reason = "a test")]

use antares_transaction::{
    CellFields, DepFields, Environment, Fields, Mock, SharedData, data_hash, hashed_bytes,
};
use antares_verifier::{Interpreter, Prepared, StopHandle, TransactionLimits, Verifier, VerifyOutcome};
use ckb_types::{
    bytes::Bytes,
    core::ScriptHashType,
    packed::{CellDep, CellInput, CellOutput, OutPoint, RawTransaction, Script, Transaction},
    prelude::*,
};

const LIMITS: TransactionLimits = TransactionLimits { cycles_max: 1_000_000, debug_bytes_max: 1 << 10 };
const CELLS: u32 = 20;
const CELL_BYTES: usize = 100_000;
const OWN_BYTES: usize = 100;

/// `addi a7, zero, 93`, `ecall`: exits with the code in a0.
fn exit() -> Vec<u8> {
    let code = [0x05d0_0893_u32, 0x0000_0073].map(u32::to_le_bytes).concat();
    let (entry, length) = (0x1_0000_u64, code.len() as u64);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
    elf.extend([entry, 64, 0].into_iter().flat_map(u64::to_le_bytes));
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0]);
    elf.extend([120, entry, entry, length, length, 1].into_iter().flat_map(u64::to_le_bytes));
    elf.extend(code);
    elf
}

/// A transaction whose cell deps are `shared`, of which the first is its lock, with some data of its own.
fn document(shared: &[SharedData], own: &[u8]) -> Vec<u8> {
    let points: Vec<_> = (0..=CELLS).map(|index| OutPoint::new(Default::default(), index)).collect();
    let code_hash: [u8; 32] = shared[0].data_hash;
    let lock = Script::new_builder().code_hash(code_hash).hash_type(ScriptHashType::Data1).build();
    let (spent, nobody) = (CellOutput::new_builder().lock(lock).build(), CellOutput::default());
    let deps: Vec<_> =
        points.iter().map(|point| CellDep::new_builder().out_point(point.clone()).build()).collect();
    let input = CellInput::new(OutPoint::new(Default::default(), u32::MAX - 1), 0);
    let raw = RawTransaction::new_builder().cell_deps(deps.pack()).inputs(vec![input].pack()).build();
    let tx = Transaction::new_builder().raw(raw).build();
    let data = shared.iter().map(|shared| &shared.data[..]);
    let cell_deps = points.iter().zip(data).map(|(point, data)| DepFields {
        out_point: point.as_slice(),
        cell_dep: None,
        cell: CellFields { output: nobody.as_slice(), data: data.into(), block_hash: None },
    });
    let fields = Fields {
        tx: tx.as_slice(),
        inputs: vec![CellFields { output: spent.as_slice(), data: own.into(), block_hash: None }],
        cell_deps: cell_deps.collect(),
        ..Fields::default()
    };
    let mut mock = Mock::from_molecule(&fields, &[]).unwrap();
    mock.take_shared(|data| shared.iter().find(|shared| shared.data == data).cloned());
    mock.document(&mut |hash| {
        shared.iter().zip(0..).find_map(|(shared, number)| (shared.data_hash == *hash).then_some(number))
    })
}

#[test]
fn shared_data_is_neither_copied_nor_hashed() {
    let data = |number: u32| Bytes::from([&number.to_le_bytes()[..], &vec![7; CELL_BYTES]].concat());
    let blobs = std::iter::once(Bytes::from(exit())).chain((0..CELLS).map(data));
    let shared: Vec<_> = blobs.map(|data| SharedData { data_hash: data_hash(&data), data }).collect();
    let all: usize = shared.iter().map(|shared| shared.data.len()).sum();
    // Each is hashed once.
    assert_eq!(hashed_bytes(), all as u64);
    let own = [9; OWN_BYTES];
    let document = document(&shared, &own);
    assert!(document.len() < CELL_BYTES / 10, "{} bytes travel", document.len());
    for round in 1..=3 {
        let mock = Mock::from_document(&document, &shared).unwrap();
        let prepared = Prepared::new(&mock, &Environment::default()).unwrap();
        for shared in &shared {
            let found = prepared.find_data(&shared.data_hash).unwrap();
            assert_eq!(found.as_ptr(), shared.data.as_ptr(), "a copy");
        }
        let report = Verifier::new(prepared, LIMITS, Interpreter, StopHandle::new()).verify(None);
        assert_eq!(report.unwrap().outcome, VerifyOutcome::Ok);
        assert_eq!(hashed_bytes(), (all + round * OWN_BYTES) as u64);
    }
}
