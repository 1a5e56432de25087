//! Interfaces to whatever runs scripts, including a faster rival.

use std::{net::TcpStream, time::Instant};

use antares_hosted::job::{DebugEnd, HostAnswer, HostedDebug, HostedJob, HostedNews};

use super::{host::Host, stopped::Ending, target::ChosenScript, words::Words};

/// What to run, and how.
pub(crate) struct Request<'a> {
    pub(crate) words: &'a Words,
    pub(crate) target: &'a ChosenScript,
    pub(crate) cycles_max: u64,
    pub(crate) begin: Begin,
    pub(crate) host: Host,
}

/// Processes the messages of a job as they arrive, and answers calls. Nothing follows the last message. An
/// error ends the job.
pub type Hears = Box<dyn FnMut(HostedNews) -> Result<Option<HostAnswer>, Ending> + Send>;

/// Starts a job: in a separate process, or in this one. The process has one thread at that time. Fails if the
/// script cannot run.
pub type Begin = fn(HostedJob) -> Result<Box<dyn RunningScript>, Ending>;

/// A started job.
pub trait RunningScript {
    /// Passes messages to `hears` until the last one or the deadline. Returns whether the last one came.
    ///
    /// # Errors
    /// Those of `hears`, or [`Ending::lost`].
    fn hear(&mut self, hears: &mut Hears, until: Option<Instant>) -> Result<bool, Ending>;
}

/// May have the answer sooner, for a script that takes long and requests nothing from its host.
#[derive(Clone, Copy)]
pub struct Rival {
    /// Whether it can start without slow preparation.
    pub is_ready: fn(&ChosenScript) -> bool,
    /// The end of the script within a number of cycles, if it ends by itself.
    pub race: fn(&ChosenScript, u64) -> Option<Raced>,
}

/// The end of a script in a [`Rival`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raced {
    /// Its complete debug output.
    pub lines: Vec<String>,
    /// Its exit code.
    pub exit_code: i8,
    /// Its cycles.
    pub cycles: u64,
}

/// Serves the gdb client of a stream until it disconnects. Passes debug output to a function, with its VM.
/// Fails if the script cannot start, or Antares failed.
pub type ServeGdb = fn(HostedDebug, TcpStream, &dyn Fn(u64, &str)) -> Result<DebugEnd, Ending>;

/// Optional helpers, which not every system has.
#[derive(Clone, Copy, Default)]
pub struct Helpers {
    /// May have an answer sooner.
    pub rival: Option<Rival>,
    /// Serves a gdb client.
    pub gdb: Option<ServeGdb>,
}
