//! What passes between a script that is interpreted and the host that serves it: jobs, news, calls, answers.
//! They are the same whether a pipe is between the two or nothing.
#![forbid(unsafe_code)]

pub mod job;

use job::{HostAnswer, HostCall, HostedNews};

/// The way from a script to its host.
pub trait Link: Send + Sync {
    /// Tells the host something that needs no answer.
    fn tell(&self, news: HostedNews);

    /// Has the host do what a script wants.
    fn ask(&self, call: HostCall) -> HostAnswer;
}
