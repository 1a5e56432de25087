//! The compiler service as a process of its own.
#![forbid(unsafe_code)]

use std::io::Write;

use antares_compiler_svc::app;
use antares_serve::{Host, Metrics, Options, Request, Role};
use clap::Parser;

/// Compiles scripts ahead of time and keeps what it compiled, over gRPC.
#[derive(Debug, Parser)]
#[command(name = "antares-compiler-svc", version)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> anyhow::Result<()> {
    let config = match Cli::parse().options.resolve(Role::Compiler, &app::layer_names())? {
        Request::Serve(config) => config,
        Request::Print(text) => return Ok(std::io::stdout().write_all(text.as_bytes())?),
    };
    let pool = app::start_pool(&config)?;
    let host = Host::start(&config, "antares-compiler")?;
    let metrics = Metrics::new();
    metrics.build_info(&app::build_facts());
    let compiler = app::build(&config, pool, &metrics)?;
    let served = app::app(&compiler, &config);
    host.serve(&config, served, metrics, |health| app::watch_health(compiler, health))?;
    Ok(())
}
