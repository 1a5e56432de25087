//! `antares profile`: where the cycles of a script or a transaction went, as a table and in the formats of other tools.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    os::unix::ffi::OsStringExt,
    path::Path,
    process::ExitCode,
    str::FromStr,
    time::{Duration, Instant},
};

use antares_abi::{CompileOptions, Isa, Sha256Digest};
use antares_pool::{
    Verdict as PoolVerdict,
    job::{
        ProfileJob, ProfileReport, ProfiledReport, Rules, RunJob, RunOutcome, Tier, TransactionForm,
        VerifyJob, VerifyOutcome, VerifyReport,
    },
};
use antares_profile::Profile;
use antares_profile_view::{Format, Programs, View, diff_markdown, read_archive};
use antares_transaction::{Environment, Mock, programs};
use anyhow::{Context as _, anyhow};
use bytes::Bytes;

use crate::{
    args::{CredentialArgs, DiffArgs, InsightsArgs, ProfileArgs, ProfileCommand, TargetArgs},
    failure::Failure,
    input,
    limits::{ARCHIVE_BYTES_MAX, CYCLES_MAX_DEFAULT, DEADLINE_MS_DEFAULT, DEBUG_BYTES_MAX},
    local, output, verify,
};

/// A share in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percent(u64);

impl FromStr for Percent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "must be a share such as 1% or 0.25%";
        let number = text.strip_suffix('%').unwrap_or(text);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if part.len() > 2 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong);
        }
        let whole: u64 = whole.parse().map_err(|_| wrong)?;
        let part: u64 = format!("{part:0<2}").parse().map_err(|_| wrong)?;
        whole.checked_mul(100).and_then(|whole| whole.checked_add(part)).map(Self).ok_or(wrong)
    }
}

impl Percent {
    /// Whether `after` is more than `before` by more than this.
    fn is_passed(self, before: u64, after: u64) -> bool {
        let allowed = u128::from(before) * (10_000 + u128::from(self.0));
        u128::from(after) * 10_000 > allowed
    }
}

/// A profile, what names its addresses, and how the run ended.
pub(crate) struct Profiled {
    pub profile: Profile,
    pub programs: Programs,
    pub labels: BTreeMap<String, String>,
    /// One line for people.
    pub outcome: String,
}

/// Makes a profile or compares two.
pub(crate) fn profile(args: &ProfileArgs) -> Result<ExitCode, Failure> {
    if let Some(ProfileCommand::Diff(args)) = &args.command {
        return diff(args);
    }
    let profiled = target(&args.target)?;
    let view = View::new(&profiled.profile, &profiled.programs);
    let format = match (args.format, args.output.as_deref()) {
        (Some(format), _) => Some(format),
        (None, Some(path)) => Some(format_of(path)?),
        (None, None) => None,
    };
    if let Some(format) = format {
        let before = args.before.as_deref().map(read_profile).transpose()?;
        let before = before.as_ref().map(|before| View::new(&before.profile, &before.programs));
        let bytes = format.write(&view, &profiled.labels, before.as_ref());
        let bytes = bytes.map_err(|error| Failure::Usage(error.into()))?;
        match args.output.as_deref() {
            Some(path) if !input::is_stdio(path) => output::write(path, &bytes)?,
            _ if format.is_text() => return output::print(&bytes).map(|()| ExitCode::SUCCESS),
            _ => return output::print_binary(&bytes).map(|()| ExitCode::SUCCESS),
        }
    }
    output::print(output::printable(&table(&view, &profiled.outcome, args.top)).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Tells what could take fewer cycles.
pub(crate) fn insights(args: &InsightsArgs) -> Result<ExitCode, Failure> {
    let profiled = target(&args.target)?;
    let view = View::new(&profiled.profile, &profiled.programs);
    let mut findings = antares_insights::insights(&view);
    findings.truncate(args.top);
    let findings = antares_insights::markdown(&findings, profiled.profile.sum().cycles);
    output::print(output::printable(&format!("{}\n\n{findings}", profiled.outcome)).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn diff(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let read = |path: &Path| {
        let target = TargetArgs {
            elf: Some(path.to_owned()),
            tx: None,
            server: None,
            credentials: CredentialArgs::default(),
            window_ms: None,
            vm_version: args.vm_version,
            isa: None,
            max_cycles: None,
            deadline_ms: None,
            args: args.args.clone(),
        };
        self::target(&target)
    };
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let views = [&before, &after].map(|profiled| View::new(&profiled.profile, &profiled.programs));
    output::print(output::printable(&diff_markdown(&views[0], &views[1], args.top)).as_bytes())?;
    let (before, after) = (before.profile.sum().cycles, after.profile.sum().cycles);
    let has_failed = args.fail_over.is_some_and(|share| share.is_passed(before, after));
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The format that a file name asks for.
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
    crate::seen::profile(url, args)
}

#[cfg(not(feature = "server"))]
fn seen_by(url: &str, _args: &TargetArgs) -> Result<Profiled, Failure> {
    Err(crate::run::no_server(url))
}

/// Profiles what `args` name, or reads it if it is a profile.
pub(crate) fn target(args: &TargetArgs) -> Result<Profiled, Failure> {
    if let Some(url) = &args.server {
        return seen_by(url, args);
    }
    args.credentials.without_server(false)?;
    match (&args.tx, &args.elf) {
        (Some(tx), _) => profile_transaction(tx, args),
        (None, Some(elf)) => {
            let bytes = input::read(elf, ARCHIVE_BYTES_MAX)?;
            if bytes.starts_with(b"antarch") { of_archive(&bytes) } else { profile_script(elf, bytes, args) }
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
    Ok(Profiled { profile, programs, labels: BTreeMap::new(), outcome })
}

fn profile_script(path: &Path, elf: Vec<u8>, args: &TargetArgs) -> Result<Profiled, Failure> {
    let isa = args.isa.unwrap_or_else(|| Isa::of_version(args.vm_version));
    let job = RunJob {
        options: CompileOptions { vm_version: args.vm_version, isa },
        tier: Tier::Interpreter,
        args: args.args.iter().cloned().map(OsStringExt::into_vec).collect(),
        cycles_max: args.max_cycles.unwrap_or(CYCLES_MAX_DEFAULT),
        debug_bytes_max: DEBUG_BYTES_MAX,
        sample_cycles: 0,
        sample_salt: 0,
    };
    let report = ask(ProfileJob::Run(job), &elf, args)?;
    let ProfiledReport::Run(run) = &report.report else {
        return Err(Failure::Service(anyhow!("the worker answered what it was not asked")));
    };
    let outcome = match &run.outcome {
        RunOutcome::Exit(code) => format!("exit {code}"),
        RunOutcome::Error { name, detail } => format!("{name} {}", detail.as_deref().unwrap_or_default()),
        RunOutcome::CyclesExceeded => "the cycle limit was passed".to_owned(),
    };
    let outcome = format!("{} cycles; {}", run.cycles, outcome.trim_end());
    let mut programs = Programs::new();
    programs.add(&elf);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let labels = [("script", name), ("sha256", Sha256Digest::of(&elf).to_string())];
    finish(report, programs, labels, outcome)
}

fn profile_transaction(path: &Path, args: &TargetArgs) -> Result<Profiled, Failure> {
    let json = verify::read_transaction(path)?;
    let environment = Environment::default();
    let mock = Mock::from_json(&json)
        .map_err(|error| Failure::Usage(anyhow!("the transaction cannot be used: {error}")))?;
    let mut elfs = Programs::new();
    for program in programs(&mock, &environment) {
        elfs.add(&program.elf);
    }
    let Environment { vm_1_epoch, vm_2_epoch, epoch } = environment;
    let job = VerifyJob {
        form: TransactionForm::Json,
        rules: Rules { vm_1_epoch, vm_2_epoch, epoch },
        group: None,
        tier: Tier::Interpreter,
        cycles_max: args.max_cycles.unwrap_or(CYCLES_MAX_DEFAULT),
        debug_bytes_max: DEBUG_BYTES_MAX,
        transaction_bytes: json.len() as u64,
        document: Bytes::new(),
        libraries: Vec::new(),
        library_digests: Vec::new(),
        cells: Vec::new(),
        is_alone: true,
        sample_cycles: 0,
        sample_salt: 0,
    };
    let report = ask(ProfileJob::Verify(job), &json, args)?;
    let outcome = match &report.report {
        ProfiledReport::Verify(VerifyReport::Done { outcome, cycles, .. }) => {
            let text = match outcome {
                VerifyOutcome::Ok => "accepted",
                VerifyOutcome::Failed => "not accepted",
                VerifyOutcome::NotRun => "not run",
            };
            format!("{cycles} cycles; {text}")
        }
        ProfiledReport::Verify(VerifyReport::Refused { detail, .. }) => {
            return Err(Failure::Usage(anyhow!("the transaction cannot be used: {detail}")));
        }
        ProfiledReport::Run(_) => {
            return Err(Failure::Service(anyhow!("the worker answered what it was not asked")));
        }
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    finish(report, elfs, [("transaction", name), ("kind", "transaction".to_owned())], outcome)
}

/// Has a worker on this machine do `job` with the bytes of a script or a transaction.
fn ask(job: ProfileJob, bytes: &[u8], args: &TargetArgs) -> Result<ProfileReport, Failure> {
    let file = local::seal(bytes)?;
    let pool = local::start("antares-run-worker")?;
    let deadline = Duration::from_millis(args.deadline_ms.unwrap_or(DEADLINE_MS_DEFAULT));
    let verdict = pool.profile(&job, &file, Instant::now() + deadline).map_err(local::failed)?;
    match verdict {
        PoolVerdict::Done(report) => Ok(report),
        PoolVerdict::DeadlineExceeded => {
            Err(local::ours(format!("no profile within {} ms: see --deadline-ms", deadline.as_millis())))
        }
        PoolVerdict::SandboxViolation { detail } => {
            Err(local::ours(format!("the run broke a rule of the fence: {detail}")))
        }
        PoolVerdict::WorkerLost { detail } => Err(local::ours(format!("the run worker was lost: {detail}"))),
    }
}

fn finish(
    report: ProfileReport,
    programs: Programs,
    labels: [(&str, String); 2],
    outcome: String,
) -> Result<Profiled, Failure> {
    if report.mismatch_cycles > 0 {
        let cycles = report.mismatch_cycles;
        return Err(local::ours(format!(
            "the profile misses the run by {cycles} cycles: this is a mistake of ours"
        )));
    }
    let profile = Profile::decode(&report.profile)
        .context("the worker answered with no profile")
        .map_err(Failure::Service)?;
    let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Ok(Profiled { profile, programs, labels, outcome })
}

/// Functions by what they cost.
fn table(view: &View<'_>, outcome: &str, rows: usize) -> String {
    let sum = view.profile().sum().cycles;
    let mut text = format!("{outcome}\n\n");
    let _ = writeln!(text, "{:>14} {:>7}  {:>14} {:>7}  function", "self", "%", "total", "%");
    for row in view.top(rows).iter().filter(|row| row.total.cycles > 0) {
        let (own, total) = (row.own.cycles, row.total.cycles);
        let (own_share, total_share) = (share(own, sum), share(total, sum));
        let _ = writeln!(text, "{own:>14} {own_share:>7}  {total:>14} {total_share:>7}  {}", row.name);
    }
    text
}

/// `part` of `whole` in percent, rounded to two digits, as on the page.
pub(crate) fn share(part: u64, whole: u64) -> String {
    let whole = u128::from(whole.max(1));
    let hundredths = (u128::from(part) * 10_000 + whole / 2) / whole;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

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
