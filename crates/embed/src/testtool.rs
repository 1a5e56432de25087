//! Native code for tests that use ckb-testtool.
//!
//! ```
//! use antares::Engine;
//! use antares::testtool::ContextExt;
//! use ckb_testtool::{ckb_types::core::TransactionView, context::Context};
//!
//! # fn test(context: &Context, tx: &TransactionView) {
//! let engine = Engine::compiling_on_use();
//! let cycles = context.verify_tx_with(&engine, tx, 70_000_000).expect("it passes");
//! # }
//! ```
//! Verdicts, errors and cycles equal those of `Context::verify_tx`. With one engine for all tests of a
//! program, each script is compiled once.

use std::sync::Arc;

use ckb_chain_spec::consensus::ConsensusBuilder;
use ckb_error::Error;
use ckb_script::TxVerifyEnv;
use ckb_testtool::context::Context;
use ckb_types::{
    core::{
        Cycle, DepType, HeaderBuilder, TransactionView,
        cell::{CellMetaBuilder, ResolvedTransaction},
        error::OutPointError,
        hardfork::{CKB2021, CKB2023, HardForks},
    },
    packed::{Byte32, OutPoint, OutPointVec},
    prelude::*,
};
use ckb_verification::TransactionError;

use crate::{Engine, Verifier};

/// Extension of ckb-testtool's context.
pub trait ContextExt {
    /// As `Context::verify_tx`, with native code from `engine`. Prints debug output like `verify_tx`.
    ///
    /// # Errors
    /// Errors of `Context::verify_tx`, or a missing cell.
    #[allow(clippy::print_stdout, reason = "as ckb-testtool does")]
    fn verify_tx_with(
        &self,
        engine: &Engine,
        tx: &TransactionView,
        max_cycles: Cycle,
    ) -> Result<Cycle, Error> {
        self.verify_tx_with_debug(engine, tx, max_cycles, |_, line| println!("[contract debug] {line}"))
    }

    /// As [`ContextExt::verify_tx_with`], but passes each line of debug output to `debug`, with the hash of
    /// the script group.
    ///
    /// # Errors
    /// As [`ContextExt::verify_tx_with`].
    fn verify_tx_with_debug(
        &self,
        engine: &Engine,
        tx: &TransactionView,
        max_cycles: Cycle,
        debug: impl Fn(&Byte32, &str) + Send + Sync + 'static,
    ) -> Result<Cycle, Error>;
}

impl ContextExt for Context {
    fn verify_tx_with_debug(
        &self,
        engine: &Engine,
        tx: &TransactionView,
        max_cycles: Cycle,
        debug: impl Fn(&Byte32, &str) + Send + Sync + 'static,
    ) -> Result<Cycle, Error> {
        let (outputs_len, outputs_data_len) = (tx.outputs().len(), tx.outputs_data().len());
        if outputs_len != outputs_data_len {
            return Err(TransactionError::OutputsDataLengthMismatch { outputs_len, outputs_data_len }.into());
        }
        let resolved = Arc::new(resolve(self, tx)?);
        let forks = HardForks { ckb2021: CKB2021::new_dev_default(), ckb2023: CKB2023::new_dev_default() };
        let consensus = Arc::new(ConsensusBuilder::default().hardfork_switch(forks).build());
        let tip = HeaderBuilder::default().number(0).build();
        let env = Arc::new(TxVerifyEnv::new_submit(&tip));
        let verifier = Verifier::with_debug(engine, resolved, self.clone(), consensus, env, debug);
        verifier.verify(max_cycles).map(|verdict| verdict.cycles)
    }
}

/// Finds the cells of `tx`. As in ckb-testtool, cells may occur twice, and scripts detect missing headers.
fn resolve(context: &Context, tx: &TransactionView) -> Result<ResolvedTransaction, OutPointError> {
    let cell = |out_point: OutPoint| {
        let found = context.get_cell(&out_point).ok_or_else(|| OutPointError::Unknown(out_point.clone()));
        let meta = found.map(|(output, data)| CellMetaBuilder::from_cell_output(output, data))?;
        let mut meta = meta.out_point(out_point.clone()).build();
        meta.transaction_info = context.transaction_infos.get(&out_point).cloned();
        Ok(meta)
    };
    let resolved_inputs = tx.input_pts_iter().map(cell).collect::<Result<_, _>>()?;
    let (mut resolved_cell_deps, mut resolved_dep_groups) = (Vec::new(), Vec::new());
    for dep in tx.cell_deps_iter() {
        let found = cell(dep.out_point())?;
        if dep.dep_type() != DepType::DepGroup.into() {
            resolved_cell_deps.push(found);
            continue;
        }
        let members = OutPointVec::from_slice(found.mem_cell_data.as_deref().unwrap_or_default());
        for member in members.map_err(|_| OutPointError::InvalidDepGroup(dep.out_point()))? {
            resolved_cell_deps.push(cell(member)?);
        }
        resolved_dep_groups.push(found);
    }
    Ok(ResolvedTransaction {
        transaction: tx.clone(),
        resolved_cell_deps,
        resolved_inputs,
        resolved_dep_groups,
    })
}
