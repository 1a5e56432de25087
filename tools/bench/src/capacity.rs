//! `capacity`: how many calls a cluster of 10 to 1,000 runners answers, and what gives out first, simulated
//! with times that `service` has measured. `capacity --check` has 1 to 6 runners really run, and compares.

mod check;
pub(crate) mod measured;
mod process;
mod share;

use antares_capacity::{ClusterLoad, ClusterPlan, Measured, simulate};
use anyhow::Result;

/// Sizes of clusters.
const RUNNERS: [usize; 7] = [10, 20, 50, 100, 200, 500, 1_000];

/// Runners for each compiler, and no fewer compilers than two.
const RUNNERS_PER_COMPILER: usize = 50;

/// Processors of each pod, as where it was measured.
const CORES: usize = 2;

/// New scripts a second for each hundred runners.
const NEW_PER_100: f64 = 0.05;

/// Shares of what all runners can do at which latencies are told.
const LOADS: [f64; 3] = [0.5, 0.8, 0.95];

/// Calls that are simulated for each runner.
const CALLS_EACH: usize = 400;

/// Prints the table.
pub(crate) fn table() -> Result<()> {
    let measured = measured::read()?;
    println!(
        "a call takes {:.0} us, a get {:.0} us and {:.0} us more where the object store has it, a baseline compile {:.0} ms, a full one {:.0} ms, all in the mean",
        measured.call_mean_us(),
        measured.get_us.mean(),
        measured.store_us.mean(),
        measured.compile_us.mean() / 1e3,
        measured.full_us.mean() / 1e3,
    );
    let heads = LOADS.map(|share| format!("{:>23}", format!("at {:.0} %", share * 100.0))).concat();
    println!("\n{:>7} {:>9} {:>10}  p50 / p99 us of a call", "runners", "compilers", "calls/s");
    println!("{:>28}{heads}   compilers busy   new scripts/s at most   MiB/s of artifacts", "at most");
    for runners in RUNNERS {
        row(runners, &measured);
    }
    Ok(())
}

fn row(runners: usize, measured: &Measured) {
    let compilers = (runners / RUNNERS_PER_COMPILER).max(2);
    let plan = ClusterPlan {
        runners,
        runner_cores: CORES,
        compilers,
        compiler_cores: CORES,
        new_scripts_per_s: NEW_PER_100 * runners as f64 / 100.0,
        calls: CALLS_EACH * runners,
        ..ClusterPlan::default()
    };
    let full = simulate(ClusterPlan { load: ClusterLoad::Callers(runners * CORES * 4), ..plan }, measured, 1);
    print!("{runners:7} {compilers:9} {:10.0}", full.per_second);
    for share in LOADS {
        let rate = plan.runners_per_s(measured) * share;
        let at = simulate(ClusterPlan { load: ClusterLoad::PerSecond(rate), ..plan }, measured, 2);
        print!("   {:8.0} / {:9.0}", at.p50_us, at.p99_us);
    }
    let traffic =
        plan.new_scripts_per_s * runners as f64 * measured.artifact_bytes.mean() / f64::from(1 << 20);
    let most = plan.new_scripts_max(measured);
    println!("   {:12.1} %   {most:21.2}   {traffic:18.1}", plan.compilers_busy(measured) * 100.0);
}

/// Has runners really run.
pub(crate) fn check() -> Result<()> {
    check::check()
}
