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

use crate::ckb_debugger::{Ending, Hears, RunningScript};

/// Runs scripts in this process.
///
/// # Errors
/// None.
pub fn begin(job: HostedJob) -> Result<Box<dyn RunningScript>, Ending> {
    Ok(Box::new(Begun(Some(job))))
}

/// A job in this process, which starts when a listener is available.
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

/// The direct connection between a script and its host.
struct Ears(Mutex<Hears>);

impl Link for Ears {
    fn notify(&self, news: HostedNews) {
        let mut hears = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(stop) = hears(news) {
            // A running script cannot be ended here otherwise.
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
