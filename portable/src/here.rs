//! Scripts that this process interprets itself.

use std::sync::{Arc, Mutex, PoisonError};

use antares_debugger::{Ending, Hears, ScriptRunner};
use antares_hosted::{
    Link,
    job::{HostAnswer, HostCall, HostedJob, HostedNews},
};
use antares_verifier::serve_job;

/// This process, as who runs scripts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here;

impl ScriptRunner for Here {
    fn run(self: Box<Self>, job: HostedJob, hears: Hears) -> Result<(), Ending> {
        serve_job(job, Arc::new(Ears(Mutex::new(hears))));
        Ok(())
    }
}

/// Nothing is between a script and its host.
struct Ears(Mutex<Hears>);

impl Link for Ears {
    fn tell(&self, news: HostedNews) {
        let mut hears = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(stop) = hears(news) {
            // Nobody here can end a script that is at work.
            stop.exit();
        }
    }

    fn ask(&self, call: HostCall) -> HostAnswer {
        let mut hears = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match hears(HostedNews::Call(call)) {
            Ok(answer) => answer.unwrap_or_default(),
            Err(stop) => stop.exit(),
        }
    }
}
