//! Converts selections and reports to the form that processes exchange.

use antares_hosted::job::{self, Lines, Omitted, VerifyOutcome};

use crate::{CellName, GroupKind, GroupReport, Selection, TransactionOutcome, TransactionReport};

impl From<job::GroupKind> for GroupKind {
    fn from(kind: job::GroupKind) -> Self {
        match kind {
            job::GroupKind::Lock => Self::Lock,
            job::GroupKind::Type => Self::Type,
        }
    }
}

impl From<GroupKind> for job::GroupKind {
    fn from(kind: GroupKind) -> Self {
        match kind {
            GroupKind::Lock => Self::Lock,
            GroupKind::Type => Self::Type,
        }
    }
}

impl From<job::CellName> for CellName {
    fn from(cell: job::CellName) -> Self {
        let index = |index: u32| usize::try_from(index).unwrap_or(usize::MAX);
        match cell {
            job::CellName::Input(input) => Self::Input(index(input)),
            job::CellName::Output(output) => Self::Output(index(output)),
        }
    }
}

impl From<Option<(job::GroupKind, job::CellName)>> for Selection {
    fn from(group: Option<(job::GroupKind, job::CellName)>) -> Self {
        group.map_or(Self::All, |(kind, cell)| Self::Group { kind: kind.into(), cell: cell.into() })
    }
}

impl TransactionOutcome {
    /// The transfer form; `None` if the group was cancelled.
    #[must_use]
    pub fn to_wire(self) -> Option<VerifyOutcome> {
        match self {
            Self::Ok => Some(VerifyOutcome::Ok),
            Self::Failed => Some(VerifyOutcome::Failed),
            Self::NotRun => Some(VerifyOutcome::NotRun),
            Self::Cancelled => None,
        }
    }
}

impl TransactionReport {
    /// The transfer form of all groups; `None` if one was cancelled.
    #[must_use]
    pub fn into_wire_groups(self) -> Option<Vec<job::GroupReport>> {
        self.groups.into_iter().map(GroupReport::into_wire).collect()
    }
}

impl GroupReport {
    fn into_wire(self) -> Option<job::GroupReport> {
        let indices = |indices: Vec<usize>| -> Vec<u32> {
            indices.into_iter().map(|index| u32::try_from(index).unwrap_or(u32::MAX)).collect()
        };
        let left_out = Omitted { lines: self.debug_lines_left_out, bytes: self.debug_bytes_left_out };
        Some(job::GroupReport {
            script_hash: self.script_hash,
            kind: self.kind.into(),
            outcome: self.outcome.to_wire()?,
            exit_code: self.exit_code,
            error: self.error.map(|error| job::GroupError {
                kind: error.name.to_owned(),
                vm_error: error.vm_error.map(ToOwned::to_owned),
                source: error.source,
                detail: error.detail,
            }),
            cycles: self.cycles,
            native_cycles: self.counts.native_cycles,
            interpreted_cycles: self.counts.interpreted_cycles,
            restarted: self.counts.restarted.map(ToOwned::to_owned),
            debug: Lines::from(self.debug).and_omitted(left_out),
            inputs: indices(self.inputs),
            outputs: indices(self.outputs),
        })
    }
}
