//! `antares run`: runs a script, here or on a server, and reports the outcome.

use std::{os::unix::ffi::OsStringExt, process::ExitCode};

use antares_abi::Tier;
use antares_transaction::Environment;

use crate::{
    args::{CredentialArgs, run::RunArgs},
    commands::verify,
    failure::Failure,
    input,
    input::run_request::Request,
    input::verify_request,
    limits::CYCLES_MAX_DEFAULT,
    local::diagnosis,
    local::engine,
    output,
    output::report::Report,
};

/// Runs the script that `args` name.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    diagnosis::check_files(&args.how.diagnosis)?;
    if args.lock.as_lock {
        return run_as_lock(&args);
    }
    let how = args.how;
    let request = Request {
        elf: input::read_script(&args.script.elf)?,
        options: args.script.machine.options(),
        tier: how.tier,
        code: how.code,
        args: args.args.into_iter().map(OsStringExt::into_vec).collect(),
        cycles_max: how.limits.max_cycles,
        deadline: how.limits.deadline(),
        recheck: how.recheck,
        diagnosis: how.diagnosis.is_for_server(how.json),
    };
    let server = how.code.server(how.server.as_deref());
    let mut report = match server.as_deref() {
        None => how
            .credentials
            .without_server(how.recheck)
            .and_then(|()| run_native_or_explain(&request, engine::run)),
        Some(url) => run_there(url, &how.credentials, &request),
    }?;
    let of_here = server.is_none().then_some(CYCLES_MAX_DEFAULT);
    report.name_limit(request.cycles_max.or(of_here));
    report.explain_restart(request.options.isa);
    if !how.json {
        output::print_text(&report.to_text())?;
    }
    let found = match how.diagnosis.is_printed(how.json) {
        true => diagnosis::or_hint(diagnosis::of_run(&request, &report, &how.diagnosis), &how.diagnosis)?,
        false => Vec::new(),
    };
    match how.json {
        true => output::print(diagnosis::to_json(&report, &found, &how.diagnosis).as_bytes()),
        false => output::print_text(&diagnosis::to_text(&found, report.error.as_deref(), &how.diagnosis)),
    }?;
    Ok(status(report.exit_status(), report.cycles, args.expect_cycles))
}

/// Runs the script as the lock of the only input of a generated transaction.
fn run_as_lock(args: &RunArgs) -> Result<ExitCode, Failure> {
    let mock = args.lock.to_mock(&args.script.elf)?;
    let environment = Environment::of_version(args.script.machine.vm_version);
    let request = verify_request::Request::new(mock.to_json(), environment, &args.how);
    let report = verify::anywhere(&request, &args.how)?;
    verify::print_verdict(&request, &report, &args.how.diagnosis, args.how.json)?;
    Ok(status(report.exit_status(), report.cycles, args.expect_cycles))
}

/// `status`, or a failure if an accepted run took other than the `expected` cycles.
fn status(status: ExitCode, cycles: u64, expected: Option<u64>) -> ExitCode {
    match expected {
        Some(expected) if status == ExitCode::SUCCESS && cycles != expected => {
            eprintln!("antares: {cycles} cycles, {expected} were expected");
            ExitCode::FAILURE
        }
        _ => status,
    }
}

#[cfg(feature = "server")]
fn run_there(url: &str, credentials: &CredentialArgs, request: &Request) -> Result<Report, Failure> {
    let server = crate::remote::calls::Server::parse(url, credentials)?;
    run_native_or_explain(request, |request| server.run(request))
}

#[cfg(not(feature = "server"))]
fn run_there(url: &str, _credentials: &CredentialArgs, _request: &Request) -> Result<Report, Failure> {
    Err(crate::failure::no_server(url))
}

/// Runs `request`. A script that the VM cannot load has no native code, but the interpreter names its outcome
/// without executing an instruction.
fn run_native_or_explain(
    request: &Request,
    run: impl Fn(&Request) -> Result<Report, Failure>,
) -> Result<Report, Failure> {
    let refusal = match run(request) {
        Err(refusal @ Failure::Refused { .. }) => refusal,
        answer => return answer,
    };
    if refusal.is_of_the_vm() {
        let report = run(&Request { tier: Tier::Interpreter, ..request.clone() })?;
        if report.interpreted_cycles == 0 {
            return Ok(report);
        }
    }
    // Status 1 requires an outcome; this script has none.
    Err(Failure::Service(anyhow::Error::from(refusal)))
}
