//! Scripts that this process interprets itself.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use antares_hosted::{
    Link,
    job::{HostAnswer, HostCall, HostedJob, HostedNews},
};
use antares_verifier::serve_job;

use crate::ckb_debugger::{Ending, Hears, RunningScript, ScriptRunner};

/// This process, as who runs scripts.
#[derive(Clone, Copy, Debug)]
pub struct Here;

impl ScriptRunner for Here {
    fn begin(self: Box<Self>, job: HostedJob) -> Result<Box<dyn RunningScript>, Ending> {
        Ok(Box::new(Begun(Some(job))))
    }
}

/// A job of this process, which does it as soon as somebody listens.
struct Begun(Option<HostedJob>);

impl RunningScript for Begun {
    fn hear(&mut self, hears: &mut Hears, _until: Option<Instant>) -> Result<bool, Ending> {
        if let Some(job) = self.0.take() {
            let ears = mem::replace(hears, Box::new(|_| Ok(None)));
            serve_job(job, Arc::new(Ears(Mutex::new(ears))));
        }
        Ok(true)
    }
}

/// Nothing is between a script and its host.
struct Ears(Mutex<Hears>);

impl Link for Ears {
    fn notify(&self, news: HostedNews) {
        let mut hears = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(stop) = hears(news) {
            // Nobody here can end a script that is at work.
            stop.exit();
        }
    }

    fn request(&self, call: HostCall) -> HostAnswer {
        let mut hears = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match hears(HostedNews::Call(call)) {
            Ok(answer) => answer.unwrap_or_default(),
            Err(stop) => stop.exit(),
        }
    }
}
