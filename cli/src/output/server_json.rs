//! JSON output of commands that query a server.

use antares_proto::v1;
use serde::Serialize;

use crate::output::json::FunctionShape;

/// `antares ls`.
#[derive(Debug, Serialize)]
pub(crate) struct RanShape<'a> {
    pub(crate) scripts: Vec<RanScript<'a>>,
}

/// A script that ran; none for all transactions together.
#[derive(Debug, Serialize)]
pub(crate) struct RanScript<'a> {
    /// As `sha256`; the key of earlier versions.
    script: Option<&'a str>,
    sha256: Option<&'a str>,
    cycles: u64,
    runs: u64,
}

impl<'a> RanScript<'a> {
    pub(crate) fn of(ran: &'a v1::ProfiledScript) -> Self {
        let script = Some(ran.script.as_str()).filter(|script| !script.is_empty());
        Self { script, sha256: script, cycles: ran.cycles, runs: ran.runs }
    }
}

/// `antares ls --stored`.
#[derive(Debug, Serialize)]
pub(crate) struct StoredShape {
    pub(crate) stored: Vec<StoredEntry>,
}

/// What is stored under a key.
#[derive(Debug, Serialize)]
pub(crate) struct StoredEntry {
    pub(crate) key: String,
    pub(crate) size_bytes: u64,
    pub(crate) pinned: bool,
    pub(crate) used: bool,
}

/// `antares stat`.
#[derive(Debug, Serialize)]
pub(crate) struct StatShape {
    /// As `sha256`; the key of earlier versions.
    pub(crate) script: String,
    pub(crate) sha256: String,
    /// None if it is not stored.
    pub(crate) size_bytes: Option<u64>,
    pub(crate) runs: u64,
    pub(crate) cycles: u64,
}

/// `antares health`.
#[derive(Debug, Serialize)]
pub(crate) struct HealthShape<'a> {
    pub(crate) serving: bool,
    pub(crate) services: Vec<ServiceShape<'a>>,
}

/// A service; `all` is the server as a whole.
#[derive(Debug, Serialize)]
pub(crate) struct ServiceShape<'a> {
    pub(crate) name: &'a str,
    pub(crate) serving: bool,
}

/// `antares top`.
#[derive(Debug, Serialize)]
pub(crate) struct TopShape<'a> {
    pub(crate) cycles: u64,
    pub(crate) functions: Vec<FunctionShape<'a>>,
}

impl<'a> TopShape<'a> {
    pub(crate) fn of(answer: &'a v1::TopFunctionsResponse) -> Self {
        let functions = answer.functions.iter().map(|row| FunctionShape {
            name: &row.name,
            file: None,
            self_cycles: row.self_cycles,
            total_cycles: row.total_cycles,
        });
        Self { cycles: answer.cycles, functions: functions.collect() }
    }
}
