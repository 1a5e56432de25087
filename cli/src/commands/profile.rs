//! `antares profile`: the cycles of a script or a transaction by function, as a table and in the formats of
//! other tools.

use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStringExt,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_pool::{
    Sealed,
    job::{
        ProfileJob, ProfileReport, ProfiledReport, RunJob, RunOutcome, SharedCell, Tier, TransactionForm,
        VerifyJob, VerifyOutcome, VerifyReport,
    },
};
use antares_profile::Profile;
use antares_profile_view::{
    Format, Programs, Sources, View, diff as diff_views, diff_markdown, profile_page, read_archive,
};
use antares_transaction::{Environment, Mock, programs};
use anyhow::{Context as _, anyhow};
use bytes::Bytes;

pub use crate::local::profiled::Profiled;
use crate::{
    args::{
        MachineArgs, TargetArgs,
        profile::{DiffArgs, InsightsArgs, ProfileArgs, ProfileCommand},
    },
    commands::verify,
    failure::Failure,
    input,
    input::{parsed_transaction, verify_request::Request},
    limits::{ARCHIVE_BYTES_MAX, CYCLES_MAX_DEFAULT, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX},
    local::workers,
    output,
    output::json::{self, ChangeShape, DiffShape, FunctionShape, InsightsShape, ProfileShape},
    output::report::functions_table,
    output::verdict::without_dead_link,
};

/// Creates a profile or compares two.
pub(crate) fn profile(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    if let Some(ProfileCommand::Diff(args)) = &args.command {
        return diff(args);
    }
    let profiled = target(&args.target)?;
    let view = View::new(&profiled.profile, &profiled.programs);
    let of_name = || args.output.as_deref().map(format_of).transpose();
    let format = args.format.map_or_else(of_name, |format| Ok(Some(format)))?;
    if let Some(format) = format {
        let before = args.before.as_deref().map(read_profile).transpose()?;
        let before = before.as_ref().map(|before| View::new(&before.profile, &before.programs));
        let here = Sources::here();
        let bytes = match format {
            // Only this machine may have the sources.
            Format::Html => {
                let source = |file: &str| here.read(file);
                profile_page(&view, &profiled.labels, before.as_ref(), &source).into_bytes()
            }
            format => format
                .write(&view, &profiled.labels, before.as_ref())
                .map_err(|error| Failure::Usage(error.into()))?,
        };
        match args.output.as_deref() {
            Some(path) if !input::is_stdio(path) => output::write(path, &bytes)?,
            _ if format.is_text() => return output::print(&bytes).map(|()| ExitCode::SUCCESS),
            _ => return output::print_binary(&bytes).map(|()| ExitCode::SUCCESS),
        }
    }
    if args.json {
        let rows: Vec<_> = view.top(args.top).into_iter().filter(|row| row.total.cycles > 0).collect();
        let functions = rows.iter().map(FunctionShape::of).collect();
        let (outcome, cycles) = (profiled.outcome.as_str(), profiled.profile.sum().cycles);
        json::print(&ProfileShape { outcome, cycles, functions })?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(output::printable(&table(&view, &profiled.outcome, args.top)).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Reports possible savings of cycles.
pub(crate) fn insights(args: &InsightsArgs) -> Result<(), Failure> {
    let profiled = target(&args.target)?;
    let view = View::new(&profiled.profile, &profiled.programs);
    let mut groups = antares_analysis::insights::groups(&view);
    groups.truncate(args.top);
    if args.json {
        let (outcome, cycles) = (profiled.outcome.as_str(), profiled.profile.sum().cycles);
        let mut findings = antares_analysis::insights::insights(&view);
        findings.truncate(args.top);
        return json::print(&InsightsShape { outcome, cycles, findings: &findings, groups: &groups });
    }
    let here = Sources::here();
    let source = |file: &str| here.read(file);
    let findings = antares_analysis::insights::markdown(&groups, profiled.profile.sum().cycles, &source);
    output::print(output::printable(&format!("{}\n\n{findings}", profiled.outcome)).as_bytes())
}

fn diff(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let read = |path: &Path| {
        let machine = MachineArgs { vm_version: args.vm_version, isa: None };
        let (elf, args) = (Some(path.to_owned()), args.args.clone());
        target(&TargetArgs { elf, machine, args, ..TargetArgs::default() })
    };
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let views = [&before, &after].map(|profiled| View::new(&profiled.profile, &profiled.programs));
    let (before, after) = (before.profile.sum().cycles, after.profile.sum().cycles);
    if args.json {
        let changes = diff_views(&views[0], &views[1]);
        let functions = changes.iter().take(args.top).map(ChangeShape::of).collect();
        json::print(&DiffShape { before_cycles: before, after_cycles: after, functions })?;
    } else {
        output::print(output::printable(&diff_markdown(&views[0], &views[1], args.top)).as_bytes())?;
    }
    let has_failed = args.fail_over.is_some_and(|share| share.is_passed(before, after));
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The format that a file name implies.
fn format_of(path: &Path) -> Result<Format, Failure> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let known = [
        (".pb.gz", Format::Pprof),
        (".pprof", Format::Pprof),
        (".folded", Format::Folded),
        (".speedscope.json", Format::Speedscope),
        (".callgrind", Format::Callgrind),
        (".info", Format::Lcov),
        (".otlp", Format::Otlp),
        (".afdo", Format::SampleProfile),
        (".html", Format::Html),
        (".antares", Format::Antares),
    ];
    let is_callgrind = name.starts_with("callgrind.out").then_some(Format::Callgrind);
    let found = known.into_iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| format);
    found.or(is_callgrind).ok_or_else(|| {
        Failure::Usage(anyhow!("the name {name:?} does not tell the format: say it with --format"))
    })
}

#[cfg(feature = "server")]
fn seen_by(url: &str, args: &TargetArgs) -> Result<Profiled, Failure> {
    crate::remote::server_profile::profile(url, args)
}

#[cfg(not(feature = "server"))]
fn seen_by(url: &str, _args: &TargetArgs) -> Result<Profiled, Failure> {
    Err(crate::failure::no_server(url))
}

/// Profiles what `args` name, or reads an existing profile.
pub fn target(args: &TargetArgs) -> Result<Profiled, Failure> {
    if let Some(url) = &args.server {
        return seen_by(url, args);
    }
    args.credentials.without_server(false)?;
    match (&args.tx, &args.elf) {
        (Some(tx), _) => profile_transaction(tx, args),
        (None, Some(elf)) => {
            let bytes = input::read_elf(elf, ARCHIVE_BYTES_MAX)?;
            if bytes.starts_with(b"antarch") {
                return of_archive(&bytes);
            }
            if bytes.trim_ascii_start().starts_with(b"{") {
                return match input::is_stdio(elf) {
                    false => profile_transaction(elf, args),
                    true => Err(Failure::Usage(anyhow!("this is no script but a transaction: --tx -"))),
                };
            }
            profile_script(elf, bytes, args)
        }
        (None, None) => Err(Failure::Usage(anyhow!("neither a script nor a transaction is given"))),
    }
}

fn read_profile(path: &Path) -> Result<Profiled, Failure> {
    of_archive(&input::read(path, ARCHIVE_BYTES_MAX)?)
}

fn of_archive(bytes: &[u8]) -> Result<Profiled, Failure> {
    let (profile, programs) = read_archive(bytes).map_err(|error| Failure::Usage(error.into()))?;
    let outcome = format!("{} cycles, from a file", profile.sum().cycles);
    let (labels, ending) = (BTreeMap::new(), String::new());
    Ok(Profiled { profile, programs, labels, outcome, ending, size_bytes: bytes.len() as u64 })
}

fn profile_script(path: &Path, elf: Vec<u8>, args: &TargetArgs) -> Result<Profiled, Failure> {
    let job = RunJob {
        options: args.machine.options(),
        tier: Tier::Interpreter,
        args: args.args.iter().cloned().map(OsStringExt::into_vec).collect(),
        cycles_max: args.limits.max_cycles.unwrap_or(CYCLES_MAX_DEFAULT),
        debug_bytes_max: DEBUG_BYTES_MAX,
        sample_cycles: 0,
        sample_salt: 0,
    };
    let report = request(&ProfileJob::Run(job), &workers::seal(&elf)?, &[], args)?;
    let mut programs = Programs::default();
    programs.add(&elf);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let labels = [("script", name), ("sha256", Sha256Digest::of(&elf).to_string())];
    finish(&report, programs, labels, elf.len() as u64)
}

/// A script that replaces another one.
#[derive(Clone, Copy)]
pub struct Instead<'a> {
    pub of: &'a [u8],
    pub elf: &'a [u8],
}

/// Profiles the transaction at `path`.
fn profile_transaction(path: &Path, args: &TargetArgs) -> Result<Profiled, Failure> {
    let json = verify::read_transaction(path)?;
    let mock = parsed_transaction::read(&json).map_err(|failure| failure.of(&path.display().to_string()))?;
    let file = workers::seal(&json)?;
    profile_mock(path, &mock, &Files { form: TransactionForm::Json, file, cells: Vec::new() }, args)
}

/// Profiles the transaction at `path` with a script replaced in the cells that contain it. The cells keep
/// their hash, so that signatures and hashes stay valid.
pub fn transaction_with(path: &Path, instead: Instead<'_>, args: &TargetArgs) -> Result<Profiled, Failure> {
    let mut mock = parsed_transaction::read(&verify::read_transaction(path)?)?;
    let deps = &mock.as_ckb().mock_info.cell_deps;
    let places: Vec<usize> = (0..deps.len()).filter(|dep| deps[*dep].data == instead.of).collect();
    let Some(&first) = places.first() else {
        let text = "no cell dep has this script as its data, so the transaction cannot be run with another \
                    one in its place";
        return Err(Failure::Usage(anyhow!("{}: {text}", path.display())));
    };
    let data_hash = mock.dep_data_hash(first);
    for dep in places {
        mock.replace_data(dep, Bytes::copy_from_slice(instead.elf));
    }
    let file = workers::seal(&mock.document(&mut |asked| (*asked == data_hash).then_some(0)))?;
    let cell = workers::seal(instead.elf)?;
    profile_mock(
        path,
        &mock,
        &Files { form: TransactionForm::Molecule, file, cells: vec![(data_hash, cell)] },
        args,
    )
}

/// A transaction for a worker, and cell data by hash.
struct Files {
    form: TransactionForm,
    file: Sealed,
    cells: Vec<([u8; 32], Sealed)>,
}

fn profile_mock(path: &Path, mock: &Mock, files: &Files, args: &TargetArgs) -> Result<Profiled, Failure> {
    let mut elfs = Programs::default();
    let mut size_bytes = 0;
    for program in programs(mock, &Environment::default()) {
        size_bytes += program.elf.len() as u64;
        elfs.add(&program.elf);
    }
    let shared =
        |(data_hash, data): &([u8; 32], Sealed)| SharedCell { data_hash: *data_hash, bytes: data.len() };
    let job = VerifyJob {
        form: files.form,
        tier: Tier::Interpreter,
        transaction_bytes: files.file.len(),
        cells: files.cells.iter().map(shared).collect(),
        ..Request { cycles_max: args.limits.max_cycles, ..Request::default() }.job()
    };
    let cells: Vec<&Sealed> = files.cells.iter().map(|(_, data)| data).collect();
    let report = request(&ProfileJob::Verify(job), &files.file, &cells, args)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let labels = [("transaction", name), ("kind", "transaction".to_owned())];
    finish(&report, elfs, labels, size_bytes)
}

/// One line about the outcome, and how the run ended in a few constant words.
fn summary(report: &ProfiledReport) -> Result<(String, String), Failure> {
    Ok(match report {
        ProfiledReport::Run(run) => {
            let ending = match &run.outcome {
                RunOutcome::Exit(code) => format!("exit {code}"),
                RunOutcome::Error { name, detail: Some(detail) } => format!("{name} {detail}"),
                RunOutcome::Error { name, detail: None } => name.clone(),
                RunOutcome::CyclesExceeded => "the cycle limit was passed".to_owned(),
            };
            let ending = ending.trim_end().to_owned();
            (format!("{} cycles; {ending}", run.cycles), ending)
        }
        ProfiledReport::Verify(VerifyReport::Done { outcome, cycles, groups, .. }) => {
            let text = match outcome {
                VerifyOutcome::Ok => "accepted",
                VerifyOutcome::Failed => "not accepted",
                VerifyOutcome::NotRun => "not run",
            };
            let ending = match groups.iter().find_map(|group| group.error.as_ref()) {
                // A link with the code hash would differ for each build.
                Some(error) => without_dead_link(&format!("{}: {} ", error.source, error.detail)),
                None => text.to_owned(),
            };
            (format!("{cycles} cycles; {text}"), ending.trim_end().to_owned())
        }
        ProfiledReport::Verify(VerifyReport::Refused { detail, .. }) => {
            return Err(Failure::Usage(anyhow!("the transaction cannot be used: {detail}")));
        }
    })
}

/// Runs `job` in a worker on this machine, with a script, or a transaction and some of its cells.
fn request(
    job: &ProfileJob,
    file: &Sealed,
    cells: &[&Sealed],
    args: &TargetArgs,
) -> Result<ProfileReport, Failure> {
    let pool = workers::start("antares-run-worker")?;
    let deadline = Duration::from_millis(args.limits.deadline_ms.unwrap_or(DEADLINE_MS_DEFAULT));
    let verdict = pool.profile(job, file, cells, Instant::now() + deadline).map_err(workers::failed)?;
    let late = format!("no profile within {} ms: see --deadline-ms", deadline.as_millis());
    workers::done(verdict, "run", "run", late)
}

fn finish(
    report: &ProfileReport,
    programs: Programs,
    labels: [(&str, String); 2],
    size_bytes: u64,
) -> Result<Profiled, Failure> {
    let (outcome, ending) = summary(&report.report)?;
    if report.mismatch_cycles > 0 {
        let cycles = report.mismatch_cycles;
        return Err(workers::ours(format!(
            "the profile misses the run by {cycles} cycles: this is a bug in Antares"
        )));
    }
    let profile = Profile::decode(&report.profile)
        .context("the worker answered with no profile")
        .map_err(Failure::Service)?;
    let labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
    Ok(Profiled { profile, programs, labels, outcome, ending, size_bytes })
}

/// Functions by cost.
fn table(view: &View<'_>, outcome: &str, rows: usize) -> String {
    let rows = view.top(rows);
    let rows = rows.iter().map(|row| (&*row.name, row.own.cycles, row.total.cycles));
    let table = functions_table(rows.filter(|(.., total)| *total > 0), view.profile().sum().cycles);
    format!("{outcome}\n\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::percent::{Percent, share};

    #[test]
    fn shares_are_exact() {
        assert_eq!(
            [share(2, 3), share(1, 3), share(1, 1), share(0, 0)],
            ["66.67", "33.33", "100.00", "0.00"]
        );
        assert_eq!("1%".parse(), Ok(Percent(100)));
        assert_eq!("0.25".parse(), Ok(Percent(25)));
        for text in ["", "%", "1.234%", "-1%", "1e3", "1.x%"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
        assert!(!Percent(100).is_passed(1000, 1010));
        assert!(Percent(100).is_passed(1000, 1011));
        assert!(Percent(0).is_passed(u64::MAX - 1, u64::MAX));
        assert_eq!((share(1, 3), share(0, 0)), ("33.33".to_owned(), "0.00".to_owned()));
    }

    #[test]
    fn files_tell_their_format() {
        assert_eq!(format_of(Path::new("x/a.pb.gz")).ok(), Some(Format::Pprof));
        assert_eq!(format_of(Path::new("callgrind.out.rsa")).ok(), Some(Format::Callgrind));
        assert!(format_of(Path::new("a.txt")).is_err());
    }
}
