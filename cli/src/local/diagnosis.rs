//! Diagnosis of a failed script: a second run in the interpreter, in a jailed worker like the first.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_diagnosis::{Diagnosis, ErrorCodes, Inputs, diagnose};
use antares_pool::job::{DiagnosisJob, DiagnosisReport, ProfileJob, Tier, TransactionForm, VerifyJob};
use antares_profile::Profile;
use antares_profile::evidence::{Evidence, limits};
use antares_profile_view::{Programs, Sources, View};
use antares_transaction::{Mock, programs};
use anyhow::anyhow;
use serde::Serialize;

use crate::{
    args::{cell::cell_name, diagnosis::DiagnosisArgs},
    failure::Failure,
    input,
    input::parsed_transaction,
    input::run_request,
    input::verify_request,
    limits::{CYCLES_MAX_DEFAULT, DEADLINE_MS_DEFAULT, DIAGNOSIS_CYCLES_MAX, STEPS_SHOWN},
    local::workers,
    output,
    output::report::{self, Report, ServerDiagnosis},
    output::source_maps::SourceMaps,
    output::verdict::{self, Verdict},
};

/// Maximum length of a table of error codes, bytes.
const CODES_BYTES_MAX: u64 = 64 << 10;
/// Hides branches of the call tree below this share of its cost, in thousandths.
const TREE_SHARE: u64 = 1;
/// Maximum depth of the displayed call tree.
const TREE_DEPTH: usize = 32;

/// Diagnosis of one script.
pub struct Why {
    /// Script group, for a transaction.
    pub group: Option<String>,
    pub diagnosis: Option<Diagnosis>,
    /// The call tree, if requested; for a script without code, nearby symbols.
    tree: Option<String>,
}

/// A report with its diagnosis.
#[derive(Serialize)]
struct With<'a, R: Serialize> {
    #[serde(flatten)]
    report: &'a R,
    diagnosis: Option<&'a Diagnosis>,
}

/// `report` in JSON; with its diagnosis, if requested.
pub(crate) fn to_json<R: Serialize>(report: &R, found: &[Why], args: &DiagnosisArgs) -> String {
    let diagnosis = found.iter().find_map(|why| why.diagnosis.as_ref());
    let json = match args.is_whole() {
        true => serde_json::to_string(&With { report, diagnosis }),
        false => serde_json::to_string(report),
    };
    // Cannot fail: all maps have text keys.
    output::printable(&json.unwrap_or_default()) + "\n"
}

/// The diagnosis; if it failed and was not requested, only a note.
pub fn or_hint(found: Result<Vec<Why>, Failure>, args: &DiagnosisArgs) -> Result<Vec<Why>, Failure> {
    match found {
        Err(failure @ Failure::Service(_)) if !args.is_whole() => {
            eprintln!("antares: cannot tell why it failed: {}", output::printable(&failure.to_string()));
            Ok(Vec::new())
        }
        found => found,
    }
}

/// Text for people; for an `error` without a run, its meaning.
pub fn to_text(found: &[Why], error: Option<&str>, args: &DiagnosisArgs) -> String {
    let mut text = String::new();
    if !args.no_diagnosis && found.iter().all(|why| why.diagnosis.is_none()) {
        text += &error.and_then(antares_diagnosis::advice).map(|it| format!("  {it}\n")).unwrap_or_default();
    }
    for why in found {
        if let Some(group) = &why.group {
            let _ = writeln!(text, "{group}");
        }
        if let Some(diagnosis) = &why.diagnosis {
            text += &if args.is_whole() { diagnosis.to_text() } else { diagnosis.to_short_text() };
        }
        if let Some(tree) = &why.tree {
            text += tree;
        }
    }
    output::printable(&text)
}

/// Why a run failed; empty if it succeeded, or no diagnosis is wanted.
pub(crate) fn of_run(
    request: &run_request::Request,
    report: &Report,
    args: &DiagnosisArgs,
) -> Result<Vec<Why>, Failure> {
    let is_failure = matches!(report.outcome, report::Outcome::Error | report::Outcome::CyclesExceeded)
        || report.exit_code.is_some_and(|code| code != 0);
    let there = of_server(report.reported.as_ref(), &report.debug, args)?;
    if !there.is_empty() {
        return Ok(there);
    }
    if !is_wanted(is_failure, report.cycles, args) {
        return Ok(Vec::new());
    }
    let job = request.job(Tier::Interpreter);
    let answer =
        run_worker(job_of(ProfileJob::Run(job), report.cycles, args), &request.elf, request.deadline)?;
    let mut programs = Programs::default();
    programs.add(&request.elf);
    let codes = error_codes(args)?;
    let here = Sources::here();
    let known = Inputs {
        evidence: &evidence(&answer)?,
        programs: &programs,
        cells: &|_, _| None,
        source: &|file| here.read(file),
        codes: &codes,
        error: None,
        code_hash: None,
    };
    Ok(vec![explain(&answer, &known, &report.debug, args)?])
}

/// Why scripts of a transaction rejected it.
pub fn of_verdict(
    request: &verify_request::Request,
    verdict: &Verdict,
    args: &DiagnosisArgs,
) -> Result<Vec<Why>, Failure> {
    let failed = verdict.groups.iter().find(|group| group.outcome == verdict::Outcome::Failed);
    let debug = failed.map(|group| &*group.debug).unwrap_or_default();
    let there = of_server(verdict.reported.as_ref(), debug, args)?;
    if !there.is_empty() {
        return Ok(there);
    }
    let mut left = request.cycles_max.unwrap_or(CYCLES_MAX_DEFAULT);
    let mut wanted = Vec::new();
    for group in &verdict.groups {
        let is_failure = group.outcome == verdict::Outcome::Failed;
        let has_run = is_failure || group.outcome == verdict::Outcome::Ok;
        if has_run && is_wanted(is_failure, group.cycles, args) {
            wanted.push((group, left));
        }
        left = left.saturating_sub(group.cycles);
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    if request.is_bare {
        // With a server, the request already included the diagnosis.
        return Ok(Vec::new());
    }
    let mock = parsed_transaction::read(&request.json)?;
    for (dep, index) in mock.as_ckb().mock_info.cell_deps.iter().zip(0..) {
        if let Some(what) = input::other_machine(&dep.data) {
            eprintln!("antares: mock_info.cell_deps[{index}] is {what}");
        }
    }
    let mut elfs = Programs::default();
    programs(&mock, &request.environment).iter().for_each(|program| elfs.add(&program.elf));
    let here = Sources::here();
    let (codes, cells) = (error_codes(args)?, |source, index| mock.cell_data(source, index).map(Into::into));
    let mut found = Vec::new();
    for (group, cycles_max) in wanted {
        let Ok(cell) = cell_name(&group.cell) else { continue };
        let selected = (group.kind, cell);
        if group.error.as_ref().is_some_and(|error| error.kind == "ScriptNotFound") {
            let (is_type, source, index) = place(selected);
            let near = mock.near_code(is_type, source, index);
            let near = near.into_iter().fold(String::new(), |text, line| format!("{text}  {line}\n"));
            found.push(Why { group: None, diagnosis: None, tree: Some(near) });
            continue;
        }
        let job = verify_job(request, selected, cycles_max);
        let answer =
            run_worker(job_of(ProfileJob::Verify(job), group.cycles, args), &request.json, request.deadline)?;
        let code_hash = code_hash(&mock, selected);
        let known = Inputs {
            evidence: &evidence(&answer)?,
            programs: &elfs,
            cells: &cells,
            source: &|file| here.read(file),
            codes: &codes,
            error: group.error.as_ref().and_then(|error| error.vm_error.as_deref()),
            code_hash: code_hash.as_deref(),
        };
        let name = (args.verbose > 1).then(|| format!("{} {}", group.kind.name(), group.cell));
        found.push(Why { group: name, ..explain(&answer, &known, &group.debug, args)? });
    }
    Ok(found)
}

/// A server's diagnosis of a script, with the local sources and table of exit codes. Empty if the server sent
/// none: a local run replaces it.
fn of_server(
    reported: Option<&ServerDiagnosis>,
    debug: &[String],
    args: &DiagnosisArgs,
) -> Result<Vec<Why>, Failure> {
    let Some(ServerDiagnosis { json, missing }) = reported else { return Ok(Vec::new()) };
    if json.is_empty() {
        eprintln!("antares: the server does not tell why it failed ({})", output::printable(missing));
        return Ok(Vec::new());
    }
    let diagnosis = Diagnosis::from_json(json).map_err(|error| workers::ours(error.to_string()))?;
    let here = Sources::here();
    let diagnosis = diagnosis.with_codes(&error_codes(args)?).with_source(&|file| here.read(file));
    let diagnosis = with_javascript(diagnosis, debug, args)?;
    Ok(vec![Why { group: None, diagnosis: Some(diagnosis), tree: None }])
}

/// Whether to repeat a run that took `cycles`.
fn is_wanted(is_failure: bool, cycles: u64, args: &DiagnosisArgs) -> bool {
    if args.verbose > 1 {
        return true;
    }
    if !is_failure || args.no_diagnosis {
        return false;
    }
    let is_short = cycles <= DIAGNOSIS_CYCLES_MAX;
    if !is_short && !args.is_whole() {
        eprintln!("antares: why it failed takes a second run of {cycles} cycles: ask for it with --explain");
    }
    is_short || args.is_whole()
}

type Selected = (antares_pool::job::GroupKind, antares_pool::job::CellName);

fn verify_job(request: &verify_request::Request, group: Selected, cycles_max: u64) -> VerifyJob {
    VerifyJob {
        form: TransactionForm::Json,
        group: Some(group),
        tier: Tier::Interpreter,
        cycles_max,
        transaction_bytes: request.json.len() as u64,
        ..request.job()
    }
}

/// Whether it is a type script, and the source and index of its cell as in system calls.
fn place((kind, cell): Selected) -> (bool, u64, u32) {
    use antares_pool::job::{CellName, GroupKind};
    let (source, index) = match cell {
        CellName::Input(index) => (1, index),
        CellName::Output(index) => (2, index),
    };
    (kind == GroupKind::Type, source, index)
}

/// The code hash of a script referenced by type, in hexadecimal digits.
fn code_hash(mock: &Mock, selected: Selected) -> Option<String> {
    let (is_type, source, index) = place(selected);
    let hash = mock.type_named_code(is_type, source, index)?;
    Some(Sha256Digest(hash).to_string())
}

fn job_of(job: ProfileJob, cycles: u64, args: &DiagnosisArgs) -> DiagnosisJob {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    DiagnosisJob {
        job,
        follow_from: cycles.saturating_sub(limits::FOLLOWED_CYCLES),
        system_calls_max: count(if args.verbose > 1 {
            limits::SYSTEM_CALLS_MAX
        } else {
            limits::SYSTEM_CALLS_DEFAULT
        }),
        steps_max: count(match args.verbose {
            4.. => STEPS_SHOWN,
            _ if args.is_whole() => limits::STEPS_DEFAULT,
            _ => 0,
        }),
        reported_bytes_max: 0,
    }
}

fn run_worker(
    job: DiagnosisJob,
    bytes: &[u8],
    deadline: Option<Duration>,
) -> Result<DiagnosisReport, Failure> {
    let file = workers::seal(bytes)?;
    let pool = workers::start("antares-run-worker")?;
    let deadline = deadline.unwrap_or(Duration::from_millis(DEADLINE_MS_DEFAULT));
    let verdict = pool.diagnose(&job, &file, Instant::now() + deadline).map_err(workers::failed)?;
    let late = format!("no diagnosis within {} ms: see --deadline-ms", deadline.as_millis());
    workers::done(verdict, "second run", "run", late)
}

/// The failure for evidence that makes no sense.
fn broken(error: impl std::fmt::Display) -> Failure {
    workers::ours(format!("the worker's evidence is invalid: {error}"))
}

fn evidence(answer: &DiagnosisReport) -> Result<Evidence, Failure> {
    match &*answer.evidence {
        [] => Ok(Evidence::default()),
        bytes => Evidence::decode(bytes).map_err(broken),
    }
}

/// The diagnosis of a script with the `debug` output of its first run.
fn explain(
    answer: &DiagnosisReport,
    known: &Inputs<'_>,
    debug: &[String],
    args: &DiagnosisArgs,
) -> Result<Why, Failure> {
    let diagnosis = diagnose(known).map(|it| with_javascript(it, debug, args)).transpose()?;
    let tree = match args.verbose {
        3.. => {
            let profile = Profile::decode(&answer.report.profile).map_err(broken)?;
            Some(tree(&View::new(&profile, known.programs)))
        }
        _ => None,
    };
    Ok(Why { group: None, diagnosis, tree })
}

/// A diagnosis with JavaScript stacks from debug output, resolved by source maps.
fn with_javascript(
    diagnosis: Diagnosis,
    debug: &[String],
    args: &DiagnosisArgs,
) -> Result<Diagnosis, Failure> {
    Ok(SourceMaps::read(&args.source_map)?.apply(diagnosis.with_javascript(debug.iter().map(String::as_str))))
}

/// Reads the files that `args` name, so that an error in them ends the command before a run.
pub(crate) fn check_files(args: &DiagnosisArgs) -> Result<(), Failure> {
    error_codes(args)?;
    SourceMaps::read(&args.source_map).map(drop)
}

fn error_codes(args: &DiagnosisArgs) -> Result<ErrorCodes, Failure> {
    let Some(path) = &args.error_codes else { return Ok(ErrorCodes::default()) };
    let bytes = input::read(path, CODES_BYTES_MAX)?;
    let usage = |why: String| Failure::Usage(anyhow!("{}: {why}", path.display()));
    let text = String::from_utf8(bytes).map_err(|_| usage("is no UTF-8 text".to_owned()))?;
    ErrorCodes::parse(&text).map_err(|error| usage(error.to_string()))
}

/// The call tree with the cycles of each call, callers first.
fn tree(view: &View<'_>) -> String {
    let nodes = view.tree();
    let mut totals: Vec<u64> = nodes.iter().map(|node| node.own.cycles).collect();
    let mut children: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate().rev() {
        if let Some(parent) = node.parent {
            totals[parent] = totals[parent].saturating_add(totals[index]);
        }
        children.entry(node.parent).or_default().push(index);
    }
    let least = view.profile().sum().cycles / 1000 * TREE_SHARE;
    let mut text = String::from("  calls, with their cycles\n");
    let mut rest: Vec<(usize, usize)> = Vec::new();
    let mut push = |rest: &mut Vec<(usize, usize)>, parent, depth| {
        let mut of = children.remove(&parent).unwrap_or_default();
        of.sort_by_key(|index| totals[*index]);
        rest.extend(of.into_iter().filter(|index| totals[*index] > least).map(|index| (index, depth)));
    };
    push(&mut rest, None, 0);
    while let Some((index, depth)) = rest.pop() {
        let name = &view.functions()[nodes[index].function.0 as usize].name;
        let _ = writeln!(text, "    {:>14} {}{name}", report::grouped(totals[index]), "  ".repeat(depth));
        if depth < TREE_DEPTH {
            push(&mut rest, Some(index), depth + 1);
        }
    }
    text
}
