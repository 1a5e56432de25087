//! A worker that verifies several transactions: what it shares between them, and what it forgets.

use std::time::Instant;

use antares_pool::{
    Pool, Sealed, Verdict,
    job::{GroupReport, SharedCell, TransactionForm, VerifyFiles, VerifyJob, VerifyOutcome, VerifyReport},
};
use antares_transaction::{Mock, SharedData, data_hash};
use bytes::Bytes;
use ckb_types::{core::ScriptHashType, packed, prelude::*};

use crate::{
    jobs::{self, PATIENCE, pool},
    memory::{find, forgets, workers},
};

const PAGE: u32 = 4096;
const ECALL: u32 = 0x73;
const ZERO: u32 = 0;
const T0: u32 = 5;
const A0: u32 = 10;
const A7: u32 = 17;

fn lui(to: u32, number: u32) -> u32 {
    ((number / PAGE) << 12) | (to << 7) | 0x37
}

fn addi(to: u32, from: u32, number: i32) -> u32 {
    (number.cast_unsigned() << 20) | (from << 15) | (to << 7) | 0x13
}

/// Loads up to two pages with system call `number` from entry `index` of `source` to `to`.
fn load(number: i32, index: i32, source: i32, to: u32) -> Vec<u32> {
    let [a1, a2, a3, a4] = [A0 + 1, A0 + 2, A0 + 3, A0 + 4];
    let store_length = (T0 << 20) | (a1 << 15) | (3 << 12) | 0x23;
    let mut code = vec![lui(A0, to), lui(a1, 0xf_f000), lui(T0, 2 * PAGE), store_length];
    code.extend([addi(a2, ZERO, 0), addi(a3, ZERO, index), addi(a4, ZERO, source)]);
    code.extend([lui(A7, PAGE), addi(A7, A7, number - 4096), ECALL]);
    code
}

/// Loads its witness and the data of a cell dep, prints the witness, and exits with the value of a byte that
/// it then changes: 0, unless memory survives.
fn script() -> Vec<u8> {
    const LOAD_WITNESS: i32 = 2074;
    const LOAD_CELL_DATA: i32 = 2092;
    let mut code = load(LOAD_CELL_DATA, 1, 3, 0x20_0000);
    code.extend(load(LOAD_WITNESS, 0, 1, 0x10_0000));
    code.extend([lui(A0, 0x10_0000), lui(A7, PAGE), addi(A7, A7, 2177 - 4096), ECALL]);
    let load_byte = (T0 << 15) | (4 << 12) | (A0 << 7) | 0x03;
    let store_byte = (7 << 20) | (T0 << 15) | 0x23;
    code.extend([lui(T0, 0x18_0000), load_byte, addi(7, ZERO, 7), store_byte, addi(A7, ZERO, 93), ECALL]);
    antares_chain::elf(&code)
}

/// A transaction whose lock is `script`, the first of two cell deps of which the second has `data`.
fn transaction(script: &[u8], data: &[u8], witness: &[u8]) -> Mock {
    let deps = [script, data].map(Bytes::copy_from_slice);
    let mut mock = antares_chain::locked_by(&deps, ScriptHashType::Data1);
    mock.tx = mock.tx.as_builder().witnesses(vec![packed::Bytes::from(witness.to_vec())]).build();
    Mock::from_json(&antares_chain::json(mock)).unwrap()
}

/// Cells in separate files.
struct Shared(Vec<(Sealed, [u8; 32])>);

impl Shared {
    fn new(cells: &[&[u8]]) -> Self {
        Self(cells.iter().map(|data| (Sealed::new("cell", data).unwrap(), data_hash(data))).collect())
    }

    fn verify(&self, pool: &Pool, mut mock: Mock, change: impl FnOnce(&mut VerifyJob)) -> GroupReport {
        mock.take_shared(|data| {
            let data_hash = data_hash(data);
            let is_shared = self.0.iter().any(|(_, hash)| *hash == data_hash);
            is_shared.then(|| SharedData { data: data.clone(), data_hash })
        });
        let document = mock.document(&mut |hash| {
            self.0.iter().zip(0..).find_map(|((_, shared), number)| (shared == hash).then_some(number))
        });
        let cells =
            self.0.iter().map(|(file, data_hash)| SharedCell { data_hash: *data_hash, bytes: file.len() });
        let mut job = VerifyJob {
            cells: cells.collect(),
            ..jobs::verification(TransactionForm::Molecule, document.len())
        };
        job.document = Bytes::from(document);
        change(&mut job);
        let files: Vec<_> = self.0.iter().map(|(file, _)| file).collect();
        let files = VerifyFiles { cells: &files, ..VerifyFiles::default() };
        let verdict = pool.verify(&job, &files, Instant::now() + PATIENCE).unwrap();
        let Verdict::Done(VerifyReport::Done { outcome, mut groups, .. }) = verdict else {
            panic!("{verdict:?}")
        };
        assert!(matches!(outcome, VerifyOutcome::Ok | VerifyOutcome::Failed));
        groups.remove(0)
    }
}

/// The group's one line of output; also asserts that its script found cleared memory.
fn line(group: &GroupReport) -> String {
    assert_eq!((group.outcome, group.exit_code), (VerifyOutcome::Ok, Some(0)), "{group:?}");
    group.debug.iter().collect()
}

#[test]
fn transactions_over_the_same_cells_share_a_worker_and_nothing_else() {
    let (pool, script, data) = (pool(), script(), b"some data".repeat(500));
    let both = Shared::new(&[&data, &script]);
    for number in 0..5 {
        let witness = format!("witness {number}");
        assert_eq!(
            line(&both.verify(&pool, transaction(&script, &data, witness.as_bytes()), |_| {})),
            witness
        );
    }
    // A job that needs fewer cells than the worker has.
    let one = Shared::new(&[&script]);
    assert_eq!(line(&one.verify(&pool, transaction(&script, b"other", b"fewer"), |_| {})), "fewer");
    let stats = pool.stats();
    assert_eq!((stats.spawned_total, stats.reused_total, stats.resting), (1, 5, 1));
    // A missing cell, another tenant's job, and a job that requires its own worker, which is not reused.
    let other = Shared::new(&[&data, &script, b"another"]);
    other.verify(&pool, transaction(&script, &data, b"more"), |_| {});
    both.verify(&pool.of_tenant("other"), transaction(&script, &data, b"others'"), |_| {});
    both.verify(&pool, transaction(&script, &data, b"alone"), |job| job.is_alone = true);
    assert_eq!((pool.stats().spawned_total, pool.stats().reused_total), (4, 5));
}

#[test]
fn what_does_not_end_well_does_not_stay() {
    let (pool, script, data) = (pool(), script(), b"some data".to_vec());
    let both = Shared::new(&[&data, &script]);
    let out_of_cycles = both.verify(&pool, transaction(&script, &data, b"w"), |job| job.cycles_max = 3);
    assert_eq!(out_of_cycles.error.unwrap().kind, "ExceededMaximumCycles");
    assert_eq!(pool.stats().resting, 0);
}

#[test]
fn a_worker_that_rests_holds_nothing_of_the_transaction_before() {
    let (pool, script) = (pool(), script());
    // As long as a page, so that the read buffer's end never cuts every copy.
    let cycle = |text: &[u8]| -> Vec<u8> { text.iter().copied().cycle().take(4096).collect() };
    let (canary, cell) = (cycle(b"a canary that sings, "), cycle(b"data in a cell of all"));
    let both = Shared::new(&[&cell, &script]);
    assert_eq!(line(&both.verify(&pool, transaction(&script, &cell, &canary), |_| {})).as_bytes(), canary);
    let [worker] = workers(&pool, 3)[..] else { panic!("{:?}", workers(&pool, 3)) };
    if ![&canary[..16], &cell[..16]].iter().all(|gone| forgets(worker, gone)) {
        return;
    }
    // The search works: the cell is mapped read-only.
    assert_ne!(find(worker, &cell[..16], "r-"), Some(Vec::new()));
    assert_ne!(find(std::process::id(), &canary[..16], "rw"), Some(Vec::new()));
}
