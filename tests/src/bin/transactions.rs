//! Long runs of the transaction campaign: `transactions [--scenarios N] [--seed S] [--jobs J] [--different N]
//! [--as-found]`. `transactions --seed S --only N [--without LIST.PLACE,...]` runs one scenario of a failure
//! report.
#![allow(clippy::print_stdout, reason = "a command line tool")]
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    env,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use antares_tests::transaction_campaign::{Campaign, Different, Images, compare, draw, minimise};
use anyhow::{Context, Result, bail};

/// Scenarios between two progress lines.
const PROGRESS: u64 = 2_000;

fn main() -> Result<()> {
    let mut campaign = Campaign { seed: 1, scenarios: 2_000, different_max: 1, is_without_exec_1: false };
    let mut jobs = thread::available_parallelism().map_or(1, usize::from);
    let (mut only, mut is_reduced, mut without) = (None, true, String::new());
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || -> Result<u64> {
            let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
            value.parse().with_context(|| format!("{value:?} is no number"))
        };
        match argument.as_str() {
            "--scenarios" => campaign.scenarios = value()?,
            "--seed" => campaign.seed = value()?,
            "--only" => only = Some(value()?),
            "--jobs" => jobs = usize::try_from(value()?)?,
            // Number of differing scenarios after which the campaign ends.
            "--different" => campaign.different_max = usize::try_from(value()?)?,
            // Removes orders, as LIST.PLACE,...: reduces a scenario that kills the process.
            "--without" => without = arguments.next().with_context(|| format!("{argument} needs a value"))?,
            "--without-exec-1" => campaign.is_without_exec_1 = true,
            "--images" => {
                println!("refused by the compiler: {:?}", Images::get()?.refused()?);
                return Ok(());
            }
            "--as-found" => is_reduced = false,
            _ => bail!(
                "usage: transactions [--scenarios N] [--seed S] [--jobs J] [--different N] [--as-found] [--without-exec-1] [--images] [--only N [--without LIST.PLACE,...]]"
            ),
        }
    }
    if let Some(number) = only {
        return one(&campaign, number, &without, is_reduced);
    }
    let started = Instant::now();
    let shown = AtomicU64::new(0);
    let (tally, different) = campaign.run(jobs, |tally| {
        let done = tally.equal + tally.different;
        if shown.fetch_max(done / PROGRESS, Ordering::Relaxed) < done / PROGRESS {
            eprintln!("{done} scenarios, {:.0} s", started.elapsed().as_secs_f64());
        }
    })?;
    let seconds = started.elapsed().as_secs_f64();
    println!("{tally}");
    println!("{seconds:.1} s, {:.0} scenarios/s", (tally.equal + tally.different) as f64 / seconds);
    report(&campaign, &different, is_reduced)
}

/// Runs and prints one scenario.
fn one(campaign: &Campaign, number: u64, without: &str, is_reduced: bool) -> Result<()> {
    let images = Images::get()?;
    let mut scenario = draw(images, campaign.seed, number);
    for place in without.split(',').filter(|place| !place.is_empty()) {
        let (list, order) = place.split_once('.').context("LIST.PLACE")?;
        scenario.leave_out(list.parse()?, order.parse()?);
    }
    println!("{scenario}");
    match compare(images, &scenario)? {
        Ok(agreed) => {
            println!("all agree: {agreed:#?}");
            Ok(())
        }
        Err(difference) => report(campaign, &[Different { number, scenario, difference }], is_reduced),
    }
}

fn report(campaign: &Campaign, different: &[Different], is_reduced: bool) -> Result<()> {
    let images = Images::get()?;
    // The first scenario for each set of suspected causes.
    let mut first = BTreeMap::new();
    for Different { number, scenario, difference } in different {
        println!("DIFFERENT: scenario {number}: {difference}");
        let reduced = if is_reduced { minimise(images, scenario)? } else { None };
        let (scenario, difference) = reduced.unwrap_or_else(|| (scenario.clone(), difference.clone()));
        let suspects = scenario.suspects(images);
        println!("may be {suspects:?}: {difference}");
        if first.len() < 12 && !first.contains_key(&suspects) {
            println!("{scenario}");
        }
        first.entry(suspects).or_insert(*number);
    }
    if different.is_empty() {
        return Ok(());
    }
    println!("first of each: {first:#?}");
    bail!("{} scenarios differ; run one again with --seed {} --only NUMBER", different.len(), campaign.seed)
}
