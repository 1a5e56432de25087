//! The program `ckb-debugger` in the sandbox: the interpreter in a separate process, and concurrent native code
//! if a script takes long.

use std::{
    io,
    net::TcpStream,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa, Sha256Digest};
use antares_cli::{
    args::CodeArgs,
    input::verify_request,
    limits::DEADLINE_MS_MAX,
    local::engine,
    local::native::Code,
    local::workers::{accepted, degraded},
    output::verdict::Group,
};
use antares_hosted::job::{DebugEnd, HostedDebug, HostedJob, HostedNews};
use antares_pool::{Hosted, ParentLink, ProcessKind, layers_missing, settle, worker_path};
use antares_transaction::programs;
use antares_verifier::serve_job;

use crate::{
    ckb_debugger::{ChosenScript, Ending, Hears, Helpers, Raced, Rival, RunningScript},
    command,
};

/// Runs the program with the arguments of this process.
#[must_use]
pub fn ckb_debugger() -> ExitCode {
    settle(ProcessKind::Command);
    let helpers = Helpers { rival: Some(Rival { is_ready, race }), gdb: Some(serve) };
    crate::ckb_debugger::debug(std::env::args_os(), begin, helpers)
}

/// Creates a process for one script.
fn begin(job: HostedJob) -> Result<Box<dyn RunningScript>, Ending> {
    let hosted = fork(job).map_err(|error| Ending::Error(error.to_string()))?;
    Ok(Box::new(Running(hosted)))
}

/// Starts `job` in a forked child, which takes a tenth of the time of a program start; or in the run worker, if
/// this process has several threads.
fn fork(job: HostedJob) -> io::Result<Hosted> {
    let accepted = accepted().map_err(io::Error::other)?;
    let mut job = Some(job);
    let taken = &mut job;
    let forked = Hosted::fork(|pipes, missing| {
        if let Some(news) = layers_missing(missing, |layer| accepted.contains(&layer)) {
            let _ = pipes.notify(&news);
        } else if let Some(job) = taken.take() {
            serve_job(job, Arc::new(ParentLink(pipes)));
        }
    })?;
    if let Some(hosted) = forked {
        return Ok(hosted);
    }
    let worker = worker_path("antares-run-worker").map_err(io::Error::other)?;
    let mut hosted = Hosted::start(&worker, &accepted).map_err(io::Error::other)?;
    if let Some(job) = &job {
        hosted.give(job)?;
    }
    Ok(hosted)
}

/// The interpreter in a separate process.
struct Running(Hosted);

impl RunningScript for Running {
    fn hear(&mut self, hears: &mut Hears, until: Option<Instant>) -> Result<bool, Ending> {
        let lost = |_: io::Error| Ending::lost();
        loop {
            let news = match until {
                None => self.0.news().map_err(lost)?,
                Some(until) => match self.0.news_until(until).map_err(lost)? {
                    Some(news) => news,
                    None => return Ok(false),
                },
            };
            if let HostedNews::LayersMissing { text, names } = news {
                return Err(Ending::Error(degraded(&text, &names).to_string()));
            }
            let is_last =
                matches!(news, HostedNews::Ended(_) | HostedNews::Refused(_) | HostedNews::Decoded(_));
            let answer = hears(news)?;
            if is_last {
                return Ok(true);
            }
            if let Some(answer) = answer {
                self.0.answer(&answer).map_err(lost)?;
            }
        }
    }
}

/// A gdb server in a separate process.
fn serve(job: HostedDebug, stream: TcpStream, line: &dyn Fn(u64, &str)) -> Result<DebugEnd, Ending> {
    let served = command::start(HostedJob::Debug(Box::new(job)))
        .and_then(|hosted| command::relay(hosted, stream, line));
    served.map_err(|failure| Ending::Error(failure.to_string()))
}

/// Whether there is native code, for workers of a pool.
fn is_ready(target: &ChosenScript) -> bool {
    let code = Code::new(CodeArgs::default());
    let programs = programs(&target.mock, &target.environment);
    programs.iter().take(1).any(|program| {
        let options = |vm_version| CompileOptions { vm_version, isa: Isa::of_version(vm_version) };
        program.vm_versions.iter().any(|version| code.has(Sha256Digest::of(&program.elf), options(*version)))
    })
}

/// Runs native code in workers of a pool.
fn race(target: &ChosenScript, cycles_max: u64) -> Option<Raced> {
    let request = verify_request::Request {
        json: target.mock.to_json(),
        environment: target.environment,
        group: Some((target.kind, target.cell)),
        cycles_max: Some(cycles_max),
        deadline: Some(Duration::from_millis(DEADLINE_MS_MAX)),
        ..verify_request::Request::default()
    };
    let verdict = engine::verify(&request).ok()?;
    let is_asked = |group: &Group| group.exit_code.is_some() && group.debug_lines_left_out == 0;
    let group = verdict.groups.into_iter().find(is_asked)?;
    Some(Raced { lines: group.debug, exit_code: group.exit_code?, cycles: group.cycles })
}
