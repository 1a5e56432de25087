//! One run: the transaction with an input's bytes in its fields, and the coverage of its scripts.

use std::sync::Arc;

use crate::job::FuzzJob;
use antares_transaction::{Environment, FieldName, Mock};
use antares_verifier::{
    CellName, Engine, GroupKind, Prepared, StopHandle, TierCycles, TransactionLimits, TransactionReport,
    Verifier, VerifyOutcome,
};
use antares_vm::{CountedMachine, CountingSession, MachineSession, NativeMachine};

use crate::{FuzzError, FuzzInput};

/// The machines that run scripts and count coverage.
#[derive(Clone)]
pub enum Machines {
    /// Native code of instrumented builds.
    Native(Arc<MachineSession>),
    /// ckb-vm's interpreter in Rust.
    Interpreter(Arc<CountingSession>),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All scripts accepted the transaction.
    Accepted,
    /// A script exited with a nonzero code.
    Exit {
        /// The code.
        code: i8,
        /// The script: `Inputs[0].Lock`.
        source: String,
    },
    /// A script failed.
    Failed {
        /// ckb-vm's name of the error, or else ckb-script's.
        error: String,
        /// The script.
        source: String,
        /// The error's full text.
        detail: String,
    },
    /// A script exceeded the cycle limit.
    Cycles {
        /// The script.
        source: String,
    },
    /// No script ran: ckb rejects the transaction.
    Unresolved,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// Cycles of all scripts.
    pub cycles: u64,
    /// Whether native code completed the run.
    pub is_native: bool,
}

/// Runs a transaction with other bytes in its fields.
#[derive(Clone)]
pub struct Executor {
    mock: Mock,
    names: Vec<FieldName>,
    environment: Environment,
    selection: Option<(GroupKind, CellName)>,
    limits: TransactionLimits,
    machines: Machines,
}

impl Executor {
    /// Creates an executor for the transaction in `document`, with the run settings of `job`.
    ///
    /// # Errors
    /// The transaction or a name is malformed, or there is no such field.
    pub fn new(job: &FuzzJob, document: &[u8], machines: Machines) -> Result<Self, FuzzError> {
        let mock = Mock::from_document(document, &[]).map_err(|error| FuzzError::Job(error.to_string()))?;
        let mock = mock.hashed().sharing(job.libraries.iter().map(|one| &one.elf));
        let mut names = Vec::new();
        for text in &job.fields {
            let name: FieldName = text.parse().map_err(|error| FuzzError::Job(format!("{error}")))?;
            if mock.field(name).is_none() {
                return Err(FuzzError::Job(format!("the transaction has no {name}")));
            }
            names.push(name);
        }
        let (rules, limits) =
            (job.rules, TransactionLimits { cycles_max: job.cycles_max, debug_bytes_max: 0 });
        let environment =
            Environment { vm_1_epoch: rules.vm_1_epoch, vm_2_epoch: rules.vm_2_epoch, epoch: rules.epoch };
        let selection = job.group;
        Ok(Self { mock, names, environment, selection, limits, machines })
    }

    /// A copy that uses other machines.
    #[must_use]
    pub fn on(&self, machines: Machines) -> Self {
        Self { machines, ..self.clone() }
    }

    /// The original content of the fields.
    #[must_use]
    pub fn given(&self) -> FuzzInput {
        let held = |name: &FieldName| self.mock.field(*name).map(|bytes| bytes.to_vec());
        FuzzInput(self.names.iter().map(|name| held(name).unwrap_or_default()).collect())
    }

    /// Names of the fields in `fields` that differ from the original transaction.
    #[must_use]
    pub fn changed(&self, fields: &FuzzInput) -> Vec<FieldName> {
        let given = self.given();
        let pairs = self.names.iter().zip(given.0.iter().zip(&fields.0));
        pairs.filter(|(_, (given, now))| given != now).map(|(name, _)| *name).collect()
    }

    /// Runs the transaction with these fields.
    ///
    /// # Errors
    /// The script group does not exist.
    pub fn run(&self, fields: &FuzzInput) -> Result<Ran, FuzzError> {
        let bytes = fields.0.iter().map(Vec::as_slice);
        let mock = self.mock.with_fields(self.names.iter().copied().zip(bytes));
        let Ok(prepared) = Prepared::new(&mock, &self.environment) else {
            return Ok(Ran { end: End::Unresolved, cycles: 0, is_native: true });
        };
        match &self.machines {
            Machines::Native(session) => self.verify(prepared, Native(session.clone())),
            Machines::Interpreter(session) => self.verify(prepared, Interpreting(session.clone())),
        }
    }

    /// Passes the counters of the last run to `read`, and resets them.
    pub fn take_counters(&self, read: impl FnOnce(&mut [u8])) {
        match &self.machines {
            Machines::Native(session) => {
                session.take_counters(read);
            }
            Machines::Interpreter(session) => session.take_counters(read),
        }
    }

    fn verify<E: Engine>(&self, prepared: Prepared, engine: E) -> Result<Ran, FuzzError> {
        let verifier = Verifier::new(prepared, self.limits, engine, StopHandle::default());
        let report = verifier.verify(self.selection).map_err(|error| FuzzError::Job(error.to_string()))?;
        let is_native = report.groups.iter().all(|group| group.interpreted_cycles == 0);
        Ok(Ran { end: end_of(&report), cycles: report.cycles, is_native })
    }
}

fn end_of(report: &TransactionReport) -> End {
    if report.outcome == VerifyOutcome::Ok {
        return End::Accepted;
    }
    let failed = report.groups.iter().find_map(|group| Some((group, group.error.as_ref()?)));
    let Some((group, error)) = failed else { return End::Unresolved };
    let source = error.source.clone();
    match (group.exit_code, &*error.kind) {
        (Some(code), "ValidationFailure") => End::Exit { code, source },
        (_, "ExceededMaximumCycles") => End::Cycles { source },
        _ => {
            let name = error.vm_error.as_ref().unwrap_or(&error.kind).clone();
            End::Failed { error: name, source, detail: error.detail.clone() }
        }
    }
}

struct Native(Arc<MachineSession>);

impl Engine for Native {
    type Machine = NativeMachine;

    fn attempt<T>(&self, attempt: impl FnMut() -> T) -> T {
        self.0.attempt(attempt)
    }

    fn take_counts(&self) -> Option<TierCycles> {
        let counts = self.0.take_counts();
        let restarted = counts.restarted.map(|reason| reason.name());
        let (native_cycles, interpreted_cycles) = (counts.native_cycles, counts.interpreted_cycles);
        Some(TierCycles { native_cycles, interpreted_cycles, restarted })
    }
}

struct Interpreting(Arc<CountingSession>);

impl Engine for Interpreting {
    type Machine = CountedMachine;

    fn attempt<T>(&self, attempt: impl FnMut() -> T) -> T {
        self.0.attempt(attempt)
    }

    fn take_counts(&self) -> Option<TierCycles> {
        None
    }
}
