//! Checks news of a zygote: they must be about requested children, each once and in order. A zygote that lies
//! about one child is not trusted at all.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Ledger, Link, state::Entry};
use crate::wire::News;

/// Impossible news, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FalseNews(&'static str);

impl Ledger {
    /// Checks whether `news` of the zygote of `link`, with the descriptors `fds`, can be true.
    pub(crate) fn check_news(&self, link: &Link, news: &News, fds: &[OwnedFd]) -> Result<(), FalseNews> {
        let (News::Spawned { ticket } | News::NotSpawned { ticket, .. } | News::Ended { ticket, .. }) = news
        else {
            return Err(FalseNews("news about itself"));
        };
        let state = self.state();
        let entry = state.entries.get(ticket).filter(|entry| entry.zygote == link.number);
        let entry = entry.filter(|entry| entry.fate.is_none());
        let entry = entry.ok_or(FalseNews("news of a child that nobody asked for"))?;
        match (news, fds, &entry.handle) {
            (News::Spawned { .. }, [handle], None) if is_child(handle, link.pid) => Ok(()),
            (News::Spawned { .. }, [_], None) => Err(FalseNews("a handle of something else than its child")),
            (News::Spawned { .. }, ..) => Err(FalseNews("a child without a handle, or one made twice")),
            (News::NotSpawned { .. }, [], None) => Ok(()),
            (News::NotSpawned { .. }, ..) => Err(FalseNews("a child that is not there and is")),
            (News::Ended { .. }, [], Some(handle)) if has_ended(handle) => Ok(()),
            _ => Err(FalseNews("the end of a child that has not ended")),
        }
    }

    /// Whether the zygote `number` has not answered a request for a child, or has not reported the end of a
    /// killed one, for at least `long`.
    pub(crate) fn is_overdue(&self, number: u64, long: Duration) -> bool {
        let is_long_ago = |since: Instant| since.elapsed() >= long;
        let is_due = |entry: &Entry| match &entry.handle {
            None => true,
            Some(handle) => entry.condemned && has_ended(handle),
        };
        self.state().entries.values().any(|entry| {
            let is_of = entry.zygote == number && entry.fate.is_none();
            is_of && entry.since.is_some_and(is_long_ago) && is_due(entry)
        })
    }
}

/// Whether `handle` is a pidfd of a child of `parent`, or of an ended process: the supervisor kills by this
/// handle.
fn is_child(handle: &OwnedFd, parent: u32) -> bool {
    let Some(process) = process_of(handle) else { return false };
    let Ok(process) = u32::try_from(process) else { return true };
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else {
        // It has ended, or /proc hides it.
        return process != std::process::id();
    };
    let found = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(1));
    // The process id is not reused while the handle refers to the process.
    found == Some(&*parent.to_string()) || process_of(handle) == Some(-1)
}

/// The process id of a pidfd: -1 if the process has ended. `None` if `handle` is not a pidfd.
fn process_of(handle: &OwnedFd) -> Option<i64> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}

/// Whether the process of a pidfd has ended: the pidfd is then readable.
fn has_ended(handle: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}
