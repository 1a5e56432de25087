//! Long runs of the transaction campaign: `transactions [--scenarios N] [--seed S] [--jobs J] [--as-found]`.
//! `transactions --seed S --only N` runs one scenario of a failure report.
#![allow(clippy::print_stdout, reason = "a command line tool")]

use std::{
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
    let mut campaign = Campaign { seed: 1, scenarios: 2_000 };
    let mut jobs = thread::available_parallelism().map_or(1, usize::from);
    let (mut only, mut is_reduced) = (None, true);
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
            "--as-found" => is_reduced = false,
            _ => bail!("usage: transactions [--scenarios N] [--seed S] [--jobs J] [--as-found] [--only N]"),
        }
    }
    if let Some(number) = only {
        return one(&campaign, number, is_reduced);
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
    different.map_or(Ok(()), |different| report(&campaign, different, is_reduced))
}

/// Runs and prints one scenario.
fn one(campaign: &Campaign, number: u64, is_reduced: bool) -> Result<()> {
    let images = Images::get()?;
    let scenario = draw(images, campaign.seed, number);
    println!("{scenario}");
    match compare(images, &scenario)? {
        Ok(agreed) => {
            println!("all agree: {agreed:#?}");
            Ok(())
        }
        Err(difference) => report(campaign, Different { number, scenario, difference }, is_reduced),
    }
}

fn report(campaign: &Campaign, different: Different, is_reduced: bool) -> Result<()> {
    let Different { number, scenario, difference } = different;
    println!("DIFFERENT: scenario {number}: {difference}");
    let reduced = if is_reduced { minimise(Images::get()?, &scenario)? } else { None };
    let (scenario, difference) = reduced.unwrap_or((scenario, difference));
    println!("{difference}\n{scenario}");
    bail!("a scenario differs; run it again with --seed {} --only {number}", campaign.seed)
}
