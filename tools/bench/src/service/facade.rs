//! Transactions by the crate `antares` in this process, compared with ckb-script and its assembly machine:
//! the same resolved transactions, loop and number of threads. Each verification sorts the scripts into
//! groups anew, as in a node.

use std::{collections::HashSet, sync::Arc, time::Duration};

use antares::{Engine, VmVersion};
use antares_transaction::{Environment, Mock, programs};
use anyhow::{Context, Result, anyhow, ensure};
use bytes::Bytes;
use ckb_chain_spec::consensus::{Consensus, ConsensusBuilder};
use ckb_mock_tx_types::Resource;
use ckb_script::{TransactionScriptsVerifier, TxVerifyEnv, types::DebugPrinter};
use ckb_traits::{CellDataProvider, ExtensionProvider, HeaderProvider};
use ckb_types::{
    core::{
        EpochNumberWithFraction, HeaderView,
        cell::{ResolvedTransaction, resolve_transaction},
    },
    packed::{Byte32, OutPoint},
};

use super::{
    Results,
    transactions::{Case, ROUNDS, THREADS, cases, rate},
};

const CYCLES_MAX: u64 = 3_500_000_000;

/// Cells and headers, shared without copies.
#[derive(Clone)]
struct Cells(Arc<Resource>);

impl CellDataProvider for Cells {
    fn get_cell_data(&self, out_point: &OutPoint) -> Option<Bytes> {
        self.0.get_cell_data(out_point)
    }

    fn get_cell_data_hash(&self, out_point: &OutPoint) -> Option<Byte32> {
        self.0.get_cell_data_hash(out_point)
    }
}

impl HeaderProvider for Cells {
    fn get_header(&self, hash: &Byte32) -> Option<HeaderView> {
        self.0.get_header(hash)
    }
}

impl ExtensionProvider for Cells {
    fn get_block_extension(&self, hash: &Byte32) -> Option<ckb_types::packed::Bytes> {
        self.0.get_block_extension(hash)
    }
}

/// A transaction in the types of ckb's crates, and an engine with native code of its scripts.
struct Resolved {
    transaction: Arc<ResolvedTransaction>,
    cells: Cells,
    consensus: Arc<Consensus>,
    env: Arc<TxVerifyEnv>,
    engine: Engine,
}

impl Resolved {
    fn new(mock: &Mock) -> Result<Self> {
        let resource = Resource::from_mock_tx(mock.as_ckb()).map_err(|problem| anyhow!(problem))?;
        let core = mock.as_ckb().core_transaction();
        let transaction = resolve_transaction(core, &mut HashSet::new(), &resource, &resource)?;
        let environment = Environment::default();
        let consensus = ConsensusBuilder::default().hardfork_switch(environment.hard_forks()).build();
        let epoch = EpochNumberWithFraction::new(environment.epoch, 0, 1);
        let header = HeaderView::new_advanced_builder().epoch(epoch).build();
        let engine = Engine::new();
        for program in programs(mock, &environment) {
            for version in program.vm_versions {
                let version = [VmVersion::V0, VmVersion::V1, VmVersion::V2][usize::try_from(version)?];
                // Refused programs are interpreted; the share of native code shows it.
                drop(engine.compile(program.elf.clone(), version));
            }
        }
        Ok(Self {
            transaction: Arc::new(transaction),
            cells: Cells(Arc::new(resource)),
            consensus: Arc::new(consensus),
            env: Arc::new(TxVerifyEnv::new_commit(&header)),
            engine,
        })
    }

    fn ours(&self) -> Result<antares::Verdict> {
        let Self { transaction, cells, consensus, env, engine } = self;
        let verifier = antares::Verifier::new(
            engine,
            transaction.clone(),
            cells.clone(),
            consensus.clone(),
            env.clone(),
        );
        verifier.verify(CYCLES_MAX).map_err(|error| anyhow!("{error}"))
    }

    fn theirs(&self) -> Result<u64> {
        let quiet: DebugPrinter = Arc::new(|_, _| {});
        let Self { transaction, cells, consensus, env, .. } = self;
        let verifier: TransactionScriptsVerifier<Cells> = TransactionScriptsVerifier::new_with_debug_printer(
            transaction.clone(),
            cells.clone(),
            consensus.clone(),
            env.clone(),
            quiet,
        );
        verifier.verify(CYCLES_MAX).map_err(|error| anyhow!("{error}"))
    }
}

pub(super) fn measure(time: Duration, results: &mut Results) -> Result<()> {
    for Case { name, mock, .. } in cases()? {
        let case = Resolved::new(&mock).context(name)?;
        let (ours, theirs) = (case.ours()?, case.theirs()?);
        ensure!(ours.cycles == theirs, "{name}: cycles differ");
        ensure!(ours.native_cycles * 20 >= ours.cycles * 19, "{name}: not by native code: {ours:?}");
        let mut alone = None;
        for threads in THREADS {
            let (mut our_rate, mut their_rate) = (0.0, 0.0);
            for _ in 0..ROUNDS {
                our_rate += rate(threads, time / ROUNDS, |_| case.ours().map(drop))?;
                their_rate += rate(threads, time / ROUNDS, |_| case.theirs().map(drop))?;
            }
            let rounds = f64::from(ROUNDS);
            results.record(format!("{name}_facade_{threads}_threads"), our_rate / rounds, "/s");
            results.record(format!("{name}_facade_library_{threads}_threads"), their_rate / rounds, "/s");
            results.record(format!("{name}_facade_over_library_{threads}"), our_rate / their_rate, "");
            results.record(
                format!("{name}_facade_{threads}_over_1"),
                our_rate / *alone.get_or_insert(our_rate),
                "",
            );
        }
    }
    Ok(())
}
