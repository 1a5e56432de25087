//! `antares run`: runs a script, here or on a server, and reports how it ended.

use std::{os::unix::ffi::OsStringExt, process::ExitCode, time::Duration};

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Sha256Digest, Tier};

use crate::{
    args::{CodeArgs, CredentialArgs, RunArgs},
    failure::Failure,
    input, local, output,
    report::Report,
};

/// One run as asked for, checked.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The script.
    pub elf: Vec<u8>,
    /// How its bytes are to be understood.
    pub options: CompileOptions,
    /// Which tiers may run it.
    pub tier: Tier,
    /// Where native code comes from, on this machine.
    pub code: CodeArgs,
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
    /// Cycle limit; none for the default of whoever runs it.
    pub cycles_max: Option<u64>,
    /// Wall time of the run; none for the default of whoever runs it.
    pub deadline: Option<Duration>,
    /// Whether a server is to run it twice and compare.
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "there is no client in this binary"))]
    pub recheck: bool,
}

impl Request {
    /// Key of the artifact of this script under these options.
    pub(crate) fn artifact(&self) -> ArtifactKey {
        Sha256Digest::for_artifact(Sha256Digest::of(&self.elf), self.options, CodeTier::Full)
    }
}

/// Runs what `args` say.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let request = Request {
        elf: input::read_script(&args.script.elf)?,
        options: args.script.machine.options(),
        tier: args.tier,
        code: args.code,
        args: args.args.into_iter().map(OsStringExt::into_vec).collect(),
        cycles_max: args.max_cycles,
        deadline: args.deadline_ms.map(Duration::from_millis),
        recheck: args.recheck,
    };
    let server = args.code.server(args.server.as_deref());
    let report = match server.as_deref() {
        None => args
            .credentials
            .without_server(args.recheck)
            .and_then(|()| run_native_or_explain(&request, local::run)),
        Some(url) => run_there(url, &args.credentials, &request),
    }?;
    output::print(if args.json { to_json(&report) } else { report.to_text() }.as_bytes())?;
    Ok(status(&report, args.expect_cycles))
}

/// What the run says, unless its cycles are not those that were expected.
fn status(report: &Report, expected: Option<u64>) -> ExitCode {
    match expected {
        Some(cycles) if report.exit_status() == ExitCode::SUCCESS && report.cycles != cycles => {
            eprintln!("antares: {} cycles, {cycles} were expected", report.cycles);
            ExitCode::FAILURE
        }
        _ => report.exit_status(),
    }
}

#[cfg(feature = "server")]
fn run_there(url: &str, credentials: &CredentialArgs, request: &Request) -> Result<Report, Failure> {
    let server = crate::remote::Server::parse(url, credentials)?;
    run_native_or_explain(request, |request| server.run(request))
}

#[cfg(not(feature = "server"))]
fn run_there(url: &str, _credentials: &CredentialArgs, _request: &Request) -> Result<Report, Failure> {
    Err(no_server(url))
}

/// There is no client in this binary.
#[cfg(not(feature = "server"))]
pub(crate) fn no_server(url: &str) -> Failure {
    Failure::Usage(anyhow::anyhow!("cannot reach {url}: this antares was built without the feature `server`"))
}

/// Runs `request`. A script that the VM cannot even load has no native code, but it has an outcome: the interpreter
/// names it, without running an instruction.
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
    // Status 1 is for scripts that have an outcome; this one has none.
    Err(Failure::Service(anyhow::Error::from(refusal)))
}

fn to_json(report: &Report) -> String {
    // Cannot fail: the report has no maps and no types of others.
    let json = serde_json::to_string(report).unwrap_or_default();
    json + "\n"
}
