//! The compiler service as a process of its own.

use std::process::ExitCode;

use antares_compiler_svc::app;
use antares_config::{Config, Role};
use antares_serve::{Host, Metrics, Options, admin::build_facts};
use anyhow::Context;
use clap::Parser;

/// Compiles scripts ahead of time and keeps what it compiled, over gRPC.
#[derive(Debug, Parser)]
#[command(name = "antares-compiler-svc", version)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    antares_pool::settle(antares_pool::ProcessKind::Service);
    let options = Cli::parse().options;
    antares_serve::main(&options, Role::Compiler, &app::layer_names(), |config| Ok(run(config)?))
}

fn run(config: &Config) -> anyhow::Result<()> {
    let pool = app::start_pool(config).context("compile workers")?;
    let host = Host::start(config, Role::Compiler)?;
    let metrics = Metrics::new();
    metrics.build_info(&build_facts());
    let compiler = app::build(config, pool, &metrics)?;
    let served = {
        let _entered = host.enter();
        app::app(&compiler, config)
    };
    let last = compiler.clone();
    let ready = |health| app::watch_health(compiler, health);
    host.serve(config, served, metrics, ready, async move { last.flush().await })?;
    Ok(())
}
