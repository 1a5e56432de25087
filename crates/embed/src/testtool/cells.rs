//! The cells of a context, for ckb's resolution of transactions.

use ckb_testtool::context::Context;
use ckb_types::{
    core::{
        cell::{CellMetaBuilder, CellProvider, CellStatus, HeaderChecker},
        error::OutPointError,
    },
    packed::{Byte32, OutPoint},
};

pub(crate) struct Cells<'a>(pub(crate) &'a Context);

impl CellProvider for Cells<'_> {
    fn cell(&self, out_point: &OutPoint, _eager_load: bool) -> CellStatus {
        let Some((output, data)) = self.0.get_cell(out_point) else { return CellStatus::Unknown };
        let meta = CellMetaBuilder::from_cell_output(output, data).out_point(out_point.clone());
        CellStatus::live_cell(match self.0.transaction_infos.get(out_point) {
            Some(info) => meta.transaction_info(info.clone()).build(),
            None => meta.build(),
        })
    }
}

impl HeaderChecker for Cells<'_> {
    /// Accepts all headers: in a context, scripts themselves detect a missing header.
    fn check_valid(&self, _: &Byte32) -> Result<(), OutPointError> {
        Ok(())
    }
}
