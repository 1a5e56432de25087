//! `antares capacity`: what a load needs of a cluster, by the model that docs/capacity.md explains.

use std::{fmt::Write as _, process::ExitCode};

use antares_capacity::{Advice, AdviceError, Busy, Demand, FULL, PODS_MAX, Spread, advise};
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{failure::Failure, output};

/// Hours of a month, of which a year has twelve.
const MONTH_HOURS: f64 = 730.0;

/// Words of `antares capacity`.
#[derive(Debug, Args)]
pub(crate) struct CapacityArgs {
    /// Calls a second at the busiest time
    #[arg(long, value_name = "N")]
    rate: f64,
    /// Processor time of a script, or of a transaction's scripts together, in the mean, milliseconds
    #[arg(long, value_name = "MS")]
    script_ms: f64,
    /// Processor time of a call beside its script, microseconds
    #[arg(long, value_name = "US", default_value_t = 250.0)]
    beside_us: f64,
    /// How scripts differ: all take as long, or many are short and some long
    #[arg(long, value_enum, value_name = "even|wide", default_value_t, hide_possible_values = true)]
    spread: SpreadOf,
    /// Processors of a runner's pod
    #[arg(long, value_name = "N", default_value_t = 4)]
    pod_cores: usize,
    /// Share of the processors that is aimed at, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 70.0)]
    busy: f64,
    /// Scripts that nobody has seen before, a second
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    new_scripts: f64,
    /// Print one JSON object instead of a report
    #[arg(long)]
    json: bool,
}

/// `--spread`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SpreadOf {
    /// All take as long
    Even,
    /// Many are short, some long
    #[default]
    Wide,
}

/// `antares capacity --json`.
#[derive(Debug, Serialize)]
struct CapacityShape {
    cores_at_work: f64,
    pods: usize,
    cores: usize,
    workers: usize,
    pod_memory_mib: u64,
    calls_per_s_max: f64,
    busy: BusyShape,
    one_pod_gone: Option<BusyShape>,
    ladder: Vec<BusyShape>,
    ladder_by_lot: Vec<BusyShape>,
    compilers: usize,
    compilers_busy: f64,
    core_hours_a_month: f64,
}

#[derive(Debug, Serialize)]
struct BusyShape {
    share: f64,
    /// None where queues have no end.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

impl BusyShape {
    fn of(busy: &Busy) -> Self {
        let ms = |us: f64| us.is_finite().then(|| (us / 10.0).round() / 100.0);
        Self { share: busy.share, p50_ms: ms(busy.p50_us), p99_ms: ms(busy.p99_us) }
    }
}

/// Says what `args` need.
pub(crate) fn capacity(args: &CapacityArgs) -> Result<ExitCode, Failure> {
    let demand = Demand {
        calls_per_s: args.rate,
        script_us: args.script_ms * 1e3,
        beside_us: args.beside_us,
        spread: match args.spread {
            SpreadOf::Even => Spread::Even,
            SpreadOf::Wide => Spread::Wide,
        },
        pod_cores: args.pod_cores,
        busy: args.busy / 100.0,
        new_scripts_per_s: args.new_scripts,
    };
    let advice = advise(&demand).map_err(refused)?;
    let text = if args.json { json(&demand, &advice)? } else { report(&demand, &advice) };
    output::print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn refused(error: AdviceError) -> Failure {
    Failure::Usage(match error {
        AdviceError::TooManyPods => anyhow!("that needs more than {PODS_MAX} pods"),
        AdviceError::Senseless("share of processors") => {
            anyhow!("--busy must be above 0 and at most {:.0}", FULL * 100.0)
        }
        AdviceError::Senseless(what) => anyhow!("that makes no sense as {what}"),
    })
}

fn json(demand: &Demand, advice: &Advice) -> Result<String, Failure> {
    let shape = CapacityShape {
        cores_at_work: advice.cores_at_work,
        pods: advice.pods,
        cores: advice.cores(demand),
        workers: advice.workers,
        pod_memory_mib: advice.pod_mib,
        calls_per_s_max: advice.calls_per_s_max,
        busy: BusyShape::of(&advice.all),
        one_pod_gone: advice.one_gone.as_ref().map(BusyShape::of),
        ladder: advice.ladder.iter().map(BusyShape::of).collect(),
        ladder_by_lot: advice.ladder_by_lot.iter().map(BusyShape::of).collect(),
        compilers: advice.compilers,
        compilers_busy: advice.compilers_busy,
        core_hours_a_month: core_hours(demand, advice),
    };
    Ok(serde_json::to_string(&shape).map_err(|error| Failure::Service(error.into()))? + "\n")
}

/// Hours of processors that pods ask for, in a month.
#[expect(clippy::cast_precision_loss, reason = "a count of processors")]
fn core_hours(demand: &Demand, advice: &Advice) -> f64 {
    advice.cores(demand) as f64 * MONTH_HOURS
}

fn report(demand: &Demand, advice: &Advice) -> String {
    let (pods, cores) = (advice.pods, advice.cores(demand));
    let mut text = String::new();
    // Writing to a string does not fail.
    let mut line = |name: &str, words: String| {
        let _ = writeln!(text, "{name:<12}  {words}");
    };
    line(
        "load",
        format!(
            "{} calls a second of {:.2} ms each ({:.2} ms beside the script): {:.1} processors at work",
            demand.calls_per_s,
            (demand.script_us + demand.beside_us) / 1e3,
            demand.beside_us / 1e3,
            advice.cores_at_work,
        ),
    );
    line(
        "runners",
        format!(
            "{pods} pods of {} processors and {} workers each: {cores} processors",
            demand.pod_cores, advice.workers
        ),
    );
    line("calls", fares(&advice.all));
    line("one pod gone", advice.one_gone.as_ref().map_or_else(|| "nothing is left".to_owned(), fares));
    line("at most", format!("{:.0} calls a second, then queues grow", advice.calls_per_s_max));
    let all_mib = u64::try_from(pods).unwrap_or(u64::MAX).saturating_mul(advice.pod_mib);
    line("memory", format!("{} MiB a pod, {} GiB in all", advice.pod_mib, all_mib.div_ceil(1024)));
    line(
        "compilers",
        format!("{}, {:.0} % busy with new scripts", advice.compilers, advice.compilers_busy * 100.0),
    );
    line("core hours", format!("{cores} an hour, {:.0} a month", core_hours(demand, advice)));
    text.push_str(
        "\nThe same pods at other loads; half of the calls within, and 99 of 100 within, where callers know who \
         is idle, and where pods are drawn by lot:\n\n  busy      half     99 %  by lot: half     99 %\n",
    );
    for (known, lot) in advice.ladder.iter().zip(&advice.ladder_by_lot) {
        let share = known.share * 100.0;
        let [half, most, lot_half, lot_most] = [known.p50_us, known.p99_us, lot.p50_us, lot.p99_us].map(time);
        let _ = writeln!(text, "  {share:3.0} %  {half:>8}  {most:>7}  {lot_half:>12}  {lot_most:>7}");
    }
    let _ = write!(
        text,
        "\nFor the chart (autoscaling may take the place of replicas):\n\n\
         runner:\n  replicas: {pods}\n  workers: {}\n  resources: {{requests: {{cpu: \"{}\", memory: 1Gi}}}}\n  \
         autoscaling: {{cpuPercent: {:.0}, minReplicas: 2, maxReplicas: {}}}\n",
        advice.workers,
        demand.pod_cores,
        demand.busy * 100.0,
        // Room for half as much again.
        (pods + pods.div_ceil(2)).max(2),
    );
    text
}

fn fares(busy: &Busy) -> String {
    if busy.p99_us.is_infinite() {
        return format!("{:.0} % of the processors wanted: queues grow without an end", busy.share * 100.0);
    }
    let (half, most) = (time(busy.p50_us), time(busy.p99_us));
    format!(
        "{:.0} % of the processors busy, half answered within {half}, 99 of 100 within {most}",
        busy.share * 100.0
    )
}

fn time(us: f64) -> String {
    match us {
        _ if us.is_infinite() => "no end".to_owned(),
        _ if us < 10_000.0 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.0} ms", us / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(rate: f64, busy: f64) -> CapacityArgs {
        CapacityArgs {
            rate,
            script_ms: 40.0,
            beside_us: 250.0,
            spread: SpreadOf::Even,
            pod_cores: 4,
            busy,
            new_scripts: 0.0,
            json: false,
        }
    }

    fn told(rate: f64) -> (String, String) {
        let args = args(rate, 70.0);
        let demand = Demand {
            calls_per_s: args.rate,
            script_us: args.script_ms * 1e3,
            beside_us: args.beside_us,
            spread: Spread::Even,
            pod_cores: args.pod_cores,
            busy: args.busy / 100.0,
            new_scripts_per_s: 0.0,
        };
        let advice = advise(&demand).unwrap();
        (report(&demand, &advice), json(&demand, &advice).unwrap())
    }

    #[test]
    fn the_report_has_what_an_operator_asks_for() {
        let (text, json) = told(3_000.0);
        for part in [
            "3000 calls a second of 40.25 ms each (0.25 ms beside the script): 120.8 processors at work",
            "44 pods of 4 processors and 4 workers each: 176 processors",
            "1920 MiB a pod, 83 GiB in all",
            "176 an hour, 128480 a month",
            "  replicas: 44\n  workers: 4\n",
            "cpuPercent: 70, minReplicas: 2, maxReplicas: 66",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["pods"], &json["pod_memory_mib"]), (&44.into(), &1_920.into()));
        assert_eq!(json["ladder"].as_array().map(Vec::len), Some(5));
        let (lone, json) = told(60.0);
        assert!(lone.contains("one pod gone  nothing is left"), "{lone}");
        assert!(json.contains("\"one_pod_gone\":null"), "{json}");
    }

    #[test]
    fn what_makes_no_sense_is_wrong_usage() {
        for (rate, busy, words) in
            [(-1.0, 70.0, "calls a second"), (1.0, 99.0, "--busy"), (1e12, 70.0, "100000 pods")]
        {
            let failure = capacity(&args(rate, busy)).unwrap_err();
            assert!(failure.to_string().contains(words), "{failure}");
            assert!(matches!(failure, Failure::Usage(_)));
        }
    }
}
