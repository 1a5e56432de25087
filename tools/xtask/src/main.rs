//! Development tasks that are easier in Rust than in a script. `cargo xtask tidy` checks the rules of
//! CONTRIBUTING.md.

mod book;
mod budgets;
mod circles;
mod finding;
mod imports;
mod links;
mod manifests;
mod mutants;
mod names;
mod sources;
mod state;
mod subjects;
mod texts;
mod tree;
mod walk;

use std::process::ExitCode;

use anyhow::Context as _;

use finding::{Finding, Weight};
use tree::Tree;

const USAGE: &str = "\
usage: cargo xtask tidy                   check the rules of the house
       cargo xtask budgets                print lines of code by floor, and words of docs
       cargo xtask mutants [NAME|NAME..]  put mistakes into a copy: the tests must find each";

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: [Check; 11] = [
    book::check,
    budgets::check,
    circles::check,
    links::check,
    manifests::check,
    names::check,
    sources::check,
    state::check,
    subjects::check,
    texts::check,
    walk::check,
];

fn main() -> anyhow::Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        Some("budgets") => {
            budgets::print(&Tree::read().context("cannot read the tree")?)?;
            Ok(ExitCode::SUCCESS)
        }
        Some("mutants") => {
            mutants::run(&std::env::args().nth(2).unwrap_or_default())?;
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprintln!("{USAGE}");
            Ok(ExitCode::from(2))
        }
    }
}

fn tidy() -> anyhow::Result<ExitCode> {
    let tree = Tree::read().context("cannot read the tree")?;
    let findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    for finding in &findings {
        eprintln!("{finding}");
    }
    let failures = findings.iter().filter(|finding| finding.weight == Weight::Failure).count();
    eprintln!("tidy: {} files, {failures} failures, {} warnings", tree.len(), findings.len() - failures);
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
