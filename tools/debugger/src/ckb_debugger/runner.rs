//! Who runs a script, and who might be sooner.

use std::{net::TcpStream, time::Instant};

use antares_hosted::job::{DebugEnd, HostAnswer, HostedDebug, HostedJob, HostedNews};

use super::{stopped::Ending, target::ChosenScript};

/// Hears the news of a job as they come, and answers those that are calls. Nothing comes behind the last
/// word. An error ends the job.
pub type Hears = Box<dyn FnMut(HostedNews) -> Result<Option<HostAnswer>, Ending> + Send>;

/// Who runs a script, step by step or not: a process of its own, or this one.
pub trait ScriptRunner: Send {
    /// Begins `job`. The process has one thread then.
    ///
    /// # Errors
    /// Nothing can run it.
    fn begin(self: Box<Self>, job: HostedJob) -> Result<Box<dyn RunningScript>, Ending>;
}

/// A job that was begun.
pub trait RunningScript {
    /// Tells `hears` of it, until its last word or until it is so late. Whether its last word was heard.
    ///
    /// # Errors
    /// Those of `hears`, or [`Ending::lost`].
    fn hear(&mut self, hears: &mut Hears, until: Option<Instant>) -> Result<bool, Ending>;
}

/// Who may have the answer sooner, for a script that takes long and asks its host for nothing.
pub trait Rival: Sync {
    /// Whether it has to do with the script what takes long, before it can begin.
    fn is_ready(&self, target: &ChosenScript) -> bool;

    /// How the script ends, if it comes to an end of its own.
    fn race(&self, target: &ChosenScript, cycles_max: u64) -> Option<Raced>;
}

/// How a script ended in a [`Rival`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raced {
    /// Its debug output: all of it.
    pub lines: Vec<String>,
    /// What it exited with.
    pub exit_code: i8,
    /// What it took.
    pub cycles: u64,
}

/// Who serves a gdb.
pub trait GdbServer: Sync {
    /// Serves the one behind `stream` until it leaves. Debug output goes to `line`, with the VM that wrote
    /// it.
    ///
    /// # Errors
    /// The script cannot begin, or Antares failed.
    fn serve(
        &self,
        job: HostedDebug,
        stream: TcpStream,
        line: &dyn Fn(u64, &str),
    ) -> Result<DebugEnd, Ending>;
}

/// What not every system has.
#[derive(Clone, Copy, Default)]
pub struct Helpers<'a> {
    /// Who may have an answer sooner.
    pub rival: Option<&'a dyn Rival>,
    /// Who serves a gdb.
    pub gdb: Option<&'a dyn GdbServer>,
}
