//! `antares doctor`: the sandbox layers that this machine can put around workers.

use std::{fmt::Write as _, process::ExitCode};

#[cfg(feature = "server")]
use antares_config::{ConfigError, ConfigFile};
use antares_pool::{Layer, LayerStatus, Pool, PoolConfig, surroundings};
#[cfg(feature = "server")]
use antares_runner_svc::{app, embedded};

use crate::{args::doctor::DoctorArgs, failure::Failure, local::workers::failed, output};

/// Layers that are off by default: what they guard, and their cost.
const PRICES: [(Layer, &str); 3] = [
    (
        Layer::StoreBypass,
        "store_bypass in sandbox.speculation_limits keeps a script from reading its own worker past its stores (Spectre v4); costs 12 % of the speed, up to 59 %",
    ),
    (
        Layer::IndirectBranches,
        "indirect_branches in sandbox.speculation_limits keeps tenants who share a core from steering each other's branches (Spectre v2); costs up to half of the speed where cores have two threads",
    ),
    (
        Layer::CoreScheduling,
        "core_scheduling in sandbox.speculation_limits keeps others from the threads of a worker's core; costs up to half of a machine whose cores have two threads",
    ),
];

/// Starts a zygote of each kind, runs its self-test, and prints the layers in force. Fails with 1 if a
/// required layer is missing.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let (mut text, mut missing) = (String::new(), Vec::new());
    for (role, config) in pools(args)? {
        // Report missing layers instead of refusing to start.
        let pool =
            Pool::start(PoolConfig { allow_degraded: Layer::ALL.to_vec(), ..config }).map_err(failed)?;
        let of_role = describe(role, pool.layers(), &mut text);
        missing.extend(of_role.into_iter().filter(|layer| !missing.contains(layer)).collect::<Vec<_>>());
    }
    for (layer, note) in PRICES {
        // Writing to a string does not fail.
        let _ = writeln!(text, "note     {}: {note}", layer.name());
    }
    for note in surroundings() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "note     {note}");
    }
    if missing.is_empty() {
        text.push_str("All required layers stand.\n");
    } else {
        let names = missing.iter().map(|layer| layer.name()).collect::<Vec<_>>().join(", ");
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "Required and missing: {names}. Services do not start here unless sandbox.allow_degraded names them."
        );
    }
    output::print(output::printable(&text).as_bytes())?;
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The services' pools, by the work of their workers.
#[cfg(feature = "server")]
fn pools(args: &DoctorArgs) -> Result<[(&'static str, PoolConfig); 2], Failure> {
    let usage = |error: ConfigError| Failure::Usage(error.into());
    let file = ConfigFile::read(args.config.as_deref(), None, None).map_err(usage)?;
    embedded::pool_configs(&file.check(file.role(), &app::layer_names()).map_err(usage)?).map_err(failed)
}

/// The pools of this command.
#[cfg(not(feature = "server"))]
fn pools(_: &DoctorArgs) -> Result<[(&'static str, PoolConfig); 2], Failure> {
    let config = |worker| Ok(PoolConfig::new(antares_pool::worker_path(worker).map_err(failed)?, 1));
    Ok([("run", config("antares-run-worker")?), ("compile", config("antares-compile-worker")?)])
}

/// Writes a line for each layer; returns the required layers that are missing.
fn describe(role: &str, layers: &[LayerStatus], text: &mut String) -> Vec<Layer> {
    for status in layers {
        let need = if status.layer.is_required() { "required" } else { "optional" };
        let state = if status.active { "stands" } else { "MISSING" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{role:8} {:18} {need} {state:8} {}", status.layer.name(), status.detail);
    }
    let is_missing = |layer: &Layer| {
        layer.is_required() && !layers.iter().any(|status| status.layer == *layer && status.active)
    };
    Layer::ALL.into_iter().filter(is_missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_layer_is_named() {
        let status = |layer: Layer| LayerStatus {
            layer,
            active: !matches!(layer, Layer::Landlock | Layer::Namespaces),
            detail: "why".to_owned(),
        };
        let layers: Vec<_> =
            Layer::ALL.into_iter().filter(|layer| *layer != Layer::Seccomp).map(status).collect();
        let mut text = String::new();
        let missing = describe("run", &layers, &mut text);
        assert_eq!(missing, [Layer::Landlock, Layer::Seccomp]);
        assert!(text.contains("landlock           required MISSING  why"), "{text}");
        assert!(text.contains("rlimits            required stands"), "{text}");
    }
}
