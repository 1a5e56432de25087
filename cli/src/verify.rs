//! `antares verify`: runs the scripts of a transaction and reports whether they accept it.

use std::{fmt, path::Path, process::ExitCode, str::FromStr, time::Duration};

use antares_pool::job;
use antares_transaction::{Environment, limits::TRANSACTION_BYTES_MAX, template};
use anyhow::{Context as _, anyhow};

use crate::{
    args::{CodeArgs, CredentialArgs, GroupKind, VerifyArgs},
    failure::Failure,
    input, local, output,
    verdict::Verdict,
};

/// One verification as asked for, checked.
#[derive(Debug)]
pub(crate) struct Request {
    /// The transaction in ckb-debugger's JSON, without placeholders.
    pub json: Vec<u8>,
    /// The rules.
    pub environment: Environment,
    /// The only group to run.
    pub group: Option<(job::GroupKind, job::CellName)>,
    /// Which tiers may run.
    pub tier: job::Tier,
    /// Where native code comes from, on this machine.
    pub code: CodeArgs,
    /// Cycles of all groups together.
    pub cycles_max: Option<u64>,
    /// Wall time, without compiles.
    pub deadline: Option<Duration>,
    /// Whether a server is to verify it twice and compare.
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "there is no client in this binary"))]
    pub recheck: bool,
}

/// A cell of the transaction, as `input.N` or `output.N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellName(pub job::CellName);

/// What is no name of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoCellName;

impl fmt::Display for NoCellName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be input.N or output.N")
    }
}

impl std::error::Error for NoCellName {}

impl FromStr for CellName {
    type Err = NoCellName;

    fn from_str(text: &str) -> Result<Self, NoCellName> {
        let (list, index) = text.split_once('.').ok_or(NoCellName)?;
        let index = index.parse().map_err(|_| NoCellName)?;
        match list {
            "input" => Ok(Self(job::CellName::Input(index))),
            "output" => Ok(Self(job::CellName::Output(index))),
            _ => Err(NoCellName),
        }
    }
}

/// Verifies what `args` say.
pub(crate) fn verify(args: VerifyArgs) -> Result<ExitCode, Failure> {
    let environment = match (args.script_version, args.mainnet_epoch) {
        (Some(version), _) => Environment::of_version(version),
        (None, Some(epoch)) => Environment::mainnet(epoch),
        (None, None) => Environment::default(),
    };
    let kind = args.group.map(|kind| match kind {
        GroupKind::Lock => job::GroupKind::Lock,
        GroupKind::Type => job::GroupKind::Type,
    });
    let request = Request {
        json: read_transaction(&args.tx)?,
        environment,
        group: kind.zip(args.cell.map(|cell| cell.0)),
        tier: args.tier,
        code: args.code,
        cycles_max: args.max_cycles,
        deadline: args.deadline_ms.map(Duration::from_millis),
        recheck: args.recheck,
    };
    let server = args.code.server(args.server.as_deref());
    let report = match server.as_deref() {
        None => args.credentials.without_server(args.recheck).and_then(|()| local::verify(&request)),
        Some(url) => verify_there(url, &args.credentials, &request),
    }?;
    output::print(if args.json { report.to_json() } else { report.to_text() }.as_bytes())?;
    Ok(report.exit_status())
}

#[cfg(feature = "server")]
fn verify_there(url: &str, credentials: &CredentialArgs, request: &Request) -> Result<Verdict, Failure> {
    crate::remote::Server::parse(url, credentials)?.verify(request)
}

#[cfg(not(feature = "server"))]
fn verify_there(url: &str, _credentials: &CredentialArgs, _request: &Request) -> Result<Verdict, Failure> {
    Err(crate::run::no_server(url))
}

/// The text at `path`, `-` for standard input, with its placeholders filled in if it is a file.
pub(crate) fn read_transaction(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = input::read(path, TRANSACTION_BYTES_MAX as u64)?;
    if input::is_stdio(path) || !bytes.windows(2).any(|pair| pair == b"{{") {
        return Ok(bytes);
    }
    let text =
        String::from_utf8(bytes).context("the transaction is no UTF-8 text").map_err(Failure::Usage)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    template::expand(&text, folder)
        .map(String::into_bytes)
        .map_err(|error| Failure::Usage(anyhow!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_names() {
        assert_eq!("input.0".parse(), Ok(CellName(job::CellName::Input(0))));
        assert_eq!("output.12".parse(), Ok(CellName(job::CellName::Output(12))));
        for text in ["", "input", "input.", "input.-1", "inputs.0", "input.0.lock"] {
            assert_eq!(text.parse::<CellName>(), Err(NoCellName), "{text}");
        }
    }
}
