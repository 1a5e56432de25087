//! Shared data of transactions is neither copied nor hashed for them. This must be the only test of its
//! process, because the counter of hashed bytes is process-wide.
#![allow(clippy::unwrap_used, reason = "a test")]

use antares_transaction::{Environment, Mock, SharedData, data_hash, hashed_bytes};
use antares_verifier::{Interpreter, Prepared, StopHandle, TransactionLimits, Verifier, VerifyOutcome};
use ckb_types::{bytes::Bytes, core::ScriptHashType};

const LIMITS: TransactionLimits = TransactionLimits { cycles_max: 1_000_000, debug_bytes_max: 1 << 10 };
const CELLS: u32 = 20;
const CELL_BYTES: usize = 100_000;
const OWN_BYTES: usize = 100;

/// A transaction whose cell deps are `shared`, of which the first is its lock, with some data of its own.
fn document(shared: &[SharedData], own: &[u8]) -> Vec<u8> {
    let deps: Vec<_> = shared.iter().map(|shared| shared.data.clone()).collect();
    let mut mock = antares_chain::locked_by(&deps, ScriptHashType::Data1);
    mock.mock_info.inputs[0].data = Bytes::copy_from_slice(own);
    let mut mock = Mock::from_json(&antares_chain::json(mock)).unwrap();
    mock.take_shared(|data| shared.iter().find(|shared| shared.data == data).cloned());
    mock.document(&mut |hash| {
        shared.iter().zip(0..).find_map(|(shared, number)| (shared.data_hash == *hash).then_some(number))
    })
}

#[test]
fn shared_data_is_neither_copied_nor_hashed() {
    let data = |number: u32| Bytes::from([&number.to_le_bytes()[..], &vec![7; CELL_BYTES]].concat());
    let blobs = std::iter::once(Bytes::from(antares_chain::exits(0))).chain((0..CELLS).map(data));
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
        let report = Verifier::new(prepared, LIMITS, Interpreter, StopHandle::default()).verify(None);
        assert_eq!(report.unwrap().outcome, VerifyOutcome::Ok);
        assert_eq!(hashed_bytes(), (all + round * OWN_BYTES) as u64);
    }
}
