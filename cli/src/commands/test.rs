//! `antares test`: builds a folder, and runs its transactions against their expectations.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::draft::{Built, Expected};
use antares_abi::Sha256Digest;
use anyhow::{Context as _, anyhow};
use serde::Serialize;

use crate::{
    args::{DiagnosisArgs, test::TestArgs},
    commands::{
        runnable::{files, in_parallel, is_transaction},
        verify::{read_draft, read_transaction},
    },
    failure::Failure,
    input::verify_request::Request,
    local::{diagnosis, engine},
    output,
    output::{
        color::{Mood, paint},
        report::grouped,
        verdict::{Outcome, Verdict},
    },
};

/// File with the meanings of exit codes; optional.
const ERROR_CODES: &str = "errors.txt";

/// Errors of scripts that ran. With others, such as `ScriptNotFound`, no script ran.
const REFUSALS: [&str; 3] = ["ValidationFailure", "VMInternalError", "ExceededMaximumCycles"];

/// Output of `--json`: a contract.
#[derive(Serialize)]
pub(crate) struct Round {
    is_built: bool,
    passed: usize,
    failed: usize,
    /// Tests that ran.
    tests: Vec<Answer>,
}

/// Result of a test.
#[derive(Clone, Serialize)]
struct Answer {
    name: String,
    is_passed: bool,
    expected: String,
    outcome: String,
    cycles: u64,
    /// Output of `verify`, if the test failed.
    report: Option<String>,
}

/// The tests of a folder, and their last results.
pub(crate) struct Suite<'a> {
    args: &'a TestArgs,
    answers: BTreeMap<PathBuf, (Sha256Digest, Answer)>,
}

pub(crate) fn test(args: &TestArgs) -> Result<ExitCode, Failure> {
    let round = Suite::new(args).run()?;
    round.print(args.json)?;
    Ok(if round.is_built && round.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl<'a> Suite<'a> {
    pub(crate) fn new(args: &'a TestArgs) -> Self {
        Self { args, answers: BTreeMap::new() }
    }

    /// Builds, then runs the tests whose transactions changed since the last round.
    pub(crate) fn run(&mut self) -> Result<Round, Failure> {
        let folder = &self.args.folder;
        if !make(folder)? {
            return Ok(Round { is_built: false, passed: 0, failed: 0, tests: Vec::new() });
        }
        let mut found = Vec::new();
        for path in files(folder)? {
            if named(&path, folder).contains(&self.args.only) && is_transaction(&path)? {
                found.push(path);
            }
        }
        if found.is_empty() {
            return Err(Failure::Usage(anyhow!("{} has no transactions to test", folder.display())));
        }
        let run = |path: &PathBuf| answer(path, folder, self.answers.get(path).map(|(of, _)| *of));
        let ran: Vec<_> = in_parallel(&found, |path| Ok(run(path)?.map(|answer| (path.clone(), answer))))?;
        self.answers.retain(|path, _| found.contains(path));
        let tests = ran.iter().flatten().map(|(_, (_, answer))| answer.clone()).collect();
        self.answers.extend(ran.into_iter().flatten());
        let passed = self.answers.values().filter(|(_, answer)| answer.is_passed).count();
        Ok(Round { is_built: true, passed, failed: self.answers.len() - passed, tests })
    }
}

impl Round {
    /// Whether there are results to report.
    pub(crate) fn has_news(&self) -> bool {
        !self.is_built || !self.tests.is_empty()
    }

    pub(crate) fn print(&self, is_json: bool) -> Result<(), Failure> {
        if is_json {
            let json = serde_json::to_string(self).unwrap_or_default();
            return output::print((output::printable(&json) + "\n").as_bytes());
        }
        let mut text = String::new();
        for Answer { name, is_passed, expected, outcome, cycles, report } in &self.tests {
            let (word, mood) = if *is_passed { ("ok    ", Mood::Good) } else { ("FAILED", Mood::Bad) };
            let _ = write!(
                text,
                "{}  {}: {}",
                paint(word, mood),
                output::printable(name),
                output::printable(outcome)
            );
            let _ = match is_passed {
                true => writeln!(text, ", {} cycles", grouped(*cycles)),
                false => writeln!(text, "; expected: {expected}"),
            };
            text += report.as_deref().unwrap_or_default();
        }
        match self.is_built {
            true => {
                let _ = writeln!(text, "{} passed, {} failed", self.passed, self.failed);
            }
            false => text += "the build failed\n",
        }
        output::print_text(&text)
    }
}

/// Runs make if there is a Makefile; whether it succeeded. Its output goes to standard error.
fn make(folder: &Path) -> Result<bool, Failure> {
    if !folder.join("Makefile").exists() {
        return Ok(true);
    }
    let errors = io::stderr().as_fd().try_clone_to_owned();
    let errors = errors.context("cannot use standard error").map_err(Failure::Service)?;
    let status = Command::new("make").arg("--silent").current_dir(folder).stdout(errors).status();
    Ok(status.context("cannot run make").map_err(Failure::Usage)?.success())
}

fn named(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

/// Runs the transaction at `path`, unless its digest is still `last`.
fn answer(
    path: &Path,
    folder: &Path,
    last: Option<Sha256Digest>,
) -> Result<Option<(Sha256Digest, Answer)>, Failure> {
    let name = named(path, folder);
    let built = match path.extension().is_some_and(|end| end == "toml") {
        true => read_draft(path),
        false => read_transaction(path).map(|json| Built { json, expected: Expected::Accepted }),
    };
    let (digest, answered) = match built {
        Err(failure @ Failure::Usage(_)) => {
            let digest = Sha256Digest::of(failure.to_string().as_bytes());
            (digest, Ok(malformed(name, "a transaction".to_owned(), &failure)))
        }
        Err(failure) => return Err(failure),
        Ok(built) => {
            let digest = Sha256Digest::of(format!("{}", built.expected).as_bytes());
            let digest = Sha256Digest::of(&[&digest.0[..], &built.json].concat());
            if last == Some(digest) {
                return Ok(None);
            }
            (digest, verified(built, name, folder))
        }
    };
    if last == Some(digest) {
        return Ok(None);
    }
    Ok(Some((digest, answered.map_err(|failure| failure.of(&path.display().to_string()))?)))
}

/// An answer without a verdict, which matches no expectation.
fn malformed(name: String, expected: String, failure: &Failure) -> Answer {
    let report = Some(format!("  {}\n", output::printable(&failure.to_string())));
    Answer { name, is_passed: false, expected, outcome: "malformed".to_owned(), cycles: 0, report }
}

fn verified(built: Built, name: String, folder: &Path) -> Result<Answer, Failure> {
    let Built { json, expected } = built;
    let request = Request { json, ..Request::default() };
    let verdict = match engine::verify(&request) {
        Err(failure @ Failure::Usage(_)) => return Ok(malformed(name, expected.to_string(), &failure)),
        verdict => verdict?,
    };
    let codes: Vec<i8> =
        verdict.groups.iter().filter_map(|group| group.exit_code).filter(|code| *code != 0).collect();
    let is_accepted = verdict.outcome == Outcome::Ok;
    let is_passed = match expected {
        Expected::Accepted => is_accepted,
        Expected::Rejected => {
            let mut errors = verdict.groups.iter().filter_map(|group| group.error.as_ref());
            errors.any(|error| REFUSALS.contains(&&*error.kind))
        }
        Expected::Exit(code) => codes.contains(&code),
    };
    let outcome = match codes.first() {
        _ if is_accepted => Expected::Accepted.to_string(),
        Some(code) => Expected::Exit(*code).to_string(),
        None => verdict.error.clone().unwrap_or_else(|| Expected::Rejected.to_string()),
    };
    let report = if is_passed { None } else { Some(explained(&request, &verdict, folder)?) };
    Ok(Answer { name, is_passed, expected: expected.to_string(), outcome, cycles: verdict.cycles, report })
}

/// Output of `verify`.
fn explained(request: &Request, verdict: &Verdict, folder: &Path) -> Result<String, Failure> {
    let codes = folder.join(ERROR_CODES);
    let args = DiagnosisArgs { error_codes: codes.exists().then_some(codes), ..DiagnosisArgs::default() };
    let found = diagnosis::or_hint(diagnosis::of_verdict(request, verdict, &args), &args)?;
    Ok(verdict.to_text() + &diagnosis::to_text(&found, verdict.vm_error(), &args))
}
