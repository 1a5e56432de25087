//! Conversion between wire types and internal ones. Only this file and `service.rs` use proto types.

use antares_abi::{CodeTier, CompileLimits, CompileOptions, HINTS_MAX, Hints, Seen, Sha256Digest};
use antares_config::{CompilerSection, millis};
use antares_proto::v1;
use antares_serve::admin::{ISAS, VM_VERSIONS, code_tier, compile_options, quotas, sandbox, versions};
use antares_serve::{Account, Fault};

use crate::{
    artifact::Artifact,
    compiler::Compiler,
    limits::{CHUNK_BYTES_MAX, DIGESTS_MAX, DOWNLOADS_MAX},
    order::CompileOrder,
};

/// Parses the digest in `field`.
pub(crate) fn digest(field: &str, text: &str) -> Result<Sha256Digest, Fault> {
    text.parse().map_err(|_| {
        let problem = format!("must be 64 hex digits, is {:?}", text.chars().take(80).collect::<String>());
        Fault::field("DIGEST_MALFORMED", field, &problem)
    })
}

/// VM version and ISA, with their defaults.
pub(crate) fn options(options: Option<v1::ScriptOptions>) -> Result<CompileOptions, Fault> {
    compile_options(options.unwrap_or_default())
        .map_err(|(field, problem)| Fault::field("OPTIONS_INVALID", &format!("options.{field}"), &problem))
}

/// Checks a compile request.
pub(crate) fn compile_order(message: &v1::CompileRequest) -> Result<CompileOrder, Fault> {
    let script = digest("script_sha256", &message.script_sha256)?;
    let options = options(message.options.clone())?;
    let least = v1::CodeTier::try_from(message.least)
        .map_err(|_| Fault::field("OPTIONS_INVALID", "least", &format!("has no value {}", message.least)))?;
    let least = match least {
        v1::CodeTier::Baseline => CodeTier::Baseline,
        v1::CodeTier::Full | v1::CodeTier::Unspecified => CodeTier::Full,
    };
    Ok(CompileOrder { script, options, least, elf: None })
}

/// The response to a compile.
pub(crate) fn compiled(artifact: &Artifact) -> v1::CompileResponse {
    let cache = if artifact.made.is_some() { v1::CacheUse::Miss } else { v1::CacheUse::Hit };
    v1::CompileResponse {
        artifact_key: artifact.key.to_string(),
        artifact_sha256: artifact.library.digest().to_string(),
        artifact_bytes: artifact.library.len(),
        cache: cache.into(),
        compile_ms: artifact.made.map_or(0, |made| made.compile_ms),
        figures: artifact.made.map(|made| v1::CompileFigures {
            guest_code_bytes: made.guest_code_bytes,
            functions: made.functions,
            blocks: made.blocks,
        }),
        stored: artifact.stored,
        hints_sha256: hints(artifact.hints),
        charged_ms: u64::try_from(artifact.charged.as_millis()).unwrap_or(u64::MAX),
        code_tier: code_tier(artifact.tier).into(),
    }
}

/// The digest of hints, if any.
pub(crate) fn hints(digest: Option<Sha256Digest>) -> String {
    digest.map(|digest| digest.to_string()).unwrap_or_default()
}

/// What a run saw.
pub(crate) fn seen(left: Option<u64>, targets: Vec<u32>) -> Result<Seen, Fault> {
    if targets.len() > HINTS_MAX {
        let problem = format!("{} targets, at most {HINTS_MAX} are allowed", targets.len());
        return Err(Fault::invalid("TOO_MANY_HINTS", problem.clone()).violation("targets", problem));
    }
    Ok(Seen { left, hints: Hints::from(targets) })
}

/// Limits, versions and the sandbox.
pub(crate) fn capabilities(
    compiler: &Compiler,
    account: &Account,
    message_bytes_max: u64,
) -> v1::CompilerCapabilities {
    v1::CompilerCapabilities {
        versions: Some(versions()),
        limits: Some(limits(compiler.limits(), message_bytes_max)),
        digest_functions: vec!["sha256".to_owned()],
        vm_versions: VM_VERSIONS.to_vec(),
        isas: ISAS.map(str::to_owned).to_vec(),
        sandbox: sandbox(compiler.layers()),
        quotas: Some(quotas(account)),
    }
}

fn limits(limits: &CompilerSection, message_bytes_max: u64) -> v1::CompilerLimits {
    v1::CompilerLimits {
        message_bytes_max,
        script_bytes_max: limits.script_bytes_max,
        chunk_bytes_max: CHUNK_BYTES_MAX,
        uploads_max: limits.uploads_max as u64,
        upload_bytes_max: limits.upload_bytes_max,
        partial_uploads_max: limits.partial_uploads_max as u64,
        upload_keep_ms: millis(limits.upload_keep),
        upload_idle_ms: millis(limits.idle_max),
        digests_max: DIGESTS_MAX,
        compile_code_bytes_max: limits.code_bytes_max,
        compile_functions_max: CompileLimits::DEFAULT.functions_max,
        compile_blocks_max: CompileLimits::DEFAULT.blocks_max,
        compile_operations_max: limits.operations_max,
        compile_memory_bytes_max: limits.memory_bytes_max,
        compile_wall_ms_max: millis(limits.wall_time_max),
        compile_workers_max: limits.workers_max as u64,
        downloads_max: DOWNLOADS_MAX as u64,
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Isa;

    use super::*;

    #[test]
    fn absent_options_mean_version_2_and_what_it_implies() {
        let two = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
        assert_eq!(options(None).unwrap(), two);
        let zero = v1::ScriptOptions { vm_version: Some(0), isa: None };
        assert_eq!(options(Some(zero)).unwrap(), CompileOptions { vm_version: 0, isa: Isa::IMC });
        let plain = v1::ScriptOptions { vm_version: Some(2), isa: Some("imc".to_owned()) };
        assert_eq!(options(Some(plain)).unwrap(), CompileOptions { vm_version: 2, isa: Isa::IMC });
    }

    #[test]
    fn wrong_options_are_named() {
        for (vm_version, isa) in [(Some(3), None), (None, Some("rv64")), (None, Some(""))] {
            let wrong = v1::ScriptOptions { vm_version, isa: isa.map(str::to_owned) };
            assert_eq!(options(Some(wrong)).unwrap_err().reason(), "OPTIONS_INVALID");
        }
    }

    #[test]
    fn digests_are_read_in_either_case_and_written_in_lower() {
        let text = "AB".repeat(32);
        assert_eq!(digest("x", &text).unwrap().to_string(), text.to_lowercase());
        assert_eq!(digest("x", "abc").unwrap_err().reason(), "DIGEST_MALFORMED");
    }
}
