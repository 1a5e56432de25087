//! Output of `--json` other than reports and verdicts: one object on one line, whose keys are a contract.

use antares_analysis::insights::{Finding, FindingGroup};
use antares_profile_view::{Change, Row};
use serde::Serialize;

use crate::{failure::Failure, output};

/// `antares profile`.
#[derive(Debug, Serialize)]
pub(crate) struct ProfileShape<'a> {
    pub(crate) outcome: &'a str,
    pub(crate) cycles: u64,
    pub(crate) functions: Vec<FunctionShape<'a>>,
}

/// A function, with its self cost and its total cost.
#[derive(Debug, Serialize)]
pub(crate) struct FunctionShape<'a> {
    pub(crate) name: &'a str,
    /// None if it is unknown, or a server does not reveal it.
    pub(crate) file: Option<&'a str>,
    pub(crate) self_cycles: u64,
    pub(crate) total_cycles: u64,
}

impl<'a> FunctionShape<'a> {
    pub(crate) fn of(row: &'a Row) -> Self {
        let file = Some(row.file.as_str()).filter(|file| !file.is_empty());
        Self { name: &row.name, file, self_cycles: row.own.cycles, total_cycles: row.total.cycles }
    }
}

/// `antares profile diff`.
#[derive(Debug, Serialize)]
pub(crate) struct DiffShape<'a> {
    pub(crate) before_cycles: u64,
    pub(crate) after_cycles: u64,
    pub(crate) functions: Vec<ChangeShape<'a>>,
}

/// A function whose cost changed.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeShape<'a> {
    name: &'a str,
    before_cycles: u64,
    after_cycles: u64,
}

impl<'a> ChangeShape<'a> {
    pub(crate) fn of(change: &'a Change) -> Self {
        let Change { name, before, after } = change;
        Self { name, before_cycles: before.cycles, after_cycles: after.cycles }
    }
}

/// `antares insights`.
#[derive(Debug, Serialize)]
pub(crate) struct InsightsShape<'a> {
    pub(crate) outcome: &'a str,
    pub(crate) cycles: u64,
    pub(crate) findings: &'a [Finding],
    pub(crate) groups: &'a [FindingGroup],
}

/// Prints one object on one line.
pub(crate) fn print(shape: &impl Serialize) -> Result<(), Failure> {
    // Cannot fail: shapes have no maps or foreign types.
    let mut json = serde_json::to_string(shape).unwrap_or_default();
    json.push('\n');
    output::print(output::printable(&json).as_bytes())
}
