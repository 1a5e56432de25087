//! Creates the scheduler of one script group with custom machines and system calls.

use ckb_script::{Scheduler, types::SyscallGenerator};
use ckb_vm::DefaultMachineRunner;

use crate::{
    CellName, Cells, GroupKind, Prepared, VerifyError,
    verify::{group_of, scripts_of},
};

/// The scheduler of a group, if it can start.
pub enum Scheduled<V: Clone, M: DefaultMachineRunner> {
    /// The scheduler, which has run nothing yet.
    Ready(Box<Scheduler<Cells, V, M>>),
    /// The group has no script that can start.
    NotBegun(String),
}

/// Creates the scheduler of a group of `prepared`, with machines of type `M` and system calls that `generate`
/// creates from `context`.
///
/// # Errors
/// If there is no such group.
pub fn scheduler<V: Clone, M: DefaultMachineRunner>(
    prepared: Prepared,
    (kind, cell): (GroupKind, CellName),
    generate: SyscallGenerator<Cells, V, M::Inner>,
    context: V,
) -> Result<Scheduled<V, M>, VerifyError> {
    let scripts = scripts_of::<_, M>(prepared, generate, context);
    let (_, group) = group_of(&scripts, kind, cell)?;
    Ok(match scripts.create_scheduler(group) {
        Ok(scheduler) => Scheduled::Ready(Box::new(scheduler)),
        Err(error) => Scheduled::NotBegun(error.to_string()),
    })
}
