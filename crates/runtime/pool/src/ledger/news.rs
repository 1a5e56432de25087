//! Which news of a zygote can be true: of children that it was asked for, each once and in order. A zygote
//! that lies about one is not believed in anything.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Ledger, Link, state::Entry};
use crate::wire::News;

/// News that cannot be true, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct FalseNews(&'static str);

impl Ledger {
    /// Whether `news` of the zygote behind `link`, with `fds` beside them, can be true.
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

    /// Whether the zygote `number` was asked for a child so long ago, and has not said what became of that, or
    /// has not said that a child ended which was killed then.
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

/// Whether `handle` is a pidfd of a child of `parent`, or of a process that is gone: whoever has the handle
/// kills by it.
fn is_child(handle: &OwnedFd, parent: u32) -> bool {
    let Some(process) = process_of(handle) else { return false };
    let Ok(process) = u32::try_from(process) else { return true };
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else {
        // It has ended since, or /proc hides it.
        return process != std::process::id();
    };
    let found = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(1));
    // As long as the handle has its number, no other process has it.
    found == Some(&*parent.to_string()) || process_of(handle) == Some(-1)
}

/// The number of the process that `handle` is a pidfd of: -1 of one that is gone. None if it is no pidfd.
fn process_of(handle: &OwnedFd) -> Option<i64> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}

/// A pidfd is readable from the end of its process on.
fn has_ended(handle: &OwnedFd) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}
