//! A cluster as three stations of servers with queues: callers, runners, compilers. Events in the order of
//! their times, no clock.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use crate::times::{Measured, Times};

/// Of the calls, the first one in so many is not counted: queues fill.
const WARM_UP_ONE_IN: usize = 5;

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct ClusterPlan {
    pub runners: usize,
    /// Processors of a runner, and what each does in a second of its time.
    pub runner_cores: usize,
    pub runner_speed: f64,
    pub compilers: usize,
    pub compiler_cores: usize,
    pub load: ClusterLoad,
    /// Scripts that nobody has seen before, a second of the whole cluster. Each comes to be run by every
    /// runner.
    pub new_scripts_per_s: f64,
    /// Calls that are simulated.
    pub calls: usize,
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub enum ClusterLoad {
    /// So many callers, each of which calls again when it has its answer.
    Callers(usize),
    /// So many calls a second, at random moments.
    PerSecond(f64),
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SimulatedTimes {
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Shares of their time in which processors worked.
    pub runners_busy: f64,
    pub compilers_busy: f64,
}

/// A source of random numbers (xorshift64*), the same for the same seed.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// From 0 to below 1.
    fn share(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.share()).ln()
    }
}

/// A call, and where it is on its way.
#[derive(Clone, Copy, Debug)]
struct Call {
    began_us: f64,
    runner: usize,
    /// What the compilers have to do for it first.
    fetch_us: f64,
    /// Time in which nobody works: the object store's.
    away_us: f64,
    run_us: f64,
}

/// Processors with one queue before them: first come, first served.
#[derive(Clone, Debug)]
struct Station {
    free: usize,
    speed: f64,
    waiting: VecDeque<Call>,
    busy_us: f64,
}

impl Station {
    fn new(cores: usize, speed: f64) -> Self {
        Self { free: cores, speed, waiting: VecDeque::new(), busy_us: 0.0 }
    }

    /// How long `work_us` takes here, if it can begin.
    fn begin(&mut self, work_us: f64) -> f64 {
        let time = work_us / self.speed;
        self.busy_us += time;
        time
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A caller begins its next call.
    Begin,
    /// A compiler is done with its part.
    Fetched { compiler: usize, call: Call },
    /// The call comes to its runner.
    Arrived(Call),
    /// It is answered.
    Done(Call),
}

/// When something happens. Times are not negative, so their bits have their order.
type At = Reverse<(u64, u64)>;

struct Simulation<'a> {
    plan: ClusterPlan,
    measured: &'a Measured,
    random: Random,
    now_us: f64,
    numbered: u64,
    heap: BinaryHeap<At>,
    events: std::collections::HashMap<u64, Event>,
    runners: Vec<Station>,
    in_progress: Vec<usize>,
    compilers: Vec<Station>,
    turn: usize,
    begun: usize,
    times_us: Vec<f64>,
    counted_since_us: f64,
    /// When the last call began, and how many had ended: what comes after is a cluster that runs empty.
    last_us: f64,
    ended: usize,
}

/// Simulates `plan` with times as `measured`.
pub fn simulate(plan: ClusterPlan, measured: &Measured, seed: u64) -> SimulatedTimes {
    let mut simulation = Simulation {
        plan,
        measured,
        random: Random(seed | 1),
        now_us: 0.0,
        numbered: 0,
        heap: BinaryHeap::new(),
        events: std::collections::HashMap::new(),
        runners: vec![Station::new(plan.runner_cores, plan.runner_speed); plan.runners],
        in_progress: vec![0; plan.runners],
        compilers: vec![Station::new(plan.compiler_cores, plan.compiler_speed(measured)); plan.compilers],
        turn: 0,
        begun: 0,
        times_us: Vec::new(),
        counted_since_us: 0.0,
        last_us: 0.0,
        ended: 0,
    };
    let first = match plan.load {
        ClusterLoad::Callers(callers) => callers,
        ClusterLoad::PerSecond(_) => 1,
    };
    (0..first).for_each(|_| simulation.at(0.0, Event::Begin));
    while let Some(Reverse((time, number))) = simulation.heap.pop() {
        simulation.now_us = f64::from_bits(time);
        if let Some(event) = simulation.events.remove(&number) {
            simulation.step(event);
        }
    }
    simulation.outcome()
}

impl Simulation<'_> {
    fn at(&mut self, in_us: f64, event: Event) {
        self.numbered += 1;
        self.heap.push(Reverse(((self.now_us + in_us).to_bits(), self.numbered)));
        self.events.insert(self.numbered, event);
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Begin => self.begin(),
            Event::Fetched { compiler, call } => {
                self.at(call.away_us, Event::Arrived(call));
                self.give_back(Some(compiler), 0);
            }
            Event::Arrived(call) => self.run(call),
            Event::Done(call) => self.done(call),
        }
    }

    fn begin(&mut self) {
        if self.begun >= self.plan.calls {
            return;
        }
        self.begun += 1;
        (self.last_us, self.ended) = (self.now_us, self.times_us.len());
        if let ClusterLoad::PerSecond(rate) = self.plan.load {
            let next = self.random.exponential(1e6 / rate);
            self.at(next, Event::Begin);
        }
        let runner = self.least_busy();
        self.in_progress[runner] += 1;
        let (fetch_us, away_us) = self.fetch();
        let run_us = self.measured.call(self.random.share(), self.random.share());
        let call = Call { began_us: self.now_us, runner, fetch_us, away_us, run_us };
        if fetch_us > 0.0 {
            self.compile(call);
        } else {
            self.run(call);
        }
    }

    /// The runner with the fewest calls in progress, each in turn among equals.
    fn least_busy(&mut self) -> usize {
        let runners = self.runners.len();
        self.turn = (self.turn + 1) % runners;
        let in_turn = (0..runners).map(|step| (self.turn + step) % runners);
        in_turn.min_by_key(|runner| self.in_progress[*runner]).unwrap_or(0)
    }

    /// What the compilers must do before the call can run, and how long the object store takes.
    fn fetch(&mut self) -> (f64, f64) {
        let per_call = self.plan.new_scripts_per_s / self.calls_per_s();
        let (drawn, at) = (self.random.share(), self.random.share());
        let (get, stored) = (self.measured.get_us.at(at), self.measured.store_us.at(at));
        if drawn < per_call {
            (self.measured.compile_us.at(at) + get, 0.0)
        } else if drawn < per_call * self.plan.runners as f64 {
            (get, stored)
        } else {
            (0.0, 0.0)
        }
    }

    fn calls_per_s(&self) -> f64 {
        match self.plan.load {
            ClusterLoad::PerSecond(rate) => rate,
            ClusterLoad::Callers(_) => self.plan.runners_per_s(self.measured),
        }
    }

    fn compile(&mut self, call: Call) {
        // Equal scripts meet at one compiler, and scripts spread evenly.
        let compiler = self.random.below(self.compilers.len());
        let station = &mut self.compilers[compiler];
        if station.free == 0 {
            station.waiting.push_back(call);
            return;
        }
        station.free -= 1;
        let time = station.begin(call.fetch_us);
        self.at(time, Event::Fetched { compiler, call });
    }

    fn run(&mut self, call: Call) {
        let station = &mut self.runners[call.runner];
        if station.free == 0 {
            station.waiting.push_back(call);
            return;
        }
        station.free -= 1;
        let time = station.begin(call.run_us);
        self.at(time, Event::Done(call));
    }

    fn done(&mut self, call: Call) {
        self.in_progress[call.runner] -= 1;
        if self.times_us.len() == self.warm_up() {
            self.counted_since_us = self.now_us;
        }
        self.times_us.push(self.now_us - call.began_us);
        self.give_back(None, call.runner);
        if let ClusterLoad::Callers(_) = self.plan.load {
            self.begin();
        }
    }

    /// A processor of a compiler, or of a runner, takes who waits.
    fn give_back(&mut self, compiler: Option<usize>, runner: usize) {
        let station = match compiler {
            Some(compiler) => &mut self.compilers[compiler],
            None => &mut self.runners[runner],
        };
        let Some(next) = station.waiting.pop_front() else {
            station.free += 1;
            return;
        };
        match compiler {
            Some(compiler) => {
                let time = station.begin(next.fetch_us);
                self.at(time, Event::Fetched { compiler, call: next });
            }
            None => {
                let time = station.begin(next.run_us);
                self.at(time, Event::Done(next));
            }
        }
    }

    fn warm_up(&self) -> usize {
        self.plan.calls / WARM_UP_ONE_IN
    }

    fn outcome(self) -> SimulatedTimes {
        let warm_up = self.warm_up();
        let busy = |stations: &[Station], cores: usize| {
            let all = (stations.len() * cores) as f64 * self.now_us;
            stations.iter().map(|station| station.busy_us).sum::<f64>() / all.max(1.0)
        };
        let (runners_busy, compilers_busy) =
            (busy(&self.runners, self.plan.runner_cores), busy(&self.compilers, self.plan.compiler_cores));
        let counted: Vec<f64> = self.times_us.into_iter().skip(warm_up).collect();
        let seconds = (self.last_us - self.counted_since_us) / 1e6;
        let per_second = self.ended.saturating_sub(warm_up) as f64 / seconds;
        let times = Times::of(counted);
        SimulatedTimes {
            per_second,
            p50_us: times.at(0.5),
            p99_us: times.at(0.99),
            runners_busy,
            compilers_busy,
        }
    }
}

impl Default for ClusterPlan {
    fn default() -> Self {
        Self {
            runners: 1,
            runner_cores: 1,
            runner_speed: 1.0,
            compilers: 1,
            compiler_cores: 1,
            load: ClusterLoad::Callers(1),
            new_scripts_per_s: 0.0,
            calls: 1,
        }
    }
}

impl ClusterPlan {
    /// New scripts a second that keep all compilers busy with nothing else.
    pub fn new_scripts_max(&self, measured: &Measured) -> f64 {
        let cores = (self.compilers * self.compiler_cores) as f64;
        cores * 1e6 / self.script_us(measured)
    }

    /// What a new script costs the compilers: both compiles, and a get for every runner.
    fn script_us(&self, measured: &Measured) -> f64 {
        let compiles = measured.compile_us.mean() + measured.full_us.mean();
        compiles + self.runners as f64 * measured.get_us.mean()
    }

    /// What all runners can do in a second, if nothing else is in the way.
    pub fn runners_per_s(&self, measured: &Measured) -> f64 {
        let speed = self.runner_cores as f64 * self.runner_speed;
        self.runners as f64 * speed * 1e6 / measured.call_mean_us()
    }

    /// What new scripts take of the compilers, as a share of what they can do.
    pub fn compilers_busy(&self, measured: &Measured) -> f64 {
        self.new_scripts_per_s / self.new_scripts_max(measured)
    }

    /// What full compiles leave of a compiler to those who wait for it.
    fn compiler_speed(&self, measured: &Measured) -> f64 {
        let cores = (self.compilers * self.compiler_cores) as f64;
        (1.0 - self.new_scripts_per_s * measured.full_us.mean() / 1e6 / cores).max(0.05)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that take 100 us each.
    fn constant() -> Measured {
        Measured { calls: vec![(1.0, Times::of(vec![100.0]))], ..Measured::default() }
    }

    /// Calls of 100 us in the mean, exponentially spread.
    fn exponential() -> Measured {
        let times = (0..10_000).map(|step| -100.0 * (1.0 - (f64::from(step) + 0.5) / 10_000.0).ln());
        Measured { calls: vec![(1.0, Times::of(times.collect()))], ..Measured::default() }
    }

    fn near(value: f64, expected: f64, share: f64) {
        assert!((value / expected - 1.0).abs() < share, "{value}, expected {expected}");
    }

    #[test]
    fn runners_answer_what_their_processors_can() {
        for (runners, cores, speed) in [(1, 1, 1.0), (4, 2, 1.0), (6, 1, 0.1)] {
            let plan = ClusterPlan {
                runners,
                runner_cores: cores,
                runner_speed: speed,
                load: ClusterLoad::Callers(8 * runners),
                calls: 20_000,
                ..ClusterPlan::default()
            };
            let outcome = simulate(plan, &constant(), 1);
            near(outcome.per_second, (runners * cores) as f64 * speed * 10_000.0, 0.02);
            near(outcome.runners_busy, 1.0, 0.02);
            // Each waits for the seven before it and cores work side by side.
            near(outcome.p50_us, 800.0 / speed / cores as f64, 0.05);
        }
    }

    #[test]
    fn one_queue_is_as_long_as_theory_says() {
        // One server, random arrivals, exponential times: the mean time is that of a call by the share that
        // is free.
        let plan =
            ClusterPlan { load: ClusterLoad::PerSecond(8_000.0), calls: 400_000, ..ClusterPlan::default() };
        let outcome = simulate(plan, &exponential(), 1);
        near(outcome.per_second, 8_000.0, 0.02);
        near(outcome.runners_busy, 0.8, 0.03);
        // Times are spread exponentially around 500 us.
        near(outcome.p50_us, 500.0 * 2.0_f64.ln(), 0.08);
        near(outcome.p99_us, 500.0 * 100.0_f64.ln(), 0.12);
    }

    #[test]
    fn more_than_can_be_done_is_not_done() {
        let plan = ClusterPlan {
            runners: 3,
            load: ClusterLoad::PerSecond(60_000.0),
            calls: 60_000,
            ..ClusterPlan::default()
        };
        near(simulate(plan, &constant(), 1).per_second, 30_000.0, 0.02);
    }

    #[test]
    fn new_scripts_wait_for_compilers_and_the_store() {
        let one = |time: f64| Times::of(vec![time]);
        let measured = Measured {
            get_us: one(1_000.0),
            store_us: one(5_000.0),
            compile_us: one(20_000.0),
            full_us: one(100_000.0),
            ..constant()
        };
        let plan = ClusterPlan {
            runners: 10,
            compilers: 2,
            load: ClusterLoad::PerSecond(1_000.0),
            new_scripts_per_s: 5.0,
            calls: 100_000,
            ..ClusterPlan::default()
        };
        // 120 ms of compiles and ten gets for each script, of two seconds in a second.
        near(plan.new_scripts_max(&measured), 2e6 / 130_000.0, 1e-9);
        near(plan.compilers_busy(&measured), 5.0 * 130_000.0 / 2e6, 1e-9);
        let outcome = simulate(plan, &measured, 1);
        // Five calls of a thousand wait for a compile, 45 for a get; the rest do not.
        near(outcome.p50_us, 100.0, 0.01);
        assert!(outcome.p99_us > 6_000.0 && outcome.p99_us < 60_000.0, "{outcome:?}");
        // Full compiles are not among what the simulation itself sees.
        near(outcome.compilers_busy, 5.0 * (21_000.0 + 9.0 * 1_000.0) / 0.75 / 2e6, 0.15);
        assert_eq!(simulate(plan, &measured, 7), simulate(plan, &measured, 7));
    }
}
