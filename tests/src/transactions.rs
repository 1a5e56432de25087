//! Transactions on the native machine, as in the sandboxed run worker.

use std::sync::{Arc, Mutex, PoisonError};

use antares_abi::{CompileOptions, Isa, Seen};
use antares_transaction::{Environment, Mock, programs};
use antares_verifier::{CallsOf, DataPieceId, Engine, PageSources, Prepared, TierCycles};
use antares_vm::{CellLoads, MachineSession, NativeMachine, Program, Recording, Sampling, Tier, Unknown};
use anyhow::Result;
use bytes::Bytes;
use ckb_types::core::ScriptHashType;

use crate::kept;

/// Machines whose memory later transactions of a process use again.
const MACHINES_CACHED: usize = 8;

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
        Ok(Self::of(tier, compiled))
    }

    /// An engine with native code of `programs`.
    #[must_use]
    pub fn of(tier: Tier, programs: Vec<Arc<Program>>) -> Self {
        antares_vm::cache_machines(MACHINES_CACHED);
        antares_vm::cache_cells();
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

    fn cell_loads(sources: PageSources, dep: fn(u32) -> DataPieceId) -> Option<CallsOf<Self>> {
        Some(Box::new(CellLoads::new(sources, dep)))
    }

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

/// [`antares_chain::locked_by`], checked.
///
/// # Errors
/// The transaction is invalid.
pub fn locked_by(deps: &[Bytes], hash_type: ScriptHashType) -> Result<Mock> {
    Ok(Mock::from_json(&antares_chain::json(antares_chain::locked_by(deps, hash_type)))?)
}
