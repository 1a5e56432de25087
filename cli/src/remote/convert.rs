//! Converts between the command's types and the wire format.

pub(crate) mod transaction;

use std::time::Duration;

use antares_abi::{ArtifactKey, CodeTier, Sha256Digest};
use antares_client::Naming;
use antares_pool::job::Tier;
use antares_proto::v1;
use anyhow::{Context as _, bail};

use crate::{
    input::run_request::Request,
    output::report::{CacheUse, Outcome, Report, ServerDiagnosis},
};

/// The call that runs `request`.
pub(crate) fn execute_request(request: &Request, naming: Naming) -> v1::ExecuteRequest {
    let source = match naming {
        Naming::Digest => v1::script::Source::Sha256(Sha256Digest::of(&request.elf).to_string()),
        Naming::Inline => v1::script::Source::Elf(request.elf.clone().into()),
    };
    let options = v1::ScriptOptions {
        vm_version: Some(request.options.vm_version),
        isa: Some(request.options.isa.to_string()),
    };
    let tier = tier(request.tier);
    v1::ExecuteRequest {
        script: Some(v1::Script { source: Some(source), options: Some(options) }),
        args: request.args.iter().map(|arg| arg.clone().into()).collect(),
        limits: Some(run_limits(request.cycles_max, request.deadline)),
        tier: tier.into(),
        request_id: String::new(),
        sample_salt: None,
        text_args: Vec::new(),
        recheck: request.recheck,
        diagnosis: request.diagnosis,
    }
}

fn tier(tier: Tier) -> v1::Tier {
    match tier {
        Tier::Auto => v1::Tier::Auto,
        Tier::Native => v1::Tier::Native,
        Tier::Interpreter => v1::Tier::Interpreter,
    }
}

fn run_limits(max_cycles: Option<u64>, deadline: Option<Duration>) -> v1::RunLimits {
    let deadline_ms = deadline.map(|deadline| u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
    v1::RunLimits { max_cycles, deadline_ms, debug_bytes_max: None }
}

/// The report of a response; `artifact` is the key if the server returns none.
pub(crate) fn report(response: v1::ExecuteResponse, artifact: ArtifactKey) -> anyhow::Result<Report> {
    let verdict = response.verdict.context("no verdict")?;
    let tiers = response.tiers.unwrap_or_default();
    let timings = response.timings.unwrap_or_default();
    let used = response.artifact.unwrap_or_default();
    let artifact = if used.key.is_empty() { artifact } else { used.key.parse()? };
    let exit_code = verdict.exit_code.map(i8::try_from).transpose().context("exit code out of range")?;
    let text = |text: String| (!text.is_empty()).then_some(text);
    Ok(Report {
        outcome: outcome(verdict.outcome)?,
        exit_code,
        error: text(verdict.error),
        error_detail: text(verdict.error_detail),
        cycles: verdict.cycles,
        load_cycles: verdict.load_cycles,
        native_cycles: tiers.native_cycles,
        interpreted_cycles: tiers.interpreted_cycles,
        restarted: text(tiers.restarted),
        restarted_detail: None,
        compile_ms: timings.compile_ms,
        run_us: timings.run_us,
        artifact,
        cache: match used.cache() {
            v1::CacheUse::Hit => CacheUse::Hit,
            v1::CacheUse::Miss => CacheUse::Miss,
            v1::CacheUse::None | v1::CacheUse::Unspecified => CacheUse::None,
        },
        code_tier: code_tier(&used),
        debug: verdict.debug,
        debug_lines_left_out: verdict.debug_lines_left_out,
        debug_bytes_left_out: verdict.debug_bytes_left_out,
        reported: response.diagnosis.map(server_diagnosis),
    })
}

fn server_diagnosis(diagnosis: v1::Diagnosis) -> ServerDiagnosis {
    ServerDiagnosis { json: diagnosis.json, missing: diagnosis.missing }
}

/// The generator of the native code.
fn code_tier(used: &v1::ArtifactUse) -> Option<CodeTier> {
    match used.code_tier() {
        v1::CodeTier::Baseline => Some(CodeTier::Baseline),
        v1::CodeTier::Full => Some(CodeTier::Full),
        v1::CodeTier::Unspecified => None,
    }
}

fn outcome(number: i32) -> anyhow::Result<Outcome> {
    Ok(match v1::Outcome::try_from(number) {
        Ok(v1::Outcome::Exit) => Outcome::Exit,
        Ok(v1::Outcome::Error) => Outcome::Error,
        Ok(v1::Outcome::CyclesExceeded) => Outcome::CyclesExceeded,
        Ok(v1::Outcome::DeadlineExceeded) => Outcome::DeadlineExceeded,
        Ok(v1::Outcome::SandboxViolation) => Outcome::SandboxViolation,
        Ok(v1::Outcome::NotRun | v1::Outcome::Unspecified) | Err(_) => bail!("unknown outcome {number}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_a_report() {
        let key = Sha256Digest::of(b"key");
        let response = v1::ExecuteResponse {
            verdict: Some(v1::Verdict {
                outcome: v1::Outcome::Exit.into(),
                exit_code: Some(-1),
                cycles: 7,
                debug: vec!["line".to_owned()],
                ..Default::default()
            }),
            artifact: Some(v1::ArtifactUse {
                key: key.to_string(),
                cache: v1::CacheUse::Hit.into(),
                code_tier: v1::CodeTier::Baseline.into(),
            }),
            ..Default::default()
        };
        let report = report(response, Sha256Digest::of(b"other")).unwrap();
        assert_eq!((report.outcome, report.exit_code, report.cycles), (Outcome::Exit, Some(-1), 7));
        assert_eq!((report.artifact, report.cache), (key, CacheUse::Hit));
        assert_eq!(report.code_tier, Some(CodeTier::Baseline));
        assert_eq!(report.error, None);
    }

    #[test]
    fn nonsense_is_no_report() {
        let key = Sha256Digest::of(b"");
        let with = |verdict| v1::ExecuteResponse { verdict: Some(verdict), ..Default::default() };
        assert!(report(v1::ExecuteResponse::default(), key).is_err());
        assert!(report(with(v1::Verdict::default()), key).is_err());
        let wide =
            v1::Verdict { outcome: v1::Outcome::Exit.into(), exit_code: Some(200), ..Default::default() };
        assert!(report(with(wide), key).is_err());
    }
}
