//! Verifies a mock transaction a part at a time, as a node does that has other work to do:
//! `resume TRANSACTION CYCLES`.
#![forbid(unsafe_code)]

use std::{collections::HashSet, env, fs, sync::Arc};

use antares::{Engine, Progress, Verifier};
use ckb_chain_spec::consensus::ConsensusBuilder;
use ckb_mock_tx_types::{MockTransaction, ReprMockTransaction, Resource};
use ckb_script::TxVerifyEnv;
use ckb_types::core::{
    HeaderView,
    cell::resolve_transaction,
    hardfork::{CKB2021, CKB2023, HardForks},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = env::args().skip(1);
    let mut next = || args.next().ok_or("usage: resume TRANSACTION CYCLES");
    let mock: ReprMockTransaction = serde_json::from_slice(&fs::read(next()?)?)?;
    let cycles: u64 = next()?.parse()?;

    let mock: MockTransaction = mock.into();
    let cells = Resource::from_mock_tx(&mock)?;
    let resolved = resolve_transaction(mock.core_transaction(), &mut HashSet::new(), &cells, &cells)?;
    let forks = HardForks { ckb2021: CKB2021::new_dev_default(), ckb2023: CKB2023::new_dev_default() };
    let consensus = ConsensusBuilder::default().hardfork_switch(forks).build();
    let tip = HeaderView::new_advanced_builder().build();
    let env = Arc::new(TxVerifyEnv::new_commit(&tip));

    let engine = Engine::compiling_on_use();
    let verifier = Verifier::new(&engine, Arc::new(resolved), cells, Arc::new(consensus), env);
    let mut verification = verifier.begin(70_000_000);
    let mut parts = 1;
    let verdict = loop {
        match verification.resume(cycles)? {
            Progress::Done(verdict) => break verdict,
            _ => parts += 1,
        }
        // Here a node looks whether something is more urgent.
    };
    println!(
        "accepted in {parts} parts: {} cycles, {} of them native",
        verdict.cycles, verdict.native_cycles
    );
    Ok(())
}
