//! Checks reports on compiles. The output itself is measured, hashed and checked separately.

use antares_abi::CompileLimits;

use super::{Checked, TEXT_BYTES_MAX, ensure};
use crate::job::{CompileReport, CompileSummary, CompileTask};

/// Maximum times that a byte of code counts: blocks of several functions may share it.
const SHARED_MAX: u64 = 256;

/// Reasons for rejecting a script: messages and stored facts about a script depend on them.
const REFUSALS: [&str; 6] =
    ["elf", "limit_code_bytes", "limit_functions", "limit_blocks", "limit_operations", "options"];
/// Reason for rejecting a library's code.
const CODE: &str = "code";

pub(super) fn check(report: &CompileReport, task: CompileTask, limits: &CompileLimits) -> Checked {
    match report {
        CompileReport::Done(summary) => check_summary(summary, limits),
        CompileReport::Refused { reason, detail } => {
            let is_reason = match task {
                CompileTask::Check => reason == CODE,
                CompileTask::Compile(_) | CompileTask::Link => REFUSALS.contains(&&**reason),
            };
            ensure(is_reason, "a refusal for no reason that there is")?;
            ensure(detail.len() <= TEXT_BYTES_MAX, "too long a text")
        }
        CompileReport::Failed { detail } => ensure(detail.len() <= TEXT_BYTES_MAX, "too long a text"),
    }
}

fn check_summary(summary: &CompileSummary, limits: &CompileLimits) -> Checked {
    let code_bytes_max = limits.code_bytes_max.saturating_mul(SHARED_MAX);
    ensure(summary.guest_code_bytes <= code_bytes_max, "more code than the limit")?;
    ensure(summary.functions <= limits.functions_max, "more functions than the limit")?;
    ensure(summary.blocks <= limits.blocks_max, "more blocks than the limit")?;
    ensure(summary.unproved_functions <= limits.functions_max, "more functions unproved than there are")?;
    ensure(summary.refused_orders <= limits.operations_max, "more orders refused than there are blocks")
}
