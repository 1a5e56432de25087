//! The process of one script whose host is its parent: two pipes are the way there.

use std::{io, sync::Arc};

use antares_hosted::{
    Link,
    job::{HostAnswer, HostCall, HostedJob, HostedNews},
};
use antares_pool::HostPipes;
use antares_sandbox::exit_now;
use antares_verifier::serve_job;

use crate::debug;

pub(crate) fn work(job: HostedJob, pipes: HostPipes) -> io::Result<()> {
    match job {
        HostedJob::Debug(job) => debug::serve(*job, pipes),
        HostedJob::Look(job) => debug::show(*job, pipes),
        job => {
            serve_job(job, Arc::new(Parent(pipes)));
            Ok(())
        }
    }
}

/// The parent. Without one there is nothing left to do.
struct Parent(HostPipes);

impl Link for Parent {
    fn tell(&self, news: HostedNews) {
        if self.0.tell(&news).is_err() {
            exit_now(1);
        }
    }

    fn ask(&self, call: HostCall) -> HostAnswer {
        self.0.ask(call).unwrap_or_else(|_| exit_now(1))
    }
}
