//! Transactions on the native machine, as in the sandboxed run worker.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use antares_abi::{CompileOptions, Isa, Seen};
use antares_transaction::{CellFields, DepFields, Environment, Fields, Mock, programs};
use antares_verifier::{Engine, Prepared, TierCycles};
use antares_vm::{MachineSession, NativeMachine, Program, Recording, Sampling, Tier, Unknown};
use anyhow::{Context, Result};
use bytes::Bytes;
use ckb_chain_spec::consensus::{Consensus, ConsensusBuilder};
use ckb_mock_tx_types::{MockTransaction, Resource};
use ckb_script::{TransactionScriptsVerifier, TxVerifyEnv, types::DebugPrinter};
use ckb_types::{
    core::{EpochNumberWithFraction, HeaderView, ScriptHashType, cell::resolve_transaction},
    packed::{Byte32, CellDep, CellInput, CellOutput, OutPoint, RawTransaction, Script, Transaction},
    prelude::*,
};

use crate::kept;

/// The machine of antares-vm as an engine.
#[derive(Clone)]
pub struct Native {
    session: Arc<MachineSession>,
    samples: Arc<Mutex<Vec<Recording>>>,
    unknown: Arc<Mutex<Vec<Unknown>>>,
}

impl Native {
    /// An engine with native code of the programs among the cells of `mock`, compiled or from the cache.
    ///
    /// # Errors
    /// The compiler failed. Programs that it refuses are interpreted.
    pub fn new(mock: &Mock, prepared: &Prepared, environment: &Environment, tier: Tier) -> Result<Self> {
        let mut compiled = Vec::new();
        for candidate in programs(mock, environment) {
            // Use the same buffer that ckb-script loads, so that comparing addresses shows that the bytes are
            // equal.
            let elf = prepared.find_data(&candidate.data_hash).unwrap_or(candidate.elf);
            for vm_version in candidate.vm_versions {
                let options = CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
                let Ok(library) = kept::library(&elf, options)? else { continue };
                compiled.extend(Program::new(elf.clone(), library).map(Arc::new));
            }
        }
        Ok(Self {
            session: MachineSession::new(tier, compiled),
            samples: Arc::default(),
            unknown: Arc::default(),
        })
    }

    /// An engine with native code of `programs`.
    #[must_use]
    pub fn of(tier: Tier, programs: Vec<Arc<Program>>) -> Self {
        Self {
            session: MachineSession::new(tier, programs),
            samples: Arc::default(),
            unknown: Arc::default(),
        }
    }

    /// Makes the engine, which must not be shared yet, report all code loaded at run time.
    #[must_use]
    pub fn telling_of_loaded_code(self) -> Self {
        Self { session: self.session.reporting_loaded_code_from(0), ..self }
    }

    /// Makes the engine, which must not be shared yet, copy VMs when they are suspended.
    #[must_use]
    pub fn copying(self) -> Self {
        Self { session: self.session.copying(), ..self }
    }

    /// Makes the engine, which must not be shared yet, sample its script groups.
    #[must_use]
    pub fn sampled(self, sampling: Sampling) -> Self {
        Self { session: self.session.sampled(sampling), ..self }
    }

    /// Programs without native code that were run; clears the list.
    #[must_use]
    pub fn unknown(&self) -> Vec<Unknown> {
        std::mem::take(&mut *self.unknown.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Addresses that programs reached without native code for them; clears the list.
    #[must_use]
    pub fn seen(&self) -> Vec<(Arc<Program>, Seen)> {
        self.session.take_seen()
    }

    /// Samples by script group; clears the list.
    #[must_use]
    pub fn samples(&self) -> Vec<Recording> {
        std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Engine for Native {
    type Machine = NativeMachine;

    fn attempt<T>(&self, attempt: impl FnMut() -> T) -> T {
        self.session.attempt(attempt)
    }

    fn take_counts(&self) -> Option<TierCycles> {
        let sampled = self.session.take_samples(0);
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).extend(sampled);
        let mut counts = self.session.take_counts();
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner).append(&mut counts.unknown);
        let (native_cycles, interpreted_cycles) = (counts.native_cycles, counts.interpreted_cycles);
        let restarted = counts.restarted.map(|reason| reason.name());
        Some(TierCycles { native_cycles, interpreted_cycles, restarted })
    }
}

/// A transaction with one input, whose lock is the code in the first of `deps`, referenced by `hash_type`.
///
/// # Errors
/// `deps` is empty.
pub fn locked_by(deps: &[Bytes], hash_type: ScriptHashType) -> Result<Mock> {
    let code = deps.first().context("no code")?;
    let lock = Script::new_builder().code_hash(CellOutput::calc_data_hash(code)).hash_type(hash_type).build();
    let points: Vec<OutPoint> = (0..deps.len())
        .map(|index| OutPoint::new(Byte32::zero(), u32::try_from(index).unwrap_or(u32::MAX)))
        .collect();
    let input = CellOutput::new_builder().lock(lock).build();
    let cells: Vec<CellDep> =
        points.iter().map(|point| CellDep::new_builder().out_point(point.clone()).build()).collect();
    let spent = CellInput::new(OutPoint::new(Byte32::zero(), u32::MAX - 1), 0);
    let raw = RawTransaction::new_builder().cell_deps(cells.pack()).inputs(vec![spent].pack()).build();
    let tx = Transaction::new_builder().raw(raw).build();
    let nobody = CellOutput::default();
    let fields = Fields {
        tx: tx.as_slice(),
        inputs: vec![CellFields { output: input.as_slice(), ..CellFields::default() }],
        cell_deps: points
            .iter()
            .zip(deps)
            .map(|(point, data)| DepFields {
                out_point: point.as_slice(),
                cell_dep: None,
                cell: CellFields { output: nobody.as_slice(), data: data[..].into(), block_hash: None },
            })
            .collect(),
        ..Fields::default()
    };
    Ok(Mock::from_molecule(&fields, &[])?)
}

/// Cycles of a transaction by ckb-script itself.
///
/// # Errors
/// ckb-script does not accept it, or a cell is missing.
pub fn by_ckb_script(
    mock: &MockTransaction,
    environment: &Environment,
    cycles_max: u64,
) -> Result<u64, String> {
    let resource = Resource::from_mock_tx(mock)?;
    let resolved = resolve_transaction(mock.core_transaction(), &mut HashSet::new(), &resource, &resource)
        .map_err(|error| error.to_string())?;
    let epoch = EpochNumberWithFraction::new(environment.epoch, 0, 1);
    let header = HeaderView::new_advanced_builder().epoch(epoch).build();
    let quiet: DebugPrinter = Arc::new(|_, _| {});
    let verifier: TransactionScriptsVerifier<Resource> = TransactionScriptsVerifier::new_with_debug_printer(
        Arc::new(resolved),
        resource,
        consensus(environment),
        Arc::new(TxVerifyEnv::new_commit(&header)),
        quiet,
    );
    verifier.verify(cycles_max).map_err(|error| error.to_string())
}

/// The consensus rules, which take a while to make.
fn consensus(environment: &Environment) -> Arc<Consensus> {
    static MADE: LazyLock<Mutex<HashMap<[u64; 2], Arc<Consensus>>>> = LazyLock::new(Mutex::default);
    let make = || Arc::new(ConsensusBuilder::default().hardfork_switch(environment.hard_forks()).build());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry([environment.vm_1_epoch, environment.vm_2_epoch]).or_insert_with(make).clone()
}
