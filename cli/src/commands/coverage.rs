//! `antares coverage`: source lines that scripts executed, over many runs and transactions.

use std::{collections::BTreeMap, fmt::Write as _, fs, iter, path::Path, process::ExitCode};

use antares_profile_view::{
    CoverageFigures, CoverageShare, CoveredFile, SourceCoverage, Sources, coverage_page, write_lcov,
};
use anyhow::anyhow;
use serde::Serialize;

use crate::{
    args::{TargetArgs, coverage::CoverageArgs},
    commands::profile,
    commands::runnable::{files, target},
    failure::Failure,
    output,
};

/// Output of `antares coverage --json`: a contract.
#[derive(Debug, Serialize)]
struct CoverageShape<'a> {
    runs: u64,
    #[serde(flatten)]
    all: CoverageFigures,
    files: Vec<FileShape<'a>>,
}

#[derive(Debug, Serialize)]
struct FileShape<'a> {
    file: &'a str,
    #[serde(flatten)]
    figures: CoverageFigures,
    /// Lines with code that never ran.
    missed_lines: Vec<u32>,
    missed_functions: Vec<&'a str>,
}

/// Runs everything and reports its coverage.
pub(crate) fn coverage(args: &CoverageArgs) -> Result<ExitCode, Failure> {
    let mut coverage = SourceCoverage::default();
    for target in targets(args)? {
        let path = target.tx.as_ref().or(target.elf.as_ref()).map(|path| path.display().to_string());
        let profiled = profile::target(&target).map_err(|failure| failure.of(&path.unwrap_or_default()))?;
        coverage.add(&profiled.profile, &profiled.programs);
    }
    let mut files = coverage.files();
    if files.is_empty() {
        return Err(Failure::Usage(anyhow!("no script has line numbers: build with -g, or debug = true")));
    }
    files.retain(|name, _| args.only.is_empty() || args.only.iter().any(|text| name.contains(text)));
    let here = Sources::here();
    for (name, file) in &mut files {
        here.read(name).into_iter().for_each(|text| file.end_at(text.lines().count()));
    }
    if let Some(path) = &args.lcov {
        output::write(path, write_lcov(&files).as_bytes())?;
    }
    if let Some(path) = &args.html {
        let page = coverage_page("Coverage", &files, &|file| here.read(file));
        output::write(path, page.as_bytes())?;
    }
    let all = CoverageFigures::of(files.values());
    match args.json {
        true => output::json::print(&shape(coverage.runs(), all, &files))?,
        false => output::print(output::printable(&text(coverage.runs(), all, &files)).as_bytes())?,
    }
    let has_failed = args.fail_under.is_some_and(|share| {
        u128::from(all.lines.hit) * 10_000 < u128::from(all.lines.found) * u128::from(share.0)
    });
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// All named targets, and those in named folders.
fn targets(args: &CoverageArgs) -> Result<Vec<TargetArgs>, Failure> {
    let mut targets = Vec::new();
    for input in &args.inputs {
        if !input.is_dir() {
            targets.push(named(input, args)?);
            continue;
        }
        for path in files(input)? {
            targets.extend(target(&path, args.limits, &args.args)?);
        }
    }
    if targets.is_empty() {
        return Err(Failure::Usage(anyhow!("there are no scripts and no transactions")));
    }
    Ok(targets)
}

/// The target in a named file, or the reason why it cannot run.
fn named(path: &Path, args: &CoverageArgs) -> Result<TargetArgs, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::Usage(anyhow::Error::from(error).context(format!("cannot read {}", path.display())))
    };
    fs::metadata(path).map_err(unreadable)?;
    if let Some(target) = target(path, args.limits, &args.args)? {
        return Ok(target);
    }
    let mut magic = [0; 7];
    let head = fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic));
    if head.is_err() || magic != *b"antarch" {
        let text = format!("{} is no script, no transaction and no profile", path.display());
        return Err(Failure::Usage(anyhow!(text)));
    }
    Ok(TargetArgs { elf: Some(path.to_owned()), limits: args.limits, ..TargetArgs::default() })
}

fn shape(runs: u64, all: CoverageFigures, files: &BTreeMap<String, CoveredFile>) -> CoverageShape<'_> {
    let files = files.iter().map(|(name, file)| FileShape {
        file: name,
        figures: CoverageFigures::of(iter::once(file)),
        missed_lines: file.lines.iter().filter(|(_, count)| **count == 0).map(|(line, _)| *line).collect(),
        missed_functions: file
            .functions
            .iter()
            .filter(|(_, (_, count))| *count == 0)
            .map(|(name, _)| &**name)
            .collect(),
    });
    CoverageShape { runs, all, files: files.collect() }
}

fn text(runs: u64, all: CoverageFigures, files: &BTreeMap<String, CoveredFile>) -> String {
    let mut text = format!("{:>9} {:>9} {:>9}  file\n", "lines", "functions", "branches");
    for (name, file) in files {
        let CoverageFigures { lines, functions, branches, .. } = CoverageFigures::of(iter::once(file));
        let _ = writeln!(text, "{} {} {}  {name}", percent(lines), percent(functions), percent(branches));
    }
    let CoverageFigures { lines, functions, branches, undecided_branches } = all;
    let _ = writeln!(
        text,
        "{} {} {}  all, of {runs} {}",
        percent(lines),
        percent(functions),
        percent(branches),
        if runs == 1 { "run" } else { "runs" }
    );
    if undecided_branches > 0 {
        let _ = writeln!(text, "branches whose way cannot be told: {undecided_branches}");
    }
    text
}

/// Percentage with two decimals, truncated: only full coverage prints as 100.
fn percent(share: CoverageShare) -> String {
    format!("{:>9}", share.percent().unwrap_or_else(|| "-".to_owned()))
}
