//! A test as ckb-testtool has them, with one `use` and one method of Antares.

use antares::Engine;
use antares::testtool::ContextExt as _;
use ckb_testtool::{
    builtin::ALWAYS_SUCCESS,
    ckb_types::{
        bytes::Bytes,
        core::TransactionBuilder,
        packed::{CellInput, CellOutput},
        prelude::*,
    },
    context::Context,
};

#[test]
fn a_lock_that_always_opens() {
    let mut context = Context::default();
    let code = context.deploy_cell(ALWAYS_SUCCESS.clone());
    let lock = context.build_script(&code, Bytes::new()).expect("the code is there");
    let cell = CellOutput::new_builder().capacity(100_000_000_000u64).lock(lock).build();
    let input = context.create_cell(cell.clone(), Bytes::new());
    let tx = TransactionBuilder::default()
        .input(CellInput::new_builder().previous_output(input).build())
        .output(cell)
        .output_data(Bytes::new().pack())
        .build();
    let tx = context.complete_tx(tx);

    let engine = Engine::compiling_on_use();
    let cycles = context.verify_tx_with(&engine, &tx, 10_000_000).expect("it passes");
    assert_eq!(cycles, context.verify_tx(&tx, 10_000_000).expect("it passes"));
}
