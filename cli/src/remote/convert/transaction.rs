//! Converts verifications between the command's types and the wire format.

use antares_abi::Sha256Digest;
use antares_pool::job::{self, VerifyOutcome};
use antares_proto::v1::{self, rules::Rules, script_group::Cell, verify_transaction_request::Transaction};
use antares_transaction::Environment;
use anyhow::{Context as _, bail};

use super::{run_limits, server_diagnosis, tier};
use crate::{
    input::verify_request::Request,
    output::verdict::{self, Interpreted, Verdict},
};

/// The call that verifies `request`.
pub(crate) fn verify_request(request: &Request) -> v1::VerifyTransactionRequest {
    let Environment { vm_1_epoch, vm_2_epoch, epoch } = request.environment;
    v1::VerifyTransactionRequest {
        format: v1::TransactionFormat::Unspecified.into(),
        transaction: Some(match request.is_bare {
            true => Transaction::Bare(request.json.clone().into()),
            false => Transaction::MockJson(request.json.clone().into()),
        }),
        rules: Some(v1::Rules {
            rules: Some(Rules::HardForks(v1::HardForks { vm_1_epoch, vm_2_epoch, epoch })),
        }),
        group: request.group.map(group),
        limits: Some(run_limits(request.cycles_max, request.deadline)),
        tier: tier(request.tier).into(),
        request_id: String::new(),
        sample_salt: None,
        recheck: request.recheck,
        diagnosis: request.diagnosis,
    }
}

fn group((kind, cell): (job::GroupKind, job::CellName)) -> v1::ScriptGroup {
    let kind = match kind {
        job::GroupKind::Lock => v1::ScriptKind::Lock,
        job::GroupKind::Type => v1::ScriptKind::Type,
    };
    let cell = match cell {
        job::CellName::Input(index) => Cell::Input(index),
        job::CellName::Output(index) => Cell::Output(index),
    };
    v1::ScriptGroup { kind: kind.into(), cell: Some(cell) }
}

/// The verdict of a response.
pub(crate) fn verdict(response: v1::VerifyTransactionResponse) -> anyhow::Result<Verdict> {
    let outcome = match response.outcome() {
        v1::VerifyOutcome::DeadlineExceeded => {
            let error = "deadline exceeded".to_owned();
            return Ok(Verdict::without_figures(verdict::Outcome::DeadlineExceeded, error));
        }
        v1::VerifyOutcome::SandboxViolation => {
            return Ok(Verdict::without_figures(verdict::Outcome::SandboxViolation, response.detail));
        }
        outcome => self::outcome(outcome)?,
    };
    let timings = response.timings.unwrap_or_default();
    let groups = response.groups.into_iter().map(group_report).collect::<anyhow::Result<_>>()?;
    let reported = response.diagnosis.map(server_diagnosis);
    let interpreted = response.interpreted.into_iter().map(interpreted).collect();
    let verdict = Verdict::of_worker(outcome, response.cycles, groups, (timings.load_us, timings.run_us));
    Ok(Verdict { interpreted, reported, ..verdict })
}

/// Distinct reasons why the interpreter ran programs.
pub(crate) fn fallbacks(response: &v1::VerifyTransactionResponse) -> Vec<&str> {
    let mut reasons: Vec<&str> = response.programs.iter().map(|program| &*program.fallback).collect();
    reasons.sort_unstable();
    reasons.dedup();
    // A refusal by the compiler is normal: the data may not be a program.
    reasons.retain(|reason| !matches!(*reason, "" | "compile_refused"));
    reasons
}

fn interpreted(program: v1::InterpretedProgram) -> Interpreted {
    let v1::InterpretedProgram { sha256, loaded_at, size_bytes, cycles, why } = program;
    Interpreted { sha256, loaded_at, size_bytes, cycles, why }
}

fn outcome(outcome: v1::VerifyOutcome) -> anyhow::Result<VerifyOutcome> {
    Ok(match outcome {
        v1::VerifyOutcome::Ok => VerifyOutcome::Ok,
        v1::VerifyOutcome::Failed => VerifyOutcome::Failed,
        v1::VerifyOutcome::NotRun => VerifyOutcome::NotRun,
        other => bail!("outcome {other:?} is out of place"),
    })
}

fn group_report(group: v1::GroupResult) -> anyhow::Result<job::GroupReport> {
    let hash: Sha256Digest = group.script_hash.parse().context("a script's hash")?;
    let kind = match group.kind() {
        v1::ScriptKind::Lock => job::GroupKind::Lock,
        v1::ScriptKind::Type => job::GroupKind::Type,
        v1::ScriptKind::Unspecified => bail!("a group without its kind"),
    };
    let text = |text: String| (!text.is_empty()).then_some(text);
    let outcome = outcome(group.outcome())?;
    let tiers = group.tiers.unwrap_or_default();
    Ok(job::GroupReport {
        script_hash: hash.0,
        kind,
        outcome,
        exit_code: group.exit_code.map(i8::try_from).transpose().context("exit code out of range")?,
        error: group.error.map(|error| job::GroupError {
            kind: error.kind,
            vm_error: text(error.vm_error),
            source: error.source,
            detail: error.detail,
        }),
        cycles: group.cycles,
        native_cycles: tiers.native_cycles,
        interpreted_cycles: tiers.interpreted_cycles,
        restarted: text(tiers.restarted),
        debug: job::Lines::from(group.debug).and_omitted(job::Omitted {
            lines: group.debug_lines_left_out,
            bytes: group.debug_bytes_left_out,
        }),
        inputs: group.inputs,
        outputs: group.outputs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_a_verdict() {
        let mut group = v1::GroupResult {
            script_hash: "ab".repeat(32),
            exit_code: Some(-1),
            cycles: 7,
            error: Some(v1::ScriptError {
                kind: "ValidationFailure".to_owned(),
                ..v1::ScriptError::default()
            }),
            ..v1::GroupResult::default()
        };
        group.set_kind(v1::ScriptKind::Lock);
        group.set_outcome(v1::VerifyOutcome::Failed);
        let mut response = v1::VerifyTransactionResponse {
            cycles: 7,
            groups: vec![group],
            interpreted: vec![v1::InterpretedProgram { cycles: 5, ..v1::InterpretedProgram::default() }],
            ..v1::VerifyTransactionResponse::default()
        };
        assert!(verdict(response.clone()).is_err());
        response.set_outcome(v1::VerifyOutcome::Failed);
        let verdict = verdict(response).unwrap();
        assert_eq!((verdict.outcome, verdict.cycles), (verdict::Outcome::Failed, 7));
        assert_eq!(verdict.interpreted[0].cycles, 5);
        let (group, hash) = (&verdict.groups[0], format!("0x{}", "ab".repeat(32)));
        assert_eq!((group.exit_code, &*group.script_hash), (Some(-1), &*hash));
    }
}
