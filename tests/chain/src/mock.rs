//! Scripts of a few instructions, and mock transactions that run them.

use ckb_mock_tx_types::{MockCellDep, MockInfo, MockInput, MockTransaction, ReprMockTransaction};
use ckb_types::{
    bytes::Bytes,
    core::ScriptHashType,
    packed::{Byte32, CellDep, CellInput, CellOutput, OutPoint, Transaction},
    prelude::*,
};

use super::Chain;

/// An ELF with one executable segment, whose entry is the first instruction of `code`.
#[must_use]
pub fn elf(code: &[u32]) -> Vec<u8> {
    const BASE: u64 = 0x10000;
    let size = 120 + 4 * code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
    elf.extend([BASE + 120, 64, 0].into_iter().flat_map(u64::to_le_bytes));
    elf.extend([1, 64 | 56 << 16, 1, 0].into_iter().flat_map(u32::to_le_bytes));
    elf.extend([1, 5].into_iter().flat_map(u32::to_le_bytes));
    elf.extend([0, BASE, BASE, size, size, 0x1000].into_iter().flat_map(u64::to_le_bytes));
    elf.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    elf
}

/// A script that exits with `code`.
#[must_use]
pub fn exits(code: u8) -> Vec<u8> {
    // addi a7, zero, 93; addi a0, zero, code; ecall
    elf(&[0x05d0_0893, u32::from(code) << 20 | 0x513, 0x73])
}

/// A transaction with one input, whose lock is the code in the first of `deps`, referenced by `hash_type`.
#[must_use]
pub fn locked_by(deps: &[Bytes], hash_type: ScriptHashType) -> MockTransaction {
    let place = |index: usize| OutPoint::new(Byte32::zero(), u32::try_from(index).unwrap());
    let cell_dep = |(index, data): (usize, &Bytes)| MockCellDep {
        cell_dep: CellDep::new_builder().out_point(place(index)).build(),
        output: CellOutput::default(),
        data: data.clone(),
        header: None,
    };
    let cell_deps: Vec<_> = deps.iter().enumerate().map(cell_dep).collect();
    let input = CellInput::new(place(deps.len()), 0);
    let raw = Transaction::default().raw().as_builder().inputs(vec![input.clone()]);
    let raw = raw.cell_deps(cell_deps.iter().map(|dep| dep.cell_dep.clone()).collect::<Vec<_>>()).build();
    let output = Chain::locked(&deps[0], hash_type);
    let inputs = vec![MockInput { input, output, data: Bytes::new(), header: None }];
    let mock_info = MockInfo { inputs, cell_deps, ..MockInfo::default() };
    MockTransaction { mock_info, tx: Transaction::new_builder().raw(raw).build() }
}

/// A transaction in ckb-debugger's JSON.
#[must_use]
pub fn json(mock: MockTransaction) -> Vec<u8> {
    serde_json::to_vec(&ReprMockTransaction::from(mock)).unwrap()
}
