//! The fuzzing loop: mutates and runs inputs, and retains those that reach new coverage.

use std::time::{Duration, Instant};

use crate::job::{FuzzFinding, FuzzJob, FuzzNews, FuzzProgress, FuzzRequest};
use antares_vm::CountingSession;
use libafl::fuzzer::NopInputFilter;
use libafl::{
    Error,
    corpus::{Corpus, CorpusId, InMemoryCorpus},
    events::NopEventManager,
    executors::{Executor as AflExecutor, ExitKind, HasObservers},
    feedbacks::ConstFeedback,
    fuzzer::{Evaluator, StdFuzzer},
    inputs::BytesInputConverter,
    state::{HasCorpus, HasMaxSize, StdState},
};
use libafl_bolts::{rands::StdRand, tuples::RefIndexable};

use crate::{
    End, Executor, FuzzError, FuzzInput, Machines,
    constants::words,
    counts::{News, Reached},
    judge::{Case, Violation, judge},
    minimise::minimise,
    mutate::Changes,
    operands::positions,
    queue::NewOrAny,
    state::State,
};

/// Interval of progress reports to the parent.
const PROGRESS: Duration = Duration::from_secs(1);
/// Runs between polls of the clock and of the parent's requests.
const RUNS_BETWEEN_POLLS: u64 = 64;
/// Mutations of an input before another one is selected.
const RUNS_OF_ONE: usize = 64;
/// Maximum cycles of an input for an analysis of branch operands, which uses an interpreter.
const OPERANDS_CYCLES_MAX: u64 = 20_000_000;

/// Maximum locations that distinguish errors of one kind: a jump to anywhere fails everywhere.
const POSITIONS_MAX: usize = 4;

/// The receiver of results.
pub trait Parent {
    /// Receives a message.
    ///
    /// # Errors
    /// The parent is gone.
    fn notify(&mut self, news: FuzzNews) -> std::io::Result<()>;

    /// The parent's next request, if there is one.
    ///
    /// # Errors
    /// The parent is gone.
    fn asks(&mut self) -> std::io::Result<Option<FuzzRequest>>;
}

type Library = StdFuzzer<NewOrAny, News, BytesInputConverter, NopInputFilter, ConstFeedback>;

/// Runs `job` on `machines` until it is complete or the parent stops it.
///
/// # Errors
/// Those of [`FuzzError`]. A violated invariant is not an error.
pub fn fuzz(job: &FuzzJob, machines: &Machines, parent: &mut dyn Parent) -> Result<(), FuzzError> {
    let executor = Executor::new(job, &job.document, machines.clone())?;
    let other = job.other.as_ref().map(|document| Executor::new(job, document, machines.clone()));
    let judged = Judged {
        executor,
        other: other.transpose()?,
        job,
        progress: FuzzProgress::default(),
        reached: Reached::new(1 << job.counter_bits),
        reached_by_errors: Reached::new(1 << job.counter_bits),
        news: News::default(),
        nothing: (),
        found: None,
        kinds: Vec::new(),
        last_cycles: 0,
    };
    let mut fuzzing = Fuzzing::new(job, judged)?;
    fuzzing.begin(parent)?;
    fuzzing.go_on(parent)?;
    parent.notify(FuzzNews::Done(fuzzing.judged.progress))?;
    Ok(())
}

/// Runs inputs for libafl, and judges them.
struct Judged<'a> {
    executor: Executor,
    other: Option<Executor>,
    job: &'a FuzzJob,
    progress: FuzzProgress,
    reached: Reached,
    /// Coverage of failed runs: a failure with new coverage may be another bug.
    reached_by_errors: Reached,
    news: News,
    /// An empty list of libafl observers.
    nothing: (),
    /// The violation of the last run.
    found: Option<Violation>,
    /// Kinds of findings that the parent already has.
    kinds: Vec<String>,
    last_cycles: u64,
}

impl Judged<'_> {
    /// Runs `fields`; returns the violation and the result.
    fn judge(&self, fields: &FuzzInput) -> Result<(Option<Violation>, crate::Ran), FuzzError> {
        let ran = self.executor.run(fields)?;
        let other = self.other.as_ref().map(|other| other.run(fields)).transpose()?;
        let changed = match ran.end {
            End::Accepted => self.executor.changed(fields),
            _ => Vec::new(),
        };
        let case = Case { end: &ran.end, other: other.as_ref().map(|ran| &ran.end), changed: &changed };
        Ok((judge(&self.job.invariants, case), ran))
    }
}

impl<EM, Z> AflExecutor<EM, FuzzInput, State, Z> for Judged<'_> {
    fn run_target(
        &mut self,
        _: &mut Z,
        state: &mut State,
        _: &mut EM,
        input: &FuzzInput,
    ) -> Result<ExitKind, Error> {
        use libafl::state::HasExecutions as _;
        *state.executions_mut() += 1;
        let (mut found, ran) = self.judge(input).map_err(|error| Error::illegal_state(error.to_string()))?;
        let Self { executor, reached, reached_by_errors, news, .. } = self;
        executor.take_counters(|counted| {
            news.0.set(reached.add(counted));
            found.take_if(|found| found.has_place && !reached_by_errors.add(counted));
        });
        let progress = &mut self.progress;
        progress.edges = self.reached.edges;
        progress.runs += 1;
        progress.interpreted_runs += u64::from(!ran.is_native);
        progress.accepted += u64::from(ran.end == End::Accepted);
        progress.cycles = progress.cycles.saturating_add(ran.cycles);
        (self.found, self.last_cycles) = (found, ran.cycles);
        Ok(ExitKind::Ok)
    }
}

impl HasObservers for Judged<'_> {
    type Observers = ();

    fn observers(&self) -> RefIndexable<&(), ()> {
        RefIndexable::from(&self.nothing)
    }

    fn observers_mut(&mut self) -> RefIndexable<&mut (), ()> {
        RefIndexable::from(&mut self.nothing)
    }
}

struct Fuzzing<'a> {
    job: &'a FuzzJob,
    judged: Judged<'a>,
    library: Library,
    state: State,
    events: NopEventManager,
    changes: Changes,
    /// Records the operands of branches.
    teller: (Executor, std::sync::Arc<CountingSession>),
    last_news: Instant,
    findings: u32,
    is_stopped: bool,
}

impl<'a> Fuzzing<'a> {
    fn new(job: &'a FuzzJob, judged: Judged<'a>) -> Result<Self, FuzzError> {
        let mut feedback = judged.news.clone();
        let mut objective = ConstFeedback::new(false);
        let (corpus, none) = (InMemoryCorpus::new(), InMemoryCorpus::new());
        let rand = StdRand::with_seed(job.seed);
        let mut state = StdState::new(rand, corpus, none, &mut feedback, &mut objective)?;
        let bytes_max = usize::try_from(job.field_bytes_max).unwrap_or(usize::MAX).max(1);
        state.set_max_size(bytes_max);
        let elves = job.libraries.iter().map(|library| &library.elf);
        let mut known: Vec<_> = elves.flat_map(|elf| words(elf, 2)).collect();
        known.sort_unstable();
        known.dedup();
        if known.is_empty() {
            known = words(&[], 2);
        }
        let session = CountingSession::new(job.counter_bits, true);
        let teller = (judged.executor.on(Machines::Interpreter(session.clone())), session);
        Ok(Self {
            job,
            judged,
            library: StdFuzzer::new(NewOrAny::default(), feedback, objective),
            state,
            events: NopEventManager::new(),
            changes: Changes::new(known, bytes_max),
            teller,
            last_news: Instant::now(),
            findings: 0,
            is_stopped: false,
        })
    }

    /// Runs the original transaction and the initial inputs.
    fn begin(&mut self, parent: &mut dyn Parent) -> Result<(), FuzzError> {
        let given = self.judged.executor.given();
        let (found, ran) = self.judged.judge(&given)?;
        let job = self.job;
        if ran.end == End::Unresolved {
            return Err(FuzzError::Job("the transaction runs no script".to_owned()));
        }
        if job.invariants.accepts_other && ran.end != End::Accepted {
            let why = "the transaction is not accepted as it is, so there is nothing to be bound";
            return Err(FuzzError::Job(format!("{why}: {}", ran.end)));
        }
        if let Some(found) = found {
            return Err(FuzzError::Job(format!("the transaction is a finding as it is: {}", found.what)));
        }
        parent.notify(FuzzNews::Ready(ran.end.to_string()))?;
        self.judged.executor.take_counters(|_| ());
        let count = given.0.len();
        self.add(given, parent)?;
        for seed in &job.seeds {
            self.run(&FuzzInput::of(seed, count), parent)?;
        }
        Ok(())
    }

    /// Adds `fields` to the corpus, whatever they reach.
    fn add(&mut self, fields: FuzzInput, parent: &mut dyn Parent) -> Result<(), FuzzError> {
        let Self { library, state, judged, events, .. } = self;
        let id = library.add_input(state, judged, events, fields.clone())?;
        self.on_new_coverage(id, &fields, parent)
    }

    /// Runs `fields`; retains them if they are new, and reports a violation.
    fn run(&mut self, fields: &FuzzInput, parent: &mut dyn Parent) -> Result<(), FuzzError> {
        let Self { library, state, judged, events, .. } = self;
        let (_, id) = library.evaluate_input(state, judged, events, fields)?;
        let found = self.judged.found.take();
        if let Some(id) = id {
            self.on_new_coverage(id, fields, parent)?;
        }
        let Some(found) = found else { return Ok(()) };
        let places = self.judged.kinds.iter().filter(|known| known.starts_with(&found.kind)).count();
        if found.has_place && places >= POSITIONS_MAX {
            return Ok(());
        }
        let found = self.with_position(found, fields)?;
        if !self.judged.kinds.contains(&found.kind) {
            self.report_finding(found, fields, parent)?;
        }
        Ok(())
    }

    /// Adds the location to `found`, if it has one and the run is short enough for the interpreter.
    fn with_position(&self, found: Violation, fields: &FuzzInput) -> Result<Violation, FuzzError> {
        if !found.has_place || self.judged.last_cycles > OPERANDS_CYCLES_MAX {
            return Ok(found);
        }
        let (teller, session) = &self.teller;
        teller.run(fields)?;
        teller.take_counters(|_| ());
        drop(session.take_compared());
        Ok(match session.take_failed_at() {
            Some(address) => found.at(address),
            None => found,
        })
    }

    /// Handles an input with new coverage: also analyses the operands of its branches.
    fn on_new_coverage(
        &mut self,
        id: CorpusId,
        fields: &FuzzInput,
        parent: &mut dyn Parent,
    ) -> Result<(), FuzzError> {
        self.judged.progress.inputs += 1;
        parent.notify(FuzzNews::StoredFinding(fields.to_bytes()))?;
        // Do not learn operands that a forger cannot know: a script may compute a signature and compare it.
        if !self.job.invariants.accepts_other && self.judged.last_cycles <= OPERANDS_CYCLES_MAX {
            self.teller.0.run(fields)?;
            self.teller.0.take_counters(|_| ());
            let compared = self.teller.1.take_compared();
            self.changes.learn(id, positions(fields, &compared));
        }
        Ok(())
    }

    fn report_finding(
        &mut self,
        found: Violation,
        fields: &FuzzInput,
        parent: &mut dyn Parent,
    ) -> Result<(), FuzzError> {
        let run = self.judged.progress.runs;
        let given = self.job.invariants.accepts_other.then(|| self.judged.executor.given());
        let judged = &self.judged;
        // A finding with changed fields may become one with fewer of them; others must remain the same.
        let is_same = |violation: &Violation| match given {
            Some(_) if found.kind.starts_with("accepts ") => violation.kind.starts_with("accepts "),
            _ => violation.kind == found.kind,
        };
        let small = minimise(fields.clone(), given.as_ref(), |tried| match judged.judge(tried)?.0 {
            Some(violation) if found.kind.starts_with(&violation.kind) || given.is_some() => {
                Ok(is_same(&self.with_position(violation, tried)?))
            }
            _ => Ok::<_, FuzzError>(false),
        })?;
        let violation = match judged.judge(&small)?.0 {
            Some(violation) => self.with_position(violation, &small)?,
            None => found.clone(),
        };
        self.judged.executor.take_counters(|_| ());
        if self.judged.kinds.contains(&violation.kind) {
            self.judged.kinds.push(found.kind);
            return Ok(());
        }
        let finding = FuzzFinding {
            kind: violation.kind.clone(),
            what: violation.what,
            fields: small.to_bytes(),
            bytes_before: fields.bytes() as u64,
            run,
        };
        if violation.kind != found.kind {
            self.judged.kinds.push(found.kind);
        }
        self.judged.kinds.push(violation.kind);
        parent.notify(FuzzNews::Found(Box::new(finding)))?;
        self.findings += 1;
        Ok(())
    }

    fn go_on(&mut self, parent: &mut dyn Parent) -> Result<(), FuzzError> {
        while !self.is_done() {
            let id = self.library_next()?;
            let of = self.state.corpus().cloned_input_for_id(id)?;
            for _ in 0..RUNS_OF_ONE {
                let mut fields = of.clone();
                self.changes.change(&mut self.state, id, &mut fields)?;
                self.run(&fields, parent)?;
                if self.judged.progress.runs.is_multiple_of(RUNS_BETWEEN_POLLS) {
                    self.poll(parent)?;
                }
                if self.is_done() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn library_next(&mut self) -> Result<CorpusId, FuzzError> {
        let scheduler: &mut NewOrAny =
            <Library as libafl::fuzzer::HasScheduler<FuzzInput, State>>::scheduler_mut(&mut self.library);
        Ok(<NewOrAny as libafl::schedulers::Scheduler<FuzzInput, State>>::next(scheduler, &mut self.state)?)
    }

    fn is_done(&self) -> bool {
        let is_over = self.job.runs_max.is_some_and(|max| self.judged.progress.runs >= max);
        self.is_stopped || is_over || self.findings >= self.job.findings_max.max(1)
    }

    /// Reports progress, and handles the parent's requests.
    fn poll(&mut self, parent: &mut dyn Parent) -> Result<(), FuzzError> {
        if self.last_news.elapsed() >= PROGRESS {
            self.last_news = Instant::now();
            parent.notify(FuzzNews::Progress(self.judged.progress))?;
        }
        let count = self.judged.executor.given().0.len();
        while let Some(ask) = parent.asks()? {
            match ask {
                FuzzRequest::Input(bytes) => self.run(&FuzzInput::of(&bytes, count), parent)?,
                FuzzRequest::Stop => {
                    self.is_stopped = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
