//! The fuzzing loop: mutates and runs inputs, and retains those that reach new coverage.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_vm::CountingSession;

use crate::{
    End, Executor, FuzzError, FuzzInput, Machines, Ran,
    counts::Reached,
    job::{FuzzFinding, FuzzJob, FuzzNews, FuzzProgress, FuzzRequest},
    judge::{Case, Violation, judge},
    minimise::minimise,
    mutate::Changes,
    operands::positions,
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

/// Runs `job` on `machines` until it is complete or the parent stops it.
///
/// # Errors
/// Those of [`FuzzError`]. A violated invariant is not an error.
pub fn fuzz(job: &FuzzJob, machines: &Machines, parent: &mut dyn Parent) -> Result<(), FuzzError> {
    let mut fuzzing = Fuzzing::new(job, machines, parent)?;
    fuzzing.begin()?;
    fuzzing.go_on()?;
    let done = FuzzNews::Done(fuzzing.progress);
    Ok(fuzzing.parent.notify(done)?)
}

struct Fuzzing<'a> {
    job: &'a FuzzJob,
    parent: &'a mut dyn Parent,
    executor: Executor,
    other: Option<Executor>,
    /// Records the operands of branches.
    teller: (Executor, Arc<CountingSession>),
    changes: Changes,
    progress: FuzzProgress,
    reached: Reached,
    /// Coverage of failed runs: a failure with new coverage may be another bug.
    reached_by_errors: Reached,
    /// Kinds of findings that the parent already has.
    kinds: Vec<String>,
    last_cycles: u64,
    last_news: Instant,
    findings: u32,
    is_stopped: bool,
}

impl<'a> Fuzzing<'a> {
    fn new(job: &'a FuzzJob, machines: &Machines, parent: &'a mut dyn Parent) -> Result<Self, FuzzError> {
        let executor = Executor::new(job, &job.document, machines.clone())?;
        let other = job.other.as_ref().map(|document| Executor::new(job, document, machines.clone()));
        let session = CountingSession::new(job.counter_bits, true);
        let teller = (executor.on(Machines::Interpreter(session.clone())), session);
        Ok(Self {
            job,
            parent,
            executor,
            other: other.transpose()?,
            teller,
            changes: Changes::new(job)?,
            progress: FuzzProgress::default(),
            reached: Reached::new(1 << job.counter_bits),
            reached_by_errors: Reached::new(1 << job.counter_bits),
            kinds: Vec::new(),
            last_cycles: 0,
            last_news: Instant::now(),
            findings: 0,
            is_stopped: false,
        })
    }

    /// Runs the original transaction and the initial inputs.
    fn begin(&mut self) -> Result<(), FuzzError> {
        let given = self.executor.given();
        let (found, ran) = self.judge(&given)?;
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
        self.parent.notify(FuzzNews::Ready(ran.end.to_string()))?;
        self.executor.take_counters(|_| ());
        self.execute(&given)?;
        self.keep(&given)?;
        job.seeds.iter().try_for_each(|seed| self.run_bytes(seed))
    }

    /// Runs `fields`; returns the violation and the result.
    fn judge(&self, fields: &FuzzInput) -> Result<(Option<Violation>, Ran), FuzzError> {
        let ran = self.executor.run(fields)?;
        let other = self.other.as_ref().map(|other| other.run(fields)).transpose()?;
        let changed = match ran.end {
            End::Accepted => self.executor.changed(fields),
            _ => Vec::new(),
        };
        let case = Case { end: &ran.end, other: other.as_ref().map(|ran| &ran.end), changed: &changed };
        Ok((judge(&self.job.invariants, case), ran))
    }

    /// Runs `fields` and counts the run; returns whether their coverage is new, and the violation.
    fn execute(&mut self, fields: &FuzzInput) -> Result<(bool, Option<Violation>), FuzzError> {
        let (mut found, ran) = self.judge(fields)?;
        let Self { executor, reached, reached_by_errors, progress, .. } = self;
        let mut is_new = false;
        executor.take_counters(|counted| {
            is_new = reached.add(counted);
            found.take_if(|found| found.has_place && !reached_by_errors.add(counted));
        });
        progress.edges = reached.edges;
        progress.runs += 1;
        progress.interpreted_runs += u64::from(!ran.is_native);
        progress.accepted += u64::from(ran.end == End::Accepted);
        progress.cycles = progress.cycles.saturating_add(ran.cycles);
        self.last_cycles = ran.cycles;
        Ok((is_new, found))
    }

    fn run_bytes(&mut self, bytes: &[bytes::Bytes]) -> Result<(), FuzzError> {
        self.run(&FuzzInput::of(bytes, self.job.fields.len()))
    }

    /// Runs `fields`; retains them if they are new, and reports a violation.
    fn run(&mut self, fields: &FuzzInput) -> Result<(), FuzzError> {
        let (is_new, found) = self.execute(fields)?;
        if is_new {
            self.keep(fields)?;
        }
        let Some(found) = found else { return Ok(()) };
        let places = self.kinds.iter().filter(|known| known.starts_with(&found.kind)).count();
        if found.has_place && places >= POSITIONS_MAX {
            return Ok(());
        }
        let found = self.with_position(found, fields)?;
        if !self.kinds.contains(&found.kind) {
            self.report_finding(found, fields)?;
        }
        Ok(())
    }

    /// Adds the location to `found`, if it has one and the run is short enough for the interpreter.
    fn with_position(&self, found: Violation, fields: &FuzzInput) -> Result<Violation, FuzzError> {
        if !found.has_place || self.last_cycles > OPERANDS_CYCLES_MAX {
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

    /// Retains an input, whatever it reaches, and analyses the operands of its branches.
    fn keep(&mut self, fields: &FuzzInput) -> Result<(), FuzzError> {
        self.progress.inputs += 1;
        self.parent.notify(FuzzNews::StoredFinding(fields.to_bytes()))?;
        let mut places = Vec::new();
        // Do not learn operands that a forger cannot know: a script may compute a signature and compare it.
        if !self.job.invariants.accepts_other && self.last_cycles <= OPERANDS_CYCLES_MAX {
            let (teller, session) = &self.teller;
            teller.run(fields)?;
            teller.take_counters(|_| ());
            places = positions(fields, &session.take_compared());
        }
        self.changes.keep(fields.clone(), places);
        Ok(())
    }

    fn report_finding(&mut self, found: Violation, fields: &FuzzInput) -> Result<(), FuzzError> {
        let run = self.progress.runs;
        let given = self.job.invariants.accepts_other.then(|| self.executor.given());
        // A finding with changed fields may become one with fewer of them; others must remain the same.
        let is_same = |violation: &Violation| match given {
            Some(_) if found.kind.starts_with("accepts ") => violation.kind.starts_with("accepts "),
            _ => violation.kind == found.kind,
        };
        let small = minimise(fields.clone(), given.as_ref(), |tried| match self.judge(tried)?.0 {
            Some(violation) if found.kind.starts_with(&violation.kind) || given.is_some() => {
                Ok(is_same(&self.with_position(violation, tried)?))
            }
            _ => Ok::<_, FuzzError>(false),
        })?;
        let violation = match self.judge(&small)?.0 {
            Some(violation) => self.with_position(violation, &small)?,
            None => found.clone(),
        };
        self.executor.take_counters(|_| ());
        let is_known = self.kinds.contains(&violation.kind);
        if is_known || violation.kind != found.kind {
            self.kinds.push(found.kind);
        }
        if is_known {
            return Ok(());
        }
        self.kinds.push(violation.kind.clone());
        self.findings += 1;
        let finding = FuzzFinding {
            kind: violation.kind,
            what: violation.what,
            fields: small.to_bytes(),
            bytes_before: fields.bytes() as u64,
            run,
        };
        Ok(self.parent.notify(FuzzNews::Found(Box::new(finding)))?)
    }

    fn go_on(&mut self) -> Result<(), FuzzError> {
        while !self.is_done() {
            let input = self.changes.next_input();
            for _ in 0..RUNS_OF_ONE {
                let fields = self.changes.mutated(input)?;
                self.run(&fields)?;
                if self.progress.runs.is_multiple_of(RUNS_BETWEEN_POLLS) {
                    self.poll()?;
                }
                if self.is_done() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        let is_over = self.job.runs_max.is_some_and(|max| self.progress.runs >= max);
        self.is_stopped || is_over || self.findings >= self.job.findings_max.max(1)
    }

    /// Reports progress, and handles the parent's requests.
    fn poll(&mut self) -> Result<(), FuzzError> {
        if self.last_news.elapsed() >= PROGRESS {
            self.last_news = Instant::now();
            self.parent.notify(FuzzNews::Progress(self.progress))?;
        }
        while let Some(ask) = self.parent.asks()? {
            match ask {
                FuzzRequest::Input(bytes) => self.run_bytes(&bytes)?,
                FuzzRequest::Stop => {
                    self.is_stopped = true;
                    break;
                }
            }
        }
        Ok(())
    }
}
