//! Common capabilities of both services for `GetCapabilities`.

use crate::Account;
use antares_abi::{
    ABI_VERSION, CodeTier, CompileOptions, ENGINE_VERSION, Isa, LLVM_VERSION, TARGET_CPU, TARGET_FEATURES,
    TARGET_TRIPLE,
};
use antares_pool::LayerStatus;
use antares_proto::v1;

/// Definition of cycles.
const COST_MODEL: &str = "ckb-vm 0.24.15";

/// Versions of this process and of its native code.
pub fn versions() -> v1::EngineVersions {
    v1::EngineVersions {
        server: env!("CARGO_PKG_VERSION").to_owned(),
        engine: ENGINE_VERSION,
        abi: ABI_VERSION,
        llvm: LLVM_VERSION.to_owned(),
        target_triple: TARGET_TRIPLE.to_owned(),
        target_cpu: TARGET_CPU.to_owned(),
        target_features: TARGET_FEATURES.to_owned(),
        cost_model: COST_MODEL.to_owned(),
    }
}

/// Labels of `antares_build_info`.
pub fn build_facts() -> [(&'static str, String); 6] {
    [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("revision", option_env!("ANTARES_REVISION").unwrap_or("unknown").to_owned()),
        ("engine", ENGINE_VERSION.to_string()),
        ("llvm", LLVM_VERSION.to_owned()),
        ("target_cpu", TARGET_CPU.to_owned()),
        ("cost_model", COST_MODEL.to_owned()),
    ]
}

/// The caller's quotas.
pub fn quotas(account: &Account) -> v1::TenantQuotas {
    let quota = account.quota();
    v1::TenantQuotas {
        tenant: account.tenant().to_owned(),
        calls_max: quota.calls_max,
        guest_cycles_per_second: quota.guest_cycles_per_second,
        compile_seconds_per_hour: quota.compile_seconds_per_hour,
        stored_bytes_max: quota.stored_bytes_max,
        calls_in_progress: account.calls_in_progress(),
    }
}

/// VM versions that both services know.
pub const VM_VERSIONS: [u32; 3] = [0, 1, 2];

/// Instruction sets that both services know.
pub const ISAS: [&str; 4] = ["imc", "imc+b", "imc+mop", "imc+b+mop"];

/// Converts compile options.
///
/// # Errors
/// The invalid field, and why.
pub fn compile_options(options: v1::ScriptOptions) -> Result<CompileOptions, (&'static str, String)> {
    let vm_version = options.vm_version.unwrap_or(2);
    if !VM_VERSIONS.contains(&vm_version) {
        return Err(("vm_version", format!("must be 0, 1 or 2, is {vm_version}")));
    }
    let isa = options.isa.as_deref().map_or(Ok(Isa::of_version(vm_version)), str::parse);
    Ok(CompileOptions { vm_version, isa: isa.map_err(|error| ("isa", error.to_string()))? })
}

/// The generator of native code.
pub fn code_tier(tier: CodeTier) -> v1::CodeTier {
    match tier {
        CodeTier::Baseline => v1::CodeTier::Baseline,
        CodeTier::Full => v1::CodeTier::Full,
    }
}

/// The layers of the workers' sandbox, as both services show them.
pub fn sandbox(layers: &[LayerStatus]) -> Vec<v1::SandboxLayer> {
    let layer = |status: &LayerStatus| v1::SandboxLayer {
        name: status.layer.name().to_owned(),
        active: status.active,
        detail: status.detail.clone(),
    };
    layers.iter().map(layer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_model_is_the_ckb_vm_that_is_linked() {
        let lock =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../Cargo.lock")).unwrap();
        let (name, version) = COST_MODEL.split_once(' ').unwrap();
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"")));
    }
}
