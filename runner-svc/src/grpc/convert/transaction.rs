//! Conversion of transaction verifications between wire types and internal ones.

use std::time::{Duration, Instant};

use antares_config::RunnerSection;
use antares_node::BareFormat;
use antares_pool::job::{self, VerifyOutcome};
use antares_proto::v1::{
    self, rules::Rules, script_group::Cell, shared_transaction_result::Result as Outcome,
    verify_transaction_request::Transaction,
};
use antares_serve::admin::operation_error;
use antares_serve::{Account, Fault};
use antares_transaction::Environment;
use tonic::Status;

use super::{
    Violations, artifact_use, diagnosis, fallback_name, microseconds, recheck, run_limits, tier, timings,
};
use crate::{
    diagnosis::Budget,
    ended::Ended,
    grpc::status::transaction_fault,
    limits::REQUEST_ID_BYTES_MAX,
    tenant::Tenant,
    verify::{
        Verification,
        hot_programs::Interpreted,
        order::VerifyOrder,
        parts::{CellPart, DataPart, DepPart, Parts, Source},
        programs::ProgramUse,
    },
};

/// Converts a request to an order, or reports all its errors. The transaction itself is parsed later.
pub(crate) fn verify_order(
    request: v1::VerifyTransactionRequest,
    limits: &RunnerSection,
) -> Result<VerifyOrder, Fault> {
    let mut wrong = Violations::default();
    let tier = tier(request.tier, &mut wrong);
    let environment = environment(request.rules, &mut wrong);
    let group = request.group.map(|group| self::group(group, &mut wrong));
    let run = run_limits(request.limits.unwrap_or_default(), limits, &mut wrong);
    wrong.at_most("request_id", request.request_id.len() as u64, REQUEST_ID_BYTES_MAX, " bytes");
    if request.transaction.is_none() {
        wrong.record("transaction", "is needed: mock_json, fields or bare");
    }
    let format = format(request.format, request.transaction.as_ref(), &mut wrong);
    let (tier, source) = wrong.unless_any(tier.zip(request.transaction))?;
    let source = match source {
        Transaction::MockJson(json) => Source::Json(json),
        Transaction::Bare(bare) => Source::Bare(bare, format),
        Transaction::Fields(fields) => Source::Parts(Box::new(parts(fields)?)),
    };
    Ok(VerifyOrder {
        tenant: Tenant::default(),
        arrived: Instant::now(),
        resolving: Duration::ZERO,
        source,
        environment,
        group: group.flatten(),
        tier,
        cycles_max: run.cycles_max,
        debug_bytes_max: run.debug_bytes_max,
        run_time: Duration::from_millis(run.deadline_ms),
        sample_salt: request.sample_salt,
        recheck: request.recheck,
        diagnosis: request.diagnosis.then(|| Budget::new(1)),
    })
}

fn format(format: i32, transaction: Option<&Transaction>, wrong: &mut Violations) -> BareFormat {
    use v1::TransactionFormat::{Ccc, Lumos, Node, Unspecified};

    let is_bare = matches!(transaction, Some(Transaction::Bare(_)));
    match v1::TransactionFormat::try_from(format) {
        Ok(Unspecified) => BareFormat::Node,
        Ok(_) if !is_bare => {
            wrong.record("format", "is for bare alone");
            BareFormat::Node
        }
        Ok(Node) => BareFormat::Node,
        Ok(Ccc) => BareFormat::Ccc,
        Ok(Lumos) => BareFormat::Lumos,
        Err(_) => {
            wrong.record("format", "is unknown");
            BareFormat::Node
        }
    }
}

fn environment(rules: Option<v1::Rules>, wrong: &mut Violations) -> Environment {
    match rules.and_then(|rules| rules.rules) {
        None => Environment::default(),
        Some(Rules::ScriptVersion(version)) => {
            wrong.at_most("rules.script_version", version.into(), 2, "");
            Environment::of_version(version)
        }
        Some(Rules::MainnetEpoch(epoch)) => Environment::mainnet(epoch),
        Some(Rules::HardForks(v1::HardForks { vm_1_epoch, vm_2_epoch, epoch })) => {
            Environment { vm_1_epoch, vm_2_epoch, epoch }
        }
    }
}

fn group(group: v1::ScriptGroup, wrong: &mut Violations) -> Option<(job::GroupKind, job::CellName)> {
    let kind = match v1::ScriptKind::try_from(group.kind) {
        Ok(v1::ScriptKind::Lock) => Some(job::GroupKind::Lock),
        Ok(v1::ScriptKind::Type) => Some(job::GroupKind::Type),
        Ok(v1::ScriptKind::Unspecified) | Err(_) => {
            wrong.record("group.kind", "must be SCRIPT_KIND_LOCK or SCRIPT_KIND_TYPE");
            None
        }
    };
    let cell = match group.cell {
        Some(Cell::Input(index)) => Some(job::CellName::Input(index)),
        Some(Cell::Output(index)) => Some(job::CellName::Output(index)),
        None => {
            wrong.record("group.cell", "is needed: input or output");
            None
        }
    };
    kind.zip(cell)
}

fn parts(fields: v1::TransactionFields) -> Result<Parts, Fault> {
    let inputs = fields.inputs.into_iter().enumerate();
    let extensions = fields.extensions.into_iter().enumerate();
    Ok(Parts {
        tx: fields.tx,
        inputs: inputs
            .map(|(at, input)| cell(|| format!("inputs[{at}]"), input))
            .collect::<Result<_, _>>()?,
        cell_deps: dep_parts(fields.cell_deps)?,
        headers: fields.headers,
        extensions: extensions
            .map(|(at, extension)| {
                let block_hash = hash(|| format!("extensions[{at}].block_hash"), &extension.block_hash)?;
                Ok((block_hash, extension.extension))
            })
            .collect::<Result<_, Fault>>()?,
    })
}

/// Cells of a list called `cell_deps`.
pub(crate) fn dep_parts(deps: Vec<v1::CellDepFields>) -> Result<Vec<DepPart>, Fault> {
    let part = |(at, dep): (usize, v1::CellDepFields)| {
        let cell = cell(|| format!("cell_deps[{at}].cell"), dep.cell.unwrap_or_default())?;
        Ok(DepPart { out_point: dep.out_point, cell })
    };
    deps.into_iter().enumerate().map(part).collect()
}

fn cell(path: impl Fn() -> String, cell: v1::CellFields) -> Result<CellPart, Fault> {
    let block_hash = cell.block_hash.map(|bytes| hash(|| format!("{}.block_hash", path()), &bytes));
    let data = match cell.data_sha256 {
        None => DataPart::Inline(cell.data),
        Some(text) => {
            let mistake = |problem: &str| {
                let path = format!("{}.data_sha256", path());
                transaction_fault(&path, &format!("{path}: {problem}"))
            };
            if !cell.data.is_empty() {
                return Err(mistake("there is data already"));
            }
            DataPart::Stored(text.parse().map_err(|_| mistake("must be 64 hex digits"))?)
        }
    };
    Ok(CellPart { output: cell.output, data, block_hash: block_hash.transpose()? })
}

fn hash(path: impl FnOnce() -> String, bytes: &[u8]) -> Result<[u8; 32], Fault> {
    <[u8; 32]>::try_from(bytes).map_err(|_| {
        let path = path();
        transaction_fault(&path, &format!("{path}: must be 32 bytes, is {}", bytes.len()))
    })
}

/// The response to a verification.
pub(crate) fn verified(
    verification: Verification,
    account: &Account,
    id: String,
    request_id: String,
) -> v1::VerifyTransactionResponse {
    let compile_ms = verification.programs.iter().filter_map(|program| program.native?.made_ms).max();
    let mut response = v1::VerifyTransactionResponse {
        execution_id: id,
        request_id,
        programs: verification.programs.into_iter().map(program_use).collect(),
        interpreted: verification.interpreted.into_iter().map(interpreted).collect(),
        sample_salt: verification.sample_salt,
        recheck: recheck(verification.recheck).into(),
        diagnosis: verification.diagnosis.map(diagnosis),
        ..v1::VerifyTransactionResponse::default()
    };
    let reported = match &verification.ended {
        Ended::Reported(verified) => Some((verified.read_us, verified.run_us)),
        Ended::DeadlineExceeded | Ended::SandboxViolation { .. } => None,
    };
    let times = [verification.fetch, verification.queue, verification.wall];
    response.timings = Some(v1::Timings {
        parse_us: account.coarse_us(microseconds(verification.parse)),
        ..timings(account, times, compile_ms, reported)
    });
    match verification.ended {
        Ended::Reported(verified) => {
            response.set_outcome(outcome(verified.outcome));
            response.cycles = verified.cycles;
            response.groups = verified.groups.into_iter().map(group_result).collect();
        }
        Ended::DeadlineExceeded => response.set_outcome(v1::VerifyOutcome::DeadlineExceeded),
        Ended::SandboxViolation { detail } => {
            response.set_outcome(v1::VerifyOutcome::SandboxViolation);
            response.detail = detail;
        }
    }
    response
}

/// The result of a transaction in a batch or a session.
pub(crate) fn shared_result(
    id: u64,
    answered: Result<v1::VerifyTransactionResponse, Status>,
) -> v1::SharedTransactionResult {
    let result = match answered {
        Ok(response) => Outcome::Response(response),
        Err(status) => Outcome::Error(operation_error(&status)),
    };
    v1::SharedTransactionResult { id, result: Some(result) }
}

fn outcome(outcome: VerifyOutcome) -> v1::VerifyOutcome {
    match outcome {
        VerifyOutcome::Ok => v1::VerifyOutcome::Ok,
        VerifyOutcome::Failed => v1::VerifyOutcome::Failed,
        VerifyOutcome::NotRun => v1::VerifyOutcome::NotRun,
    }
}

fn group_result(group: job::GroupReport) -> v1::GroupResult {
    let kind = match group.kind {
        job::GroupKind::Lock => v1::ScriptKind::Lock,
        job::GroupKind::Type => v1::ScriptKind::Type,
    };
    v1::GroupResult {
        script_hash: hex(&group.script_hash),
        kind: kind.into(),
        outcome: outcome(group.outcome).into(),
        exit_code: group.exit_code.map(i32::from),
        error: group.error.map(|error| v1::ScriptError {
            kind: error.kind,
            vm_error: error.vm_error.unwrap_or_default(),
            source: error.source,
            detail: error.detail,
        }),
        cycles: group.cycles,
        tiers: Some(v1::TierSplit {
            native_cycles: group.native_cycles,
            interpreted_cycles: group.interpreted_cycles,
            restarted: group.restarted.unwrap_or_default(),
        }),
        debug_lines_left_out: group.debug.omitted().lines,
        debug_bytes_left_out: group.debug.omitted().bytes,
        debug: group.debug.into(),
        inputs: group.inputs,
        outputs: group.outputs,
    }
}

fn interpreted(one: Interpreted) -> v1::InterpretedProgram {
    v1::InterpretedProgram {
        sha256: one.digest.to_string(),
        loaded_at: one.loaded_at,
        size_bytes: one.bytes,
        cycles: one.cycles,
        why: one.why.name().to_owned(),
    }
}

fn program_use(program: ProgramUse) -> v1::ProgramUse {
    v1::ProgramUse {
        data_hash: hex(&program.data_hash),
        vm_version: program.vm_version,
        artifact: Some(artifact_use(program.native)),
        fallback: fallback_name(program.fallback),
    }
}

fn hex(bytes: &[u8; 32]) -> String {
    antares_abi::Sha256Digest(*bytes).to_string()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::grpc::convert::tests::fields_of;

    fn order(request: v1::VerifyTransactionRequest) -> Result<VerifyOrder, Vec<String>> {
        verify_order(request, &RunnerSection::default()).map_err(fields_of)
    }

    fn request() -> v1::VerifyTransactionRequest {
        let transaction = Some(Transaction::MockJson(Bytes::from_static(b"{}")));
        v1::VerifyTransactionRequest { transaction, ..v1::VerifyTransactionRequest::default() }
    }

    #[test]
    fn rules_are_the_caller_s() {
        let environment =
            |rules| order(v1::VerifyTransactionRequest { rules, ..request() }).unwrap().environment;
        let of = |rules| Some(v1::Rules { rules: Some(rules) });
        assert_eq!(environment(None), Environment::default());
        assert_eq!(environment(of(Rules::ScriptVersion(1))), Environment::of_version(1));
        assert_eq!(environment(of(Rules::MainnetEpoch(5414))), Environment::mainnet(5414));
        let forks = v1::HardForks { vm_1_epoch: 1, vm_2_epoch: 2, epoch: 3 };
        let expected = Environment { vm_1_epoch: 1, vm_2_epoch: 2, epoch: 3 };
        assert_eq!(environment(of(Rules::HardForks(forks))), expected);
    }

    #[test]
    fn every_wrong_field_is_named() {
        let wrong = v1::VerifyTransactionRequest {
            transaction: None,
            rules: Some(v1::Rules { rules: Some(Rules::ScriptVersion(3)) }),
            group: Some(v1::ScriptGroup::default()),
            tier: 9,
            format: 2,
            ..request()
        };
        let expected = ["tier", "rules.script_version", "group.kind", "group.cell", "transaction", "format"];
        assert_eq!(order(wrong).unwrap_err(), expected);
        let short = v1::BlockExtension { block_hash: Bytes::from_static(b"short"), extension: Bytes::new() };
        let fields = v1::TransactionFields { extensions: vec![short], ..v1::TransactionFields::default() };
        let wrong =
            v1::VerifyTransactionRequest { transaction: Some(Transaction::Fields(fields)), ..request() };
        assert_eq!(order(wrong).unwrap_err(), ["extensions[0].block_hash"]);
    }
}
