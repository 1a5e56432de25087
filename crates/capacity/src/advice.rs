//! What a load needs: pods, processors, memory, and the times that calls then take.

use crate::{
    simulation::{ClusterLoad, ClusterPlan, simulate},
    times::{Measured, Times},
};

/// Most pods that are advised.
pub const PODS_MAX: f64 = 100_000.0;

/// Pods that are simulated, at most: among more of them a call finds an idle one no later.
const SIMULATED_MAX: usize = 50;

/// Calls that are simulated.
const CALLS: usize = 20_000;

/// Times of which a spread is made.
const STEPS: u32 = 1_000;

/// Shares of what the pods can do at which times are told.
const LADDER: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 0.95];

/// The share above which queues grow faster than pods come.
pub const FULL: f64 = 0.95;

/// Processors of a compiler, and the share of them that new scripts may take.
const COMPILER_CORES: usize = 2;
const COMPILER_BUSY: f64 = 0.5;

/// What compilers take, microseconds, as docs/capacity.md has it measured: to hand out an artifact, to have
/// it from the object store, a baseline compile and a full one.
const GET_US: f64 = 723.0;
const STORE_US: f64 = 1_700.0;
const BASELINE_US: f64 = 37_000.0;
const FULL_US: f64 = 1_600_000.0;

/// Memory of a runner's pod by the chart's defaults, MiB: the service itself with what requests and calls may
/// take, what is kept ready, and each worker at work or waiting for more.
const SERVICE_MIB: u64 = 768;
const KEPT_MIB: u64 = 512;
const WORKER_MIB: u64 = 32;
const IDLE_WORKERS: u64 = 16;

/// How times of scripts are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// All take as long.
    Even,
    /// Many are short and some are long (exponentially, around the mean): whoever waits behind a long one
    /// waits long.
    #[default]
    Wide,
}

/// A load, and the pods that shall carry it.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Calls a second.
    pub calls_per_s: f64,
    /// Processor time of a script in the mean, microseconds.
    pub script_us: f64,
    /// What the call takes beside it.
    pub beside_us: f64,
    /// How scripts differ.
    pub spread: Spread,
    /// Processors of a pod.
    pub pod_cores: usize,
    /// Share of all processors that is aimed at.
    pub busy: f64,
    /// Scripts that nobody has seen before, a second.
    pub new_scripts_per_s: f64,
}

/// What makes no sense of a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdviceError {
    /// It needs more than [`PODS_MAX`] pods.
    TooManyPods,
    /// A number is not one that it can be.
    Senseless(&'static str),
}

/// How calls fare where so much of all processors is at work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Busy {
    /// Share of the processors at work.
    pub share: f64,
    /// What half of the calls take at most, microseconds.
    pub p50_us: f64,
    /// What 99 of a hundred take at most.
    pub p99_us: f64,
}

/// What a load needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Processors that are at work in the mean.
    pub cores_at_work: f64,
    /// Pods of runners.
    pub pods: usize,
    /// Workers of each: one for each processor.
    pub workers: usize,
    /// Memory limit of each, MiB.
    pub pod_mib: u64,
    /// How calls fare.
    pub all: Busy,
    /// How they fare while one pod is gone; none where it is the only one.
    pub one_gone: Option<Busy>,
    /// How they would fare with more and fewer calls.
    pub ladder: Vec<Busy>,
    /// The same where each call goes to a pod that was drawn by lot: nobody knows which one is idle.
    pub ladder_by_lot: Vec<Busy>,
    /// Calls a second that these pods answer before queues grow.
    pub calls_per_s_max: f64,
    /// Compilers, of two processors each.
    pub compilers: usize,
    /// Share of them that new scripts take.
    pub compilers_busy: f64,
}

impl Advice {
    /// Processors of all runners.
    #[must_use]
    pub fn cores(&self, demand: &Demand) -> usize {
        self.pods * demand.pod_cores
    }
}

/// What `demand` needs.
///
/// # Errors
/// It makes no sense, or needs more pods than anybody has.
pub fn advise(demand: &Demand) -> Result<Advice, AdviceError> {
    check(demand)?;
    let call_us = demand.script_us + demand.beside_us;
    let cores_at_work = demand.calls_per_s * call_us / 1e6;
    let pods = (cores_at_work / demand.busy / demand.pod_cores as f64).ceil().max(1.0);
    if pods > PODS_MAX {
        return Err(AdviceError::TooManyPods);
    }
    let pods = whole(pods);
    let share_of = |pods: usize| cores_at_work / (pods * demand.pod_cores) as f64;
    let one_gone = (pods > 1).then(|| fare(demand, pods - 1, share_of(pods - 1)));
    let (compilers, compilers_busy) = compilers(demand, pods);
    Ok(Advice {
        cores_at_work,
        pods,
        workers: demand.pod_cores,
        pod_mib: pod_mib(demand.pod_cores as u64),
        all: fare(demand, pods, share_of(pods)),
        one_gone,
        ladder: LADDER.iter().map(|&share| fare(demand, pods, share)).collect(),
        // Whoever is sent to one pod meets its queue alone.
        ladder_by_lot: LADDER.iter().map(|&share| fare(demand, 1, share)).collect(),
        calls_per_s_max: demand.calls_per_s * FULL / share_of(pods),
        compilers,
        compilers_busy,
    })
}

fn check(demand: &Demand) -> Result<(), AdviceError> {
    let Demand { calls_per_s, script_us, beside_us, busy, new_scripts_per_s, pod_cores, .. } = *demand;
    let numbers = [
        ("calls a second", calls_per_s > 0.0 && calls_per_s.is_finite()),
        ("time of a script", script_us >= 0.0 && script_us.is_finite()),
        ("time beside a script", beside_us >= 0.0 && (beside_us + script_us) > 0.0 && beside_us.is_finite()),
        ("share of processors", busy > 0.0 && busy <= FULL),
        ("new scripts a second", new_scripts_per_s >= 0.0 && new_scripts_per_s.is_finite()),
        ("processors of a pod", (1..=1_024).contains(&pod_cores)),
    ];
    let wrong = numbers.into_iter().find(|(_, is_right)| !is_right);
    wrong.map_or(Ok(()), |(name, _)| Err(AdviceError::Senseless(name)))
}

/// Memory limit of a runner's pod with so many workers, MiB.
fn pod_mib(workers: u64) -> u64 {
    SERVICE_MIB + KEPT_MIB + WORKER_MIB * (workers + IDLE_WORKERS)
}

/// How calls fare where `pods` have `share` of their processors at work.
fn fare(demand: &Demand, pods: usize, share: f64) -> Busy {
    if share >= 1.0 {
        // Queues without an end.
        return Busy { share, p50_us: f64::INFINITY, p99_us: f64::INFINITY };
    }
    let measured = Measured { calls: vec![(1.0, times(demand))], ..Measured::default() };
    let runners = pods.min(SIMULATED_MAX);
    let plan =
        ClusterPlan { runners, runner_cores: demand.pod_cores, calls: CALLS, ..ClusterPlan::default() };
    let rate = plan.runners_per_s(&measured) * share;
    let at = simulate(ClusterPlan { load: ClusterLoad::PerSecond(rate), ..plan }, &measured, 1);
    Busy { share, p50_us: at.p50_us, p99_us: at.p99_us }
}

/// Times of calls.
fn times(demand: &Demand) -> Times {
    match demand.spread {
        Spread::Even => Times::of(vec![demand.script_us + demand.beside_us]),
        Spread::Wide => {
            let at = |step: u32| (f64::from(step) + 0.5) / f64::from(STEPS);
            let scripts = (0..STEPS).map(|step| -demand.script_us * (1.0 - at(step)).ln());
            Times::of(scripts.map(|script| script + demand.beside_us).collect())
        }
    }
}

/// Compilers that new scripts need, and how busy they are.
fn compilers(demand: &Demand, pods: usize) -> (usize, f64) {
    let one = |time: f64| Times::of(vec![time]);
    let measured = Measured {
        get_us: one(GET_US),
        store_us: one(STORE_US),
        compile_us: one(BASELINE_US),
        full_us: one(FULL_US),
        ..Measured::default()
    };
    let plan = |compilers| ClusterPlan {
        runners: pods,
        compilers,
        compiler_cores: COMPILER_CORES,
        new_scripts_per_s: demand.new_scripts_per_s,
        ..ClusterPlan::default()
    };
    let compilers = whole((plan(1).compilers_busy(&measured) / COMPILER_BUSY).ceil().clamp(1.0, PODS_MAX));
    (compilers, plan(compilers).compilers_busy(&measured))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the most pods")]
fn whole(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3,000 verifications a second of 40 ms.
    fn example() -> Demand {
        Demand {
            calls_per_s: 3_000.0,
            script_us: 40_000.0,
            beside_us: 250.0,
            spread: Spread::Wide,
            pod_cores: 4,
            busy: 0.7,
            new_scripts_per_s: 0.0,
        }
    }

    #[test]
    fn three_thousand_of_forty_milliseconds() {
        let advice = advise(&example()).unwrap();
        // 3,000 x 40.25 ms a second, of which each pod takes 4 x 0.7.
        assert!((advice.cores_at_work - 120.75).abs() < 1e-9);
        assert_eq!((advice.pods, advice.workers, advice.cores(&example())), (44, 4, 176));
        // What test_chart.py has the chart make of four workers.
        assert_eq!(advice.pod_mib, 1_920);
        assert!((advice.all.share - 120.75 / 176.0).abs() < 1e-9);
        let gone = advice.one_gone.unwrap();
        assert!(gone.share > advice.all.share && gone.p99_us.is_finite());
        assert!((advice.calls_per_s_max - 0.95 * 176e6 / 40_250.0).abs() < 1e-6);
        assert_eq!(advice.compilers, 1);
        assert!(advice.compilers_busy == 0.0);
        // Nearly nobody waits: half of the scripts take 28 ms, one of a hundred 184.
        assert!((advice.all.p50_us / 28_000.0 - 1.0).abs() < 0.05, "{advice:?}");
        assert!((advice.all.p99_us / 184_000.0 - 1.0).abs() < 0.1, "{advice:?}");
        assert!(advice.ladder_by_lot[1].p99_us > 1.2 * advice.ladder[1].p99_us, "{advice:?}");
        assert_eq!(advice, advise(&example()).unwrap());
    }

    #[test]
    fn a_lone_pod_waits_sooner_than_many() {
        let small = Demand { calls_per_s: 15.0, pod_cores: 1, ..example() };
        let advice = advise(&small).unwrap();
        assert_eq!((advice.pods, advice.one_gone), (1, None));
        assert_eq!(advice.ladder, advice.ladder_by_lot);
        let many = advise(&Demand { calls_per_s: 1_500.0, ..small }).unwrap();
        assert!(many.pods > 80);
        let at = |advice: &Advice| advice.ladder.iter().map(|busy| busy.p99_us).collect::<Vec<_>>();
        let (lone, crowd) = (at(&advice), at(&many));
        assert!(lone.is_sorted() && lone[4] > 3.0 * lone[0], "{lone:?}");
        assert!(lone.iter().zip(&crowd).all(|(lone, crowd)| lone > crowd), "{lone:?} {crowd:?}");
    }

    #[test]
    fn scripts_that_take_as_long_wait_less() {
        let even = advise(&Demand { spread: Spread::Even, ..example() }).unwrap();
        assert!((even.all.p50_us - 40_250.0).abs() < 1.0 && even.all.p99_us < 100_000.0, "{even:?}");
    }

    #[test]
    fn without_the_last_but_one_nothing_is_answered() {
        let two = Demand { calls_per_s: 60.0, pod_cores: 2, busy: 0.7, ..example() };
        let advice = advise(&two).unwrap();
        assert_eq!(advice.pods, 2);
        assert!(advice.one_gone.unwrap().p99_us.is_infinite());
    }

    #[test]
    fn new_scripts_need_compilers() {
        let advice = advise(&Demand { new_scripts_per_s: 5.0, ..example() }).unwrap();
        // 5 x (37 ms + 1.6 s + 44 gets) a second, of which a compiler takes 2 x 0.5.
        assert_eq!(advice.compilers, 9);
        assert!((0.4..=0.5).contains(&advice.compilers_busy), "{advice:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |demand: Demand| advise(&demand).unwrap_err();
        let zero = example();
        assert_eq!(refused(Demand { calls_per_s: 0.0, ..zero }), AdviceError::Senseless("calls a second"));
        assert_eq!(
            refused(Demand { calls_per_s: f64::NAN, ..zero }),
            AdviceError::Senseless("calls a second")
        );
        assert_eq!(refused(Demand { busy: 0.96, ..zero }), AdviceError::Senseless("share of processors"));
        assert_eq!(refused(Demand { pod_cores: 0, ..zero }), AdviceError::Senseless("processors of a pod"));
        let nothing = Demand { script_us: 0.0, beside_us: 0.0, ..zero };
        assert_eq!(refused(nothing), AdviceError::Senseless("time beside a script"));
        assert_eq!(refused(Demand { calls_per_s: 1e9, ..zero }), AdviceError::TooManyPods);
        let below = Demand { new_scripts_per_s: -1.0, ..zero };
        assert_eq!(refused(below), AdviceError::Senseless("new scripts a second"));
    }
}
