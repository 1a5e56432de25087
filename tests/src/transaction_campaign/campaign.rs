//! Transaction campaigns: many scenarios from one seed, drawn, run, compared and counted.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result};

use super::{Difference, Images, Scenario, Tally, compare, draw};
use crate::differential::on_threads;

/// Parameters of a campaign.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The campaign's seed.
    pub seed: u64,
    /// Number of scenarios.
    pub scenarios: u64,
}

/// A scenario that differs.
#[derive(Clone, Debug)]
pub struct Different {
    /// Its number.
    pub number: u64,
    pub scenario: Scenario,
    /// What differs.
    pub difference: Difference,
}

impl Campaign {
    /// Runs scenarios on `jobs` threads until one differs; calls `each` with the tally after every one.
    ///
    /// # Errors
    /// The compiler failed, or a scenario is not a valid transaction.
    pub fn run(&self, jobs: usize, each: impl Fn(&Tally) + Sync) -> Result<(Tally, Option<Different>)> {
        let images = Images::get()?;
        let next = AtomicU64::new(0);
        let all = Mutex::new((Tally::default(), None));
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let differs = all.lock().unwrap_or_else(PoisonError::into_inner).1.is_some();
                if number >= self.scenarios || differs {
                    return Ok(());
                }
                let scenario = draw(images, self.seed, number);
                let compared = compare(images, &scenario).with_context(|| format!("scenario {number}"))?;
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                match compared {
                    Ok(agreed) => all.0.count(&scenario, &agreed),
                    Err(difference) => {
                        all.0.different += 1;
                        all.1 = Some(Different { number, scenario, difference });
                    }
                }
                each(&all.0);
            }
        };
        on_threads(jobs, work)?;
        Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}
