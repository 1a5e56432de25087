//! Messages between an interpreted script and the host that serves it: jobs, news, calls, answers. They are
//! the same over a pipe and within one process.

pub mod job;

use job::{HostAnswer, HostCall, HostedNews};

/// The connection from a script to its host.
pub trait Link: Send + Sync {
    /// Sends the host a message that needs no answer.
    fn notify(&self, news: HostedNews);

    /// Makes the host serve a script's call.
    fn request(&self, call: HostCall) -> HostAnswer;
}
