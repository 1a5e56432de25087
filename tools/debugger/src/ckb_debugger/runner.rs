//! Interfaces to whatever runs scripts, including a faster rival.

use std::{net::TcpStream, time::Instant};

use antares_hosted::job::{DebugEnd, HostAnswer, HostedDebug, HostedJob, HostedNews};

use super::{stopped::Ending, target::ChosenScript};

/// Processes the messages of a job as they arrive, and answers calls. Nothing follows the last message. An
/// error ends the job.
pub type Hears = Box<dyn FnMut(HostedNews) -> Result<Option<HostAnswer>, Ending> + Send>;

/// Runs a script: in a separate process, or in this one.
pub trait ScriptRunner: Send {
    /// Starts `job`. The process has one thread at that time.
    ///
    /// # Errors
    /// The script cannot run.
    fn begin(self: Box<Self>, job: HostedJob) -> Result<Box<dyn RunningScript>, Ending>;
}

/// A started job.
pub trait RunningScript {
    /// Passes messages to `hears` until the last one or the deadline. Returns whether the last one came.
    ///
    /// # Errors
    /// Those of `hears`, or [`Ending::lost`].
    fn hear(&mut self, hears: &mut Hears, until: Option<Instant>) -> Result<bool, Ending>;
}

/// May have the answer sooner, for a script that takes long and requests nothing from its host.
pub trait Rival: Sync {
    /// Whether it can start without slow preparation.
    fn is_ready(&self, target: &ChosenScript) -> bool;

    /// The end of the script, if it ends by itself.
    fn race(&self, target: &ChosenScript, cycles_max: u64) -> Option<Raced>;
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

/// Serves a gdb client.
pub trait GdbServer: Sync {
    /// Serves the client of `stream` until it disconnects. Passes debug output to `line`, with its VM.
    ///
    /// # Errors
    /// The script cannot start, or Antares failed.
    fn serve(
        &self,
        job: HostedDebug,
        stream: TcpStream,
        line: &dyn Fn(u64, &str),
    ) -> Result<DebugEnd, Ending>;
}

/// Optional helpers, which not every system has.
#[derive(Clone, Copy, Default)]
pub struct Helpers<'a> {
    /// May have an answer sooner.
    pub rival: Option<&'a dyn Rival>,
    /// Serves a gdb client.
    pub gdb: Option<&'a dyn GdbServer>,
}
