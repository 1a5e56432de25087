//! The runner service as a process of its own.

use std::{process::ExitCode, sync::Arc};

use antares_config::{Config, Role};
use antares_runner_svc::{RemoteSource, Runner, app};
use antares_serve::{Health, Host, Metrics, Options, admin::build_facts};
use anyhow::Context;
use clap::Parser;

/// Runs scripts in jailed workers, over gRPC. Scripts and native code come from a compiler service.
#[derive(Debug, Parser)]
#[command(name = "antares-runner-svc", version)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    antares_pool::settle(antares_pool::ProcessKind::Service);
    let options = Cli::parse().options;
    antares_serve::main(&options, Role::Runner, &app::layer_names(), |config| Ok(run(config)?))
}

fn run(config: &Config) -> anyhow::Result<()> {
    let pool = app::start_pool(config).context("run workers")?;
    let host = Host::start(config, Role::Runner)?;
    let metrics = Metrics::new();
    metrics.build_info(&build_facts());
    let source = {
        let _entered = host.enter();
        Arc::new(RemoteSource::new(config, &metrics)?)
    };
    let runner = Runner::new(pool, source.clone(), config, &metrics)?;
    let served = {
        let _entered = host.enter();
        app::app(&runner, &source, config)
    };
    let ready = |health: Health| {
        app::watch_compilers(source, health.clone());
        app::watch_health(runner, health);
    };
    host.serve(config, served, metrics, ready, async {})?;
    Ok(())
}
