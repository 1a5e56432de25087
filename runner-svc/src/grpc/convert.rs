//! Conversion between wire types and internal ones. Only this file, `service.rs`, `session.rs` and
//! `remote.rs` use proto types.

pub(crate) mod batch;
pub(crate) mod transaction;

use std::{num::NonZeroU64, time::Duration};

use antares_abi::{BailoutReason, CompileOptions, DEBUG_BYTES_MAX};
use antares_config::{RunnerSection, millis};
use antares_pool::job::{RunJob, RunOutcome, RunReport, Tier};
use antares_proto::v1;
use antares_serve::admin::{ISAS, VM_VERSIONS, code_tier, compile_options, quotas, sandbox, versions};
use antares_serve::{Account, Fault};
use antares_transaction::limits::TRANSACTION_BYTES_MAX;
use bytes::Bytes;

use crate::{
    artifacts::native::Origin,
    diagnosis::Diagnosed,
    ended::{Ended, Execution, Found},
    execute::order::{Order, Script, next_salt},
    limits::{ARGS_BYTES_MAX, ARGS_MAX, BATCH_RUNS_MAX, REQUEST_ID_BYTES_MAX, SESSION_INPUTS_MAX},
    runner::Runner,
    source::Fallback,
    tenant::Tenant,
};

/// Syscalls that scripts may use: exit and debug.
const SYSCALLS: [u32; 2] = [93, 2177];

/// All errors in a request.
#[derive(Debug, Default)]
struct Violations(Vec<(String, String)>);

impl Violations {
    fn record(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.0.push((field.into(), problem.into()));
    }

    /// Records a value above `most`.
    fn at_most(&mut self, field: &'static str, value: u64, most: u64, unit: &str) {
        if value > most {
            self.record(field, format!("must be at most {most}{unit}, is {value}"));
        }
    }

    /// `value`, if there are no violations.
    fn unless_any<T>(self, value: Option<T>) -> Result<T, Fault> {
        value.filter(|_| self.0.is_empty()).ok_or_else(|| self.into_fault())
    }

    fn into_fault(self) -> Fault {
        let words: Vec<String> = self.0.iter().map(|(field, problem)| format!("{field} {problem}")).collect();
        let fault = Fault::invalid("REQUEST_INVALID", words.join("; "));
        self.0.into_iter().fold(fault, |fault, (field, problem)| fault.violation(field, problem))
    }
}

/// Converts a request to an order, or reports all its errors.
pub(crate) fn order(request: v1::ExecuteRequest, limits: &RunnerSection) -> Result<Order, Fault> {
    let mut wrong = Violations::default();
    let tier = tier(request.tier, &mut wrong);
    let source = request.script.unwrap_or_default();
    let options = options(source.options.unwrap_or_default(), &mut wrong);
    let run = run_limits(request.limits.unwrap_or_default(), limits, &mut wrong);
    let args = arguments(request.args, request.text_args, &mut wrong);
    check_args(&args, &mut wrong);
    wrong.at_most("request_id", request.request_id.len() as u64, REQUEST_ID_BYTES_MAX, " bytes");
    let script = script(source.source, limits, &mut wrong)?;
    let ((script, options), tier) = wrong.unless_any(script.zip(options).zip(tier))?;
    let job = RunJob {
        options,
        tier,
        args: args.into_iter().map(Vec::from).collect(),
        cycles_max: run.cycles_max,
        debug_bytes_max: run.debug_bytes_max,
        sample_cycles: limits.sample_cycles.map_or(0, NonZeroU64::get),
        sample_salt: request.sample_salt.unwrap_or_else(next_salt),
    };
    let run_time = Duration::from_millis(run.deadline_ms);
    let (recheck, diagnosis) = (request.recheck, request.diagnosis);
    Ok(Order { tenant: Tenant::default(), script, job, run_time, recheck, diagnosis })
}

struct Run {
    cycles_max: u64,
    deadline_ms: u64,
    debug_bytes_max: u64,
}

fn run_limits(asked: v1::RunLimits, limits: &RunnerSection, wrong: &mut Violations) -> Run {
    let deadline_ms_max = millis(limits.deadline_max);
    let run = Run {
        cycles_max: asked.max_cycles.unwrap_or(limits.max_cycles_default()),
        deadline_ms: asked.deadline_ms.unwrap_or(deadline_ms_max).min(deadline_ms_max),
        debug_bytes_max: asked.debug_bytes_max.unwrap_or(DEBUG_BYTES_MAX).min(DEBUG_BYTES_MAX),
    };
    wrong.at_most("limits.max_cycles", run.cycles_max, limits.max_cycles_max, "");
    if run.deadline_ms == 0 {
        wrong.record("limits.deadline_ms", "must be at least 1");
    }
    run
}

/// Arguments as bytes, from either form.
fn arguments(args: Vec<Bytes>, text: Vec<String>, wrong: &mut Violations) -> Vec<Bytes> {
    if !args.is_empty() && !text.is_empty() {
        wrong.record("text_args", "must not be given beside args");
    }
    if text.is_empty() { args } else { text.into_iter().map(Bytes::from).collect() }
}

fn check_args(args: &[Bytes], wrong: &mut Violations) {
    wrong.at_most("args", args.len() as u64, ARGS_MAX, " arguments");
    let bytes: u64 = args.iter().map(|arg| arg.len() as u64).sum();
    wrong.at_most("args", bytes, ARGS_BYTES_MAX, " bytes together");
}

fn script(
    source: Option<v1::script::Source>,
    limits: &RunnerSection,
    wrong: &mut Violations,
) -> Result<Option<Script>, Fault> {
    match source {
        None => wrong.record("script.source", "is needed: sha256 or elf"),
        Some(v1::script::Source::Sha256(text)) => match text.parse() {
            Ok(digest) => return Ok(Some(Script::Stored(digest))),
            Err(_) => wrong.record("script.sha256", "must be 64 hex digits"),
        },
        Some(v1::script::Source::Elf(elf)) => {
            let most = limits.script_bytes_max;
            if elf.len() as u64 > most {
                let problem = format!("must be at most {most} bytes, is {}", elf.len());
                return Err(Fault::field("SCRIPT_TOO_LARGE", "script.elf", &problem));
            }
            return Ok(Some(Script::Inline(elf)));
        }
    }
    Ok(None)
}

fn tier(number: i32, wrong: &mut Violations) -> Option<Tier> {
    match v1::Tier::try_from(number) {
        Ok(v1::Tier::Unspecified | v1::Tier::Auto) => Some(Tier::Auto),
        Ok(v1::Tier::Native) => Some(Tier::Native),
        Ok(v1::Tier::Interpreter) => Some(Tier::Interpreter),
        Err(_) => {
            wrong.record("tier", format!("has no value {number}"));
            None
        }
    }
}

fn options(options: v1::ScriptOptions, wrong: &mut Violations) -> Option<CompileOptions> {
    let wrong = |(field, problem)| wrong.record(format!("script.options.{field}"), problem);
    compile_options(options).map_err(wrong).ok()
}

/// The response to an execution.
pub(crate) fn executed(
    execution: Execution,
    account: &Account,
    id: String,
    request_id: String,
) -> v1::ExecuteResponse {
    let (verdict, report) = verdict(execution.ended);
    v1::ExecuteResponse {
        execution_id: id,
        request_id,
        timings: Some(timings(
            account,
            [execution.fetch, execution.queue, execution.wall],
            execution.native.and_then(|native| native.made_ms),
            report.as_ref().map(|report| (report.load_us, report.run_us)),
        )),
        verdict: Some(verdict),
        tiers: report.map(tier_split),
        artifact: Some(artifact_use(execution.native)),
        fallback: fallback_name(execution.fallback),
        script_sha256: execution.script.to_string(),
        sample_salt: execution.sample_salt,
        recheck: recheck(execution.recheck).into(),
        diagnosis: execution.diagnosis.map(diagnosis),
    }
}

/// The times to fetch, in the queue and in all, of a compile, and of loading and running.
fn timings(
    account: &Account,
    [fetch, queue, wall]: [Duration; 3],
    compile_ms: Option<u64>,
    reported: Option<(u64, u64)>,
) -> v1::Timings {
    let (load_us, run_us) = reported.unwrap_or_default();
    v1::Timings {
        fetch_us: account.coarse_us(microseconds(fetch)),
        compile_ms: compile_ms.unwrap_or(0),
        queue_us: account.coarse_us(microseconds(queue)),
        load_us: account.coarse_us(load_us),
        run_us: account.coarse_us(run_us),
        parse_us: 0,
        wall_us: account.coarse_us(microseconds(wall)),
    }
}

/// Why a script failed, or why there is no diagnosis.
fn diagnosis(diagnosed: Diagnosed) -> v1::Diagnosis {
    match diagnosed {
        Diagnosed::Told { summary, json } => v1::Diagnosis { summary, json, missing: String::new() },
        Diagnosed::Missing(why) => {
            v1::Diagnosis { missing: why.into_str().to_owned(), ..v1::Diagnosis::default() }
        }
    }
}

fn recheck(found: Option<Found>) -> v1::Recheck {
    match found {
        None => v1::Recheck::Unspecified,
        Some(Found::Equal) => v1::Recheck::Equal,
        Some(Found::Different) => v1::Recheck::Different,
        Some(Found::PassedOver) => v1::Recheck::PassedOver,
    }
}

fn tier_split(report: RunReport) -> v1::TierSplit {
    v1::TierSplit {
        native_cycles: report.native_cycles,
        interpreted_cycles: report.interpreted_cycles,
        restarted: report.restarted.map_or("", BailoutReason::name).to_owned(),
    }
}

fn artifact_use(native: Option<Origin>) -> v1::ArtifactUse {
    let Some(Origin { key, tier, made_ms }) = native else {
        let (cache, code_tier) = (v1::CacheUse::None, v1::CodeTier::Unspecified);
        return v1::ArtifactUse { key: String::new(), cache: cache.into(), code_tier: code_tier.into() };
    };
    let cache = if made_ms.is_some() { v1::CacheUse::Miss } else { v1::CacheUse::Hit };
    v1::ArtifactUse { key: key.to_string(), cache: cache.into(), code_tier: code_tier(tier).into() }
}

fn fallback_name(fallback: Option<Fallback>) -> String {
    fallback.map(|fallback| fallback.into_str().to_owned()).unwrap_or_default()
}

/// A verdict, and the report's other fields.
fn verdict(ended: Ended) -> (v1::Verdict, Option<RunReport>) {
    let mut verdict = v1::Verdict::default();
    let mut report = match ended {
        Ended::Reported(report) => report,
        Ended::DeadlineExceeded => {
            verdict.set_outcome(v1::Outcome::DeadlineExceeded);
            return (verdict, None);
        }
        Ended::SandboxViolation { detail } => {
            verdict.set_outcome(v1::Outcome::SandboxViolation);
            verdict.error_detail = detail;
            return (verdict, None);
        }
    };
    match &mut report.outcome {
        RunOutcome::Exit(code) => {
            verdict.set_outcome(v1::Outcome::Exit);
            verdict.exit_code = Some((*code).into());
        }
        RunOutcome::Error { name, detail } => {
            verdict.set_outcome(v1::Outcome::Error);
            verdict.error = std::mem::take(name);
            verdict.error_detail = detail.take().unwrap_or_default();
        }
        RunOutcome::CyclesExceeded => verdict.set_outcome(v1::Outcome::CyclesExceeded),
    }
    verdict.cycles = report.cycles;
    verdict.load_cycles = report.load_cycles;
    let left_out = report.debug.omitted();
    (verdict.debug_lines_left_out, verdict.debug_bytes_left_out) = (left_out.lines, left_out.bytes);
    verdict.debug = std::mem::take(&mut report.debug).into();
    (verdict, Some(report))
}

fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Limits, versions and the sandbox.
pub(crate) fn capabilities(
    runner: &Runner,
    account: &Account,
    message_bytes_max: u64,
) -> v1::RunnerCapabilities {
    v1::RunnerCapabilities {
        versions: Some(versions()),
        limits: Some(v1::RunnerLimits {
            session_transactions_max: runner.shared_transactions_max() as u64,
            ..runner_limits(runner.limits(), message_bytes_max)
        }),
        vm_versions: VM_VERSIONS.to_vec(),
        isas: ISAS.map(str::to_owned).to_vec(),
        syscalls: SYSCALLS.to_vec(),
        sandbox: sandbox(runner.layers()),
        quotas: Some(quotas(account)),
        recommended_calls: runner.recommended_calls(),
    }
}

fn runner_limits(limits: &RunnerSection, message_bytes_max: u64) -> v1::RunnerLimits {
    v1::RunnerLimits {
        message_bytes_max,
        script_bytes_max: limits.script_bytes_max,
        args_max: ARGS_MAX,
        args_bytes_max: ARGS_BYTES_MAX,
        request_id_bytes_max: REQUEST_ID_BYTES_MAX,
        max_cycles_default: limits.max_cycles_default(),
        max_cycles_max: limits.max_cycles_max,
        deadline_ms_max: millis(limits.deadline_max),
        debug_bytes_max: DEBUG_BYTES_MAX,
        run_workers_max: limits.workers_max as u64,
        batch_runs_max: BATCH_RUNS_MAX,
        session_inputs_max: SESSION_INPUTS_MAX as u64,
        transaction_bytes_max: TRANSACTION_BYTES_MAX as u64,
        session_transactions_max: 0,
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Isa;
    use tonic::Status;
    use tonic_types::StatusExt;

    use super::*;

    fn limits() -> RunnerSection {
        RunnerSection::default()
    }

    fn request() -> v1::ExecuteRequest {
        let source = v1::script::Source::Elf(Bytes::from_static(b"elf"));
        v1::ExecuteRequest {
            script: Some(v1::Script { source: Some(source), options: None }),
            ..v1::ExecuteRequest::default()
        }
    }

    /// The fields that a fault is about.
    #[track_caller]
    pub(super) fn fields_of(fault: Fault) -> Vec<String> {
        let status = Status::from(fault);
        let violations = status.get_error_details().bad_request().unwrap().field_violations.clone();
        violations.into_iter().map(|violation| violation.field).collect()
    }

    #[track_caller]
    fn fields(request: v1::ExecuteRequest) -> Vec<String> {
        fields_of(order(request, &limits()).unwrap_err())
    }

    #[test]
    fn what_is_absent_has_the_server_s_defaults() {
        let order = order(request(), &limits()).unwrap();
        assert_eq!(order.job.options, CompileOptions { vm_version: 2, isa: Isa::of_version(2) });
        assert_eq!((order.job.tier, order.job.cycles_max), (Tier::Auto, limits().max_cycles_default()));
        assert_eq!(order.run_time, limits().deadline_max);
    }

    #[test]
    fn zero_cycles_are_a_limit_and_not_the_default() {
        let mut request = request();
        request.limits = Some(v1::RunLimits { max_cycles: Some(0), ..v1::RunLimits::default() });
        assert_eq!(order(request, &limits()).unwrap().job.cycles_max, 0);
    }

    #[test]
    fn arguments_are_bytes_or_text_and_not_both() {
        let text =
            || v1::ExecuteRequest { text_args: vec!["one".to_owned(), "zwö".to_owned()], ..request() };
        let args = order(text(), &limits()).unwrap().job.args;
        assert_eq!(args, [b"one".to_vec(), "zwö".as_bytes().to_vec()]);
        assert_eq!(fields(v1::ExecuteRequest { args: vec![Bytes::new()], ..text() }), ["text_args"]);
    }

    #[test]
    fn every_wrong_field_is_named() {
        let options = Some(v1::ScriptOptions { vm_version: Some(9), isa: None });
        let request = v1::ExecuteRequest {
            script: Some(v1::Script { source: None, options }),
            args: vec![Bytes::new(); 2_000],
            limits: Some(v1::RunLimits {
                max_cycles: Some(u64::MAX),
                deadline_ms: Some(0),
                debug_bytes_max: None,
            }),
            tier: 77,
            request_id: "x".repeat(1_000),
            ..v1::ExecuteRequest::default()
        };
        let expected = "tier script.options.vm_version limits.max_cycles limits.deadline_ms args request_id \
                        script.source";
        assert_eq!(fields(request).join(" "), expected);
    }

    #[test]
    fn long_deadlines_and_outputs_are_capped() {
        let mut request = request();
        request.limits = Some(v1::RunLimits {
            max_cycles: None,
            deadline_ms: Some(u64::MAX),
            debug_bytes_max: Some(u64::MAX),
        });
        let order = order(request, &limits()).unwrap();
        assert_eq!(order.run_time, limits().deadline_max);
        assert_eq!(order.job.debug_bytes_max, DEBUG_BYTES_MAX);
    }

    #[test]
    fn exit_codes_keep_their_sign() {
        let report = RunReport {
            outcome: RunOutcome::Exit(-1),
            cycles: 7,
            load_cycles: 3,
            native_cycles: 5,
            interpreted_cycles: 2,
            restarted: None,
            seen: None,
            debug: vec!["hello".to_owned()].into(),
            load_us: 1,
            run_us: 2,
            samples: None,
        };
        let (verdict, _) = verdict(Ended::Reported(report));
        assert_eq!((verdict.outcome(), verdict.exit_code), (v1::Outcome::Exit, Some(-1)));
        assert_eq!((verdict.cycles, verdict.load_cycles, verdict.debug.len()), (7, 3, 1));
    }
}
