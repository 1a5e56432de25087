//! Checks of the sections that have nothing but limits.

use std::time::Duration;

use crate::{
    check::Checker,
    listen_section::CHUNK_BYTES,
    raw_config::{RawCompiler, RawConfig, RawRunner, RawSandbox},
};

/// What `runner.reuse` may be.
const REUSE_POLICIES: [&str; 2] = ["per_execution", "per_artifact"];

/// Workers that may wait, whatever the configuration says.
const IDLE_WORKERS_MAX: u64 = 1_024;

/// Where profiles are sent, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilePush {
    /// A receiver of OTLP over gRPC, if it gets them.
    pub otlp_endpoint: Option<String>,
    /// Base URL of Pyroscope, if it gets them.
    pub pyroscope_url: Option<String>,
    /// Whether Pyroscope is told the tenant in a header.
    pub pyroscope_tenants: bool,
    /// Time between pushes.
    pub interval: Duration,
    /// Time for one profile.
    pub timeout: Duration,
}

/// None where nobody gets profiles.
pub(crate) fn check_profile_push(config: &RawConfig, checker: &mut Checker) -> Option<ProfilePush> {
    let raw = &config.profile_push;
    let push = ProfilePush {
        otlp_endpoint: raw.otlp.then(|| config.trace.endpoint.clone()),
        pyroscope_url: (!raw.pyroscope_url.is_empty()).then(|| raw.pyroscope_url.clone()),
        pyroscope_tenants: raw.pyroscope_tenants,
        interval: checker.time("profile_push.interval_ms", raw.interval_ms),
        timeout: checker.time("profile_push.timeout_ms", raw.timeout_ms),
    };
    if push.otlp_endpoint.as_ref().is_some_and(String::is_empty) {
        checker.note("profile_push.otlp", "needs trace.endpoint".to_owned());
    }
    if let Some(url) = &push.pyroscope_url {
        checker.url("profile_push.pyroscope_url", url);
    }
    let is_on = push.otlp_endpoint.is_some() || push.pyroscope_url.is_some();
    if is_on && config.runner.sample_cycles == 0 {
        checker.note("profile_push", "makes no sense where runner.sample_cycles is 0".to_owned());
    }
    is_on.then_some(push)
}

pub(crate) fn check_compiler(raw: &RawCompiler, checker: &mut Checker) {
    checker.workers("compiler.workers_max", raw.workers_max);
    checker.at_least("compiler.chunk_bytes_max", raw.chunk_bytes_max, CHUNK_BYTES);
    checker.count("compiler.uploads_max", raw.uploads_max);
    checker.count("compiler.downloads_max", raw.downloads_max);
    checker.count("compiler.partial_uploads_max", raw.partial_uploads_max);
    if raw.upload_bytes_max / 2 < raw.script_bytes_max {
        let problem =
            "must be at least twice compiler.script_bytes_max: a tenant may have half of it".to_owned();
        checker.note("compiler.upload_bytes_max", problem);
    }
    for (key, value) in [
        ("compiler.script_bytes_max", raw.script_bytes_max),
        ("compiler.digests_max", raw.digests_max),
        ("compiler.code_bytes_max", raw.code_bytes_max),
        ("compiler.functions_max", raw.functions_max),
        ("compiler.blocks_max", raw.blocks_max),
        ("compiler.operations_max", raw.operations_max),
        ("compiler.memory_bytes_max", raw.memory_bytes_max),
        ("compiler.followers_max", raw.followers_max),
    ] {
        checker.positive(key, value);
    }
    for (key, value) in [
        ("compiler.idle_ms_max", raw.idle_ms_max),
        ("compiler.upload_keep_ms", raw.upload_keep_ms),
        ("compiler.refused_ttl_ms", raw.refused_ttl_ms),
        ("compiler.timeout_ttl_ms", raw.timeout_ttl_ms),
        ("compiler.queue_ms_max", raw.queue_ms_max),
        ("compiler.wall_ms_max", raw.wall_ms_max),
    ] {
        checker.time(key, value);
    }
}

pub(crate) fn check_sandbox(raw: &RawSandbox, layers: &[&str], checker: &mut Checker) {
    for name in raw.allow_degraded.iter().filter(|name| !layers.contains(&name.as_str())) {
        let known = layers.join(", ");
        checker.note("sandbox.allow_degraded", format!("no layer is called {name:?}; there are {known}"));
    }
    checker.positive("sandbox.zygote_workers_max", raw.zygote_workers_max);
    checker.time("sandbox.zygote_age_ms_max", raw.zygote_age_ms_max);
    if !raw.cgroup.as_os_str().is_empty() && raw.cgroup.is_relative() {
        checker.note("sandbox.cgroup", "must be an absolute path".to_owned());
    }
}

pub(crate) fn check_runner(raw: &RawRunner, checker: &mut Checker) {
    checker.workers("runner.workers_max", raw.workers_max);
    checker.count("runner.queue_max", raw.queue_max);
    if !REUSE_POLICIES.contains(&raw.reuse.as_str()) {
        let problem = format!("there is no policy {:?}; there are {}", raw.reuse, REUSE_POLICIES.join(", "));
        checker.note("runner.reuse", problem);
    }
    if raw.idle_workers_max > IDLE_WORKERS_MAX {
        checker.note("runner.idle_workers_max", format!("must be at most {IDLE_WORKERS_MAX}"));
    }
    for (key, value) in [
        ("runner.script_bytes_max", raw.script_bytes_max),
        ("runner.args_max", raw.args_max),
        ("runner.args_bytes_max", raw.args_bytes_max),
        ("runner.batch_runs_max", raw.batch_runs_max),
        ("runner.request_id_bytes_max", raw.request_id_bytes_max),
        ("runner.max_cycles_default", raw.max_cycles_default),
        ("runner.max_cycles_max", raw.max_cycles_max),
        ("runner.debug_bytes_max", raw.debug_bytes_max),
        ("runner.reuse_runs_max", raw.reuse_runs_max),
        ("runner.ready_bytes_max", raw.ready_bytes_max),
        ("runner.ready_entries_max", raw.ready_entries_max),
        ("runner.hot_cells_bytes_max", raw.hot_cells_bytes_max),
        ("runner.hot_cells_entries_max", raw.hot_cells_entries_max),
    ] {
        checker.positive(key, value);
    }
    for (key, value) in [
        ("runner.compiler_connect_ms_max", raw.compiler_connect_ms_max),
        ("runner.deadline_ms_max", raw.deadline_ms_max),
        ("runner.call_ms_max", raw.call_ms_max),
        ("runner.session_idle_ms_max", raw.session_idle_ms_max),
        ("runner.profile_keep_ms", raw.profile_keep_ms),
    ] {
        checker.time(key, value);
    }
    if raw.compiler_hedge_percent > 100 {
        checker.note("runner.compiler_hedge_percent", "must be at most 100".to_owned());
    }
    if raw.max_cycles_default > raw.max_cycles_max {
        checker.note("runner.max_cycles_default", "is more than runner.max_cycles_max".to_owned());
    }
    if raw.deadline_ms_max > raw.call_ms_max {
        checker.note("runner.deadline_ms_max", "is more than runner.call_ms_max".to_owned());
    }
}
