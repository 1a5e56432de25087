//! The process of one script whose host is its parent: two pipes are the way there.

use std::{io, sync::Arc};

use antares_hosted::job::HostedJob;
use antares_pool::{HostPipes, ParentLink};
use antares_verifier::serve_job;

use crate::debug;

pub(crate) fn work(job: HostedJob, pipes: HostPipes) -> io::Result<()> {
    match job {
        HostedJob::Debug(job) => debug::serve(*job, pipes),
        job => {
            serve_job(job, Arc::new(ParentLink(pipes)));
            Ok(())
        }
    }
}
