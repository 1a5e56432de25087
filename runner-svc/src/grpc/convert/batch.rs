//! Conversion of batches and sessions between wire types and internal ones.

use std::time::Duration;

use antares_config::RunnerSection;
use antares_proto::v1;
use antares_serve::{Account, Fault};

use super::{
    Violations, artifact_use, check_args, diagnosis, fallback_name, options, recheck, run_limits, script,
    tier, tier_split, timings, verdict,
};
use crate::{
    artifacts::prepare::Prepared,
    diagnosis::Diagnosed,
    ended::Ended,
    execute::batch::{BatchExecution, Context, Input},
    limits::{BATCH_RUNS_MAX, REQUEST_ID_BYTES_MAX},
    tenant::Tenant,
};

/// Converts a batch to its common settings and its inputs, or reports all its errors.
pub(crate) fn batch_order(
    request: v1::ExecuteBatchRequest,
    limits: &RunnerSection,
) -> Result<(Context, Vec<Input>), Fault> {
    let mut wrong = Violations::default();
    wrong.at_most("inputs", request.inputs.len() as u64, BATCH_RUNS_MAX, " inputs");
    if request.inputs.is_empty() {
        wrong.record("inputs", "must have at least one");
    }
    // Reports one: there may be thousands.
    let is_too_long = |input: &&v1::Input| {
        let mut wrong = Violations::default();
        check_args(&input.args, &mut wrong);
        !wrong.0.is_empty()
    };
    if let Some(input) = request.inputs.iter().find(is_too_long) {
        check_args(&input.args, &mut wrong);
    }
    let context =
        context((request.script, request.limits, request.tier, &request.request_id), limits, wrong)?;
    let context = Context { recheck: request.recheck, diagnosis: request.diagnosis, ..context };
    Ok((context, request.inputs.into_iter().map(input).collect()))
}

/// Converts the start of a session, or reports all its errors.
pub(crate) fn session_order(start: v1::SessionStart, limits: &RunnerSection) -> Result<Context, Fault> {
    let given = (start.script, start.limits, start.tier, &*start.request_id);
    let context = context(given, limits, Violations::default())?;
    Ok(Context { diagnosis: start.diagnosis, ..context })
}

fn context(
    (source, asked, asked_tier, request_id): (Option<v1::Script>, Option<v1::RunLimits>, i32, &str),
    limits: &RunnerSection,
    mut wrong: Violations,
) -> Result<Context, Fault> {
    let tier = tier(asked_tier, &mut wrong);
    let source = source.unwrap_or_default();
    let options = options(source.options.unwrap_or_default(), &mut wrong);
    let run = run_limits(asked.unwrap_or_default(), limits, &mut wrong);
    wrong.at_most("request_id", request_id.len() as u64, REQUEST_ID_BYTES_MAX, " bytes");
    let script = script(source.source, limits, &mut wrong)?;
    let ((script, options), tier) = wrong.unless_any(script.zip(options).zip(tier))?;
    Ok(Context {
        tenant: Tenant::default(),
        script,
        options,
        tier,
        cycles_max: run.cycles_max,
        debug_bytes_max: run.debug_bytes_max,
        run_time: Duration::from_millis(run.deadline_ms),
        recheck: false,
        diagnosis: false,
    })
}

/// Converts an input of a session with the caller's number, or reports all its errors.
pub(crate) fn session_input(request: v1::ExecuteSessionRequest) -> Result<(u64, Input), Fault> {
    let mut wrong = Violations::default();
    let given = match request.message {
        Some(v1::execute_session_request::Message::Input(given)) => Some(given),
        Some(v1::execute_session_request::Message::Start(_)) => {
            wrong.record("start", "must be the first message and no other");
            None
        }
        None => {
            wrong.record("message", "is needed: input");
            None
        }
    };
    let args = given.as_ref().and_then(|given| given.input.as_ref()).map_or(&[][..], |input| &input.args);
    check_args(args, &mut wrong);
    let given = wrong.unless_any(given)?;
    Ok((given.id, input(given.input.unwrap_or_default())))
}

fn input(input: v1::Input) -> Input {
    input.args.into_iter().map(Vec::from).collect()
}

/// The response to a batch.
pub(crate) fn batch_executed(
    execution: BatchExecution,
    account: &Account,
    id: String,
    request_id: String,
) -> v1::ExecuteBatchResponse {
    let BatchExecution { script, fetch, runs, wall } = execution;
    let reports = runs.results.iter().flatten().filter_map(|ended| match ended {
        Ended::Reported(report) => Some((report.load_us, report.run_us)),
        Ended::DeadlineExceeded | Ended::SandboxViolation { .. } => None,
    });
    let times = reports.fold((0, 0), |(load, run), (more_load, more_run)| (load + more_load, run + more_run));
    let diagnoses = runs.diagnoses.into_iter().chain(std::iter::repeat(None));
    let results = runs.results.into_iter().zip(diagnoses);
    v1::ExecuteBatchResponse {
        execution_id: id,
        request_id,
        timings: Some(timings(
            account,
            [fetch, runs.queue, wall],
            runs.native.and_then(|native| native.made_ms),
            Some(times),
        )),
        results: results.map(|result| batch_result(result, account)).collect(),
        artifact: Some(artifact_use(runs.native)),
        fallback: fallback_name(runs.fallback),
        script_sha256: script.to_string(),
        recheck: recheck(runs.recheck).into(),
    }
}

/// How one input ended; none if it was not reached.
pub(crate) fn batch_result(
    (ended, diagnosed): (Option<Ended>, Option<Diagnosed>),
    account: &Account,
) -> v1::BatchResult {
    let Some(ended) = ended else {
        let mut verdict = v1::Verdict::default();
        verdict.set_outcome(v1::Outcome::NotRun);
        return v1::BatchResult { verdict: Some(verdict), ..v1::BatchResult::default() };
    };
    let (verdict, report) = verdict(ended);
    v1::BatchResult {
        verdict: Some(verdict),
        run_us: report.as_ref().map_or(0, |report| account.coarse_us(report.run_us)),
        tiers: report.map(tier_split),
        diagnosis: diagnosed.map(diagnosis),
    }
}

/// The first answer of a session.
pub(crate) fn session_started(
    prepared: &Prepared,
    id: String,
    request_id: String,
) -> v1::ExecuteSessionResponse {
    let started = v1::SessionStarted {
        execution_id: id,
        request_id,
        artifact: Some(artifact_use(prepared.native.as_ref().map(|native| native.origin()))),
        fallback: fallback_name(prepared.fallback),
        script_sha256: prepared.script.digest.to_string(),
    };
    v1::ExecuteSessionResponse { message: Some(v1::execute_session_response::Message::Started(started)) }
}

/// The answer to one input of a session.
pub(crate) fn session_result(
    id: u64,
    result: (Option<Ended>, Option<Diagnosed>),
    account: &Account,
) -> v1::ExecuteSessionResponse {
    let result = v1::SessionResult { id, result: Some(batch_result(result, account)) };
    v1::ExecuteSessionResponse { message: Some(v1::execute_session_response::Message::Result(result)) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::grpc::convert::tests::fields_of;

    #[test]
    fn a_batch_has_inputs_within_limits() {
        let limits = RunnerSection::default();
        let script =
            v1::Script { source: Some(v1::script::Source::Elf(Bytes::from_static(b"elf"))), options: None };
        let of = |inputs: Vec<v1::Input>| v1::ExecuteBatchRequest {
            script: Some(script.clone()),
            inputs,
            ..v1::ExecuteBatchRequest::default()
        };
        assert_eq!(batch_order(of(vec![v1::Input::default(); 1_024]), &limits).unwrap().1.len(), 1_024);
        let wrong = |request| fields_of(batch_order(request, &limits).unwrap_err());
        assert_eq!(wrong(of(Vec::new())), ["inputs"]);
        assert_eq!(wrong(of(vec![v1::Input::default(); 1_025])), ["inputs"]);
        let long = v1::Input { args: vec![Bytes::new(); 1_025] };
        assert_eq!(wrong(of(vec![long.clone(), long])), ["args"]);
        assert_eq!(wrong(v1::ExecuteBatchRequest::default()).len(), 2);
    }

    #[test]
    fn a_session_starts_once() {
        let start = v1::execute_session_request::Message::Start(v1::SessionStart::default());
        let wrong = session_input(v1::ExecuteSessionRequest { message: Some(start) });
        assert_eq!(fields_of(wrong.unwrap_err()), ["start"]);
        let wrong = session_input(v1::ExecuteSessionRequest { message: None });
        assert_eq!(fields_of(wrong.unwrap_err()), ["message"]);
    }
}
