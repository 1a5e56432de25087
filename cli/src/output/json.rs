//! What commands print with `--json` beside reports and verdicts: one object on one line, with keys that are
//! a contract.

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

/// A function, by what was spent in it, and in it with all that it called.
#[derive(Debug, Serialize)]
pub(crate) struct FunctionShape<'a> {
    pub(crate) name: &'a str,
    /// None where it is not known, or a server does not tell.
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

/// A function that costs something else than before.
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
    pub(crate) findings: Vec<FindingShape<'a>>,
    pub(crate) groups: Vec<GroupShape<'a>>,
}

/// Findings of one rule with the same thing to try.
#[derive(Debug, Serialize)]
pub(crate) struct GroupShape<'a> {
    rule: &'static str,
    cycles: u64,
    /// None where nobody can tell.
    saves_cycles: Option<u64>,
    advice: &'a str,
    measured: Option<&'static str>,
    spots: Vec<SpotShape<'a>>,
}

/// A place of a group.
#[derive(Debug, Serialize)]
pub(crate) struct SpotShape<'a> {
    function: &'a str,
    place: Option<&'a str>,
    address: Option<u64>,
    cycles: u64,
    saves_cycles: Option<u64>,
    why: &'a str,
}

impl<'a> GroupShape<'a> {
    pub(crate) fn of(group: &'a FindingGroup) -> Self {
        let spot = |spot: &'a Finding| SpotShape {
            function: &spot.function,
            place: spot.place.as_deref(),
            address: spot.address,
            cycles: spot.cycles,
            saves_cycles: spot.saves,
            why: &spot.why,
        };
        Self {
            rule: group.rule.into_str(),
            cycles: group.cycles,
            saves_cycles: group.saves,
            advice: &group.advice,
            measured: group.measured,
            spots: group.spots.iter().map(spot).collect(),
        }
    }
}

/// A finding.
#[derive(Debug, Serialize)]
pub(crate) struct FindingShape<'a> {
    rule: &'static str,
    function: &'a str,
    place: Option<&'a str>,
    address: Option<u64>,
    cycles: u64,
    why: &'a str,
    advice: &'a str,
    measured: Option<&'static str>,
    /// None where nobody can tell.
    saves_cycles: Option<u64>,
}

impl<'a> FindingShape<'a> {
    pub(crate) fn of(finding: &'a Finding) -> Self {
        Self {
            rule: finding.rule.into_str(),
            function: &finding.function,
            place: finding.place.as_deref(),
            address: finding.address,
            cycles: finding.cycles,
            why: &finding.why,
            advice: &finding.advice,
            measured: finding.measured,
            saves_cycles: finding.saves,
        }
    }
}

/// Prints one object on one line.
pub(crate) fn print(shape: &impl Serialize) -> Result<(), Failure> {
    // Cannot fail: shapes have no maps and no types of others.
    let mut json = serde_json::to_string(shape).unwrap_or_default();
    json.push('\n');
    output::print(output::printable(&json).as_bytes())
}
