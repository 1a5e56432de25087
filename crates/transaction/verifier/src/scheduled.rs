//! Creates the scheduler of one script group with custom machines and system calls.

use ckb_script::{Scheduler, types::SyscallGenerator};
use ckb_vm::DefaultMachineRunner;

use crate::{
    CellName, Cells, GroupKind, PrepareError, Prepared,
    verify::{script_hash, scripts_of},
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
) -> Result<Scheduled<V, M>, PrepareError> {
    let scripts = scripts_of::<_, M>(prepared, generate, context);
    let hash = script_hash(&scripts, kind, cell)?;
    let Some(group) = scripts.find_script_group(kind.into(), &hash) else {
        return Ok(Scheduled::NotBegun(format!("there is no script {hash}")));
    };
    Ok(match scripts.create_scheduler(group) {
        Ok(scheduler) => Scheduled::Ready(Box::new(scheduler)),
        Err(error) => Scheduled::NotBegun(error.to_string()),
    })
}

impl<V: Clone, M: DefaultMachineRunner> std::fmt::Debug for Scheduled<V, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready(_) => f.write_str("Ready"),
            Self::NotBegun(why) => f.debug_tuple("NotBegun").field(why).finish(),
        }
    }
}
