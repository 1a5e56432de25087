//! `antares verify`: runs the scripts of a transaction and reports whether they accept it.

use std::{fs, path::Path, process::ExitCode};

use antares_transaction::{
    Environment, MockError,
    limits::TRANSACTION_BYTES_MAX,
    template::{self, source_column},
};
use anyhow::anyhow;

use crate::{
    args::{CredentialArgs, DiagnosisArgs, execution::ExecutionArgs, verify::VerifyArgs},
    failure::Failure,
    input,
    input::verify_request::Request,
    local::diagnosis,
    local::engine,
    output,
    output::verdict::Verdict,
};

/// Verifies the transaction that `args` name.
pub(crate) fn verify(args: VerifyArgs) -> Result<ExitCode, Failure> {
    let named = |failure| match &args.tx {
        Some(path) => of_file(failure, path),
        None => failure,
    };
    diagnosis::check_files(&args.how.diagnosis)?;
    let source = source(&args).map_err(named)?;
    let environment = match (args.script_version, args.mainnet_epoch) {
        (Some(version), _) => Environment::of_version(version),
        (None, Some(epoch)) => Environment::mainnet(epoch),
        (None, None) => source.environment,
    };
    let request = Request {
        is_bare: source.is_bare,
        group: args.group.zip(args.cell),
        ..Request::new(source.json, environment, &args.how)
    };
    if request.is_bare && args.how.diagnosis.verbose > 1 {
        let why =
            "-vv runs the scripts again on this machine, where the cells are missing: name a node with --rpc";
        return Err(Failure::Usage(anyhow!(why)));
    }
    let report = anywhere(&request, &args.how).map_err(named)?;
    print_verdict(&request, &report, &args.how.diagnosis, args.how.json)?;
    if let Some(cycles) = source.cycles.filter(|cycles| *cycles != report.cycles && request.group.is_none()) {
        eprintln!("antares: {} cycles here, {cycles} as the node says", report.cycles);
    }
    Ok(report.exit_status())
}

/// The same failure, with the name of the transaction's file and its columns.
fn of_file(failure: Failure, path: &Path) -> Failure {
    let Failure::Usage(mut error) = failure else { return failure };
    if let Some(mock) = error.downcast_ref::<MockError>()
        && let Ok(text) = fs::read_to_string(path)
    {
        let folder = path.parent().unwrap_or(Path::new(""));
        let line = |line: usize| text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let mock = mock.clone().with_column(|at, column| source_column(line(at), folder, column));
        error = anyhow!("the transaction cannot be used: {mock}");
    }
    match error.to_string().starts_with("the transaction") {
        true => Failure::Usage(error).of(&path.display().to_string()),
        false => Failure::Usage(error),
    }
}

/// The transaction, and further data from its source.
struct Source {
    json: Vec<u8>,
    /// Whether its cells are missing and must come from the server's node.
    is_bare: bool,
    /// The rules, unless arguments override them.
    environment: Environment,
    /// Cycles that a node reports.
    cycles: Option<u64>,
}

/// Reads the transaction, or fetches it from a node.
fn source(args: &VerifyArgs) -> Result<Source, Failure> {
    let json = args.tx.as_deref().map(read_transaction).transpose()?;
    #[cfg(feature = "server")]
    if let Some(taken) = crate::commands::of_chain::named(&args.of_chain, json.as_deref())? {
        crate::commands::dump::report_not_live(&taken);
        let (json, cycles) = (taken.resolved.to_json(), taken.cycles);
        return Ok(Source { json, is_bare: false, environment: taken.environment, cycles });
    }
    let json = json.ok_or_else(|| Failure::Usage(anyhow!("there is no transaction")))?;
    let whole = Source { json, is_bare: false, environment: Environment::default(), cycles: None };
    #[cfg(feature = "server")]
    {
        let has_server = args.how.code.server(args.how.server.as_deref()).is_some();
        let bare = crate::commands::of_chain::bare(&whole.json, args.of_chain.format, has_server)?;
        if let Some(json) = bare {
            return Ok(Source { json, is_bare: true, ..whole });
        }
    }
    Ok(whole)
}

/// Prints a verdict, and the causes of failures.
pub(crate) fn print_verdict(
    request: &Request,
    report: &Verdict,
    diagnosis: &DiagnosisArgs,
    is_json: bool,
) -> Result<(), Failure> {
    // Diagnosis takes longer than the verdict.
    if !is_json {
        output::print_text(&report.to_text())?;
    }
    let found = match diagnosis.is_printed(is_json) {
        true => diagnosis::or_hint(diagnosis::of_verdict(request, report, diagnosis), diagnosis)?,
        false => Vec::new(),
    };
    match is_json {
        true => output::print(diagnosis::to_json(report, &found, diagnosis).as_bytes()),
        false => output::print_text(&diagnosis::to_text(&found, report.vm_error(), diagnosis)),
    }
}

/// Verifies on this machine, or on the selected server.
pub(crate) fn anywhere(request: &Request, how: &ExecutionArgs) -> Result<Verdict, Failure> {
    match request.code.server(how.server.as_deref()).as_deref() {
        None => how.credentials.without_server(request.recheck).and_then(|()| engine::verify(request)),
        Some(url) => verify_there(url, &how.credentials, request),
    }
}

#[cfg(feature = "server")]
fn verify_there(url: &str, credentials: &CredentialArgs, request: &Request) -> Result<Verdict, Failure> {
    crate::remote::calls::Server::parse(url, credentials)?.verify(request)
}

#[cfg(not(feature = "server"))]
fn verify_there(url: &str, _credentials: &CredentialArgs, _request: &Request) -> Result<Verdict, Failure> {
    Err(crate::failure::no_server(url))
}

/// The transaction at `path`, `-` for standard input. Fills in placeholders in a JSON file; builds a TOML
/// file.
pub fn read_transaction(path: &Path) -> Result<Vec<u8>, Failure> {
    if path.extension().is_some_and(|end| end == "toml") {
        return read_draft(path).map(|built| built.json);
    }
    let bytes = input::read(path, TRANSACTION_BYTES_MAX as u64)?;
    let folder = (!input::is_stdio(path)).then(|| path.parent().unwrap_or(Path::new("")));
    template::expand_file(bytes, folder)
        .map_err(|error| Failure::Usage(anyhow!("{}: {error}", path.display())))
}

/// Builds the transaction that the TOML file at `path` describes, `-` for standard input.
pub(crate) fn read_draft(path: &Path) -> Result<crate::draft::Built, Failure> {
    let refused = |error: &dyn std::fmt::Display| Failure::Usage(anyhow!("{}: {error}", path.display()));
    let text = String::from_utf8(input::read(path, TRANSACTION_BYTES_MAX as u64)?);
    let text = text.map_err(|_| refused(&"this is no UTF-8 text"))?;
    crate::draft::build(&text, path.parent().unwrap_or(Path::new(""))).map_err(|error| refused(&error))
}
