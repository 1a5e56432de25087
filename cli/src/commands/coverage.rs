//! `antares coverage`: what ran of the sources of scripts, over many runs and transactions.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, process::ExitCode};

use antares_profile_view::{CoverageShare, CoveredFile, SourceCoverage, Sources, coverage_page, write_lcov};
use anyhow::anyhow;
use serde::Serialize;

use crate::{
    args::{CoverageArgs, TargetArgs},
    commands::profile,
    commands::runnable::{Terms, bare, collect, target},
    failure::Failure,
    output,
};

/// What `antares coverage --json` prints: a contract.
#[derive(Debug, Serialize)]
struct CoverageShape<'a> {
    runs: u64,
    #[serde(flatten)]
    all: Figures,
    files: Vec<FileShape<'a>>,
}

#[derive(Debug, Serialize)]
struct FileShape<'a> {
    file: &'a str,
    #[serde(flatten)]
    figures: Figures,
    /// Lines with code that never ran.
    missed_lines: Vec<u32>,
    missed_functions: Vec<&'a str>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Figures {
    lines: ShareShape,
    functions: ShareShape,
    /// Sides of branches.
    branches: ShareShape,
    /// Branches that ran and of which nobody can tell where they went; not among those above.
    undecided_branches: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
struct ShareShape {
    found: u64,
    hit: u64,
}

impl Figures {
    fn of(file: &CoveredFile) -> Self {
        let share = |CoverageShare { found, hit }| ShareShape { found, hit };
        Self {
            lines: share(file.line_share()),
            functions: share(file.function_share()),
            branches: share(file.branch_share()),
            undecided_branches: file.undecided,
        }
    }

    fn plus(self, other: Self) -> Self {
        let sum = |a: ShareShape, b: ShareShape| ShareShape { found: a.found + b.found, hit: a.hit + b.hit };
        Self {
            lines: sum(self.lines, other.lines),
            functions: sum(self.functions, other.functions),
            branches: sum(self.branches, other.branches),
            undecided_branches: self.undecided_branches + other.undecided_branches,
        }
    }
}

/// Runs everything and tells what ran of it.
pub(crate) fn coverage(args: &CoverageArgs) -> Result<ExitCode, Failure> {
    let mut coverage = SourceCoverage::new();
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
    let all = files.values().map(Figures::of).fold(Figures::default(), Figures::plus);
    match args.json {
        true => output::json::print(&shape(coverage.runs(), all, &files))?,
        false => output::print(output::printable(&text(coverage.runs(), all, &files)).as_bytes())?,
    }
    let has_failed = args.fail_under.is_some_and(|share| {
        u128::from(all.lines.hit) * 10_000 < u128::from(all.lines.found) * u128::from(share.0)
    });
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Everything that is named, and what is in folders that are.
fn targets(args: &CoverageArgs) -> Result<Vec<TargetArgs>, Failure> {
    let terms = Terms { max_cycles: args.max_cycles, deadline_ms: args.deadline_ms, args: &args.args };
    let mut targets = Vec::new();
    for input in &args.inputs {
        if !input.is_dir() {
            targets.push(named(input, &terms)?);
            continue;
        }
        let mut found = Vec::new();
        collect(input, &mut found)?;
        found.sort();
        for path in found {
            let target = target(&path, &terms)?;
            targets.extend(target);
        }
    }
    if targets.is_empty() {
        return Err(Failure::Usage(anyhow!("there are no scripts and no transactions")));
    }
    Ok(targets)
}

/// A file that is named is run, or says why it cannot be.
fn named(path: &Path, terms: &Terms<'_>) -> Result<TargetArgs, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::Usage(anyhow::Error::from(error).context(format!("cannot read {}", path.display())))
    };
    fs::metadata(path).map_err(unreadable)?;
    if let Some(target) = target(path, terms)? {
        return Ok(target);
    }
    let mut magic = [0; 7];
    let head = fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic));
    if head.is_err() || magic != *b"antarch" {
        let text = format!("{} is no script, no transaction and no profile", path.display());
        return Err(Failure::Usage(anyhow!(text)));
    }
    Ok(TargetArgs { elf: Some(path.to_owned()), ..bare(terms) })
}

fn shape(runs: u64, all: Figures, files: &BTreeMap<String, CoveredFile>) -> CoverageShape<'_> {
    let files = files.iter().map(|(name, file)| FileShape {
        file: name,
        figures: Figures::of(file),
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

fn text(runs: u64, all: Figures, files: &BTreeMap<String, CoveredFile>) -> String {
    let mut text = format!("{:>9} {:>9} {:>9}  file\n", "lines", "functions", "branches");
    for (name, file) in files {
        let Figures { lines, functions, branches, .. } = Figures::of(file);
        let _ = writeln!(text, "{} {} {}  {name}", percent(lines), percent(functions), percent(branches));
    }
    let Figures { lines, functions, branches, undecided_branches } = all;
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

/// Hundredths of a percent, cut: all of it is 100 and nothing else is.
fn percent(share: ShareShape) -> String {
    let text = match share {
        ShareShape { found: 0, .. } => "-".to_owned(),
        ShareShape { found, hit } => {
            let parts = u128::from(hit) * 10_000 / u128::from(found);
            format!("{}.{:02} %", parts / 100, parts % 100)
        }
    };
    format!("{text:>9}")
}
