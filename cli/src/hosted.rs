//! A process of its own for one script: a child of this one, which is there in a tenth of the time that a
//! program takes, or the program `antares-run-worker` where a child cannot be had.

use std::{io, sync::Arc};

use antares_hosted::job::HostedJob;
use antares_pool::{Hosted, ParentLink, worker_path};
use antares_verifier::serve_job;

/// Begins `job`.
///
/// # Errors
/// No process can be had.
pub(crate) fn begin(job: HostedJob) -> io::Result<Hosted> {
    let mut job = Some(job);
    let taken = &mut job;
    let forked = Hosted::fork(|pipes| {
        if let Some(job) = taken.take() {
            serve_job(job, Arc::new(ParentLink(pipes)));
        }
    })?;
    if let Some(hosted) = forked {
        return Ok(hosted);
    }
    let worker = worker_path("antares-run-worker").map_err(io::Error::other)?;
    let mut hosted = Hosted::start(&worker).map_err(io::Error::other)?;
    if let Some(job) = &job {
        hosted.give(job)?;
    }
    Ok(hosted)
}
