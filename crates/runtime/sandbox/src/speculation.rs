//! Limits the processor's speculation as far as the kernel offers it: branch predictions that other processes
//! trained, loads before stores, and core sharing.

use std::{io, ptr};

use libc::c_int;

use crate::{Layer, LayerStatus, SandboxError};

/// Constants of the kernel's `prctl.h`.
const PR_GET_SPECULATION_CTRL: c_int = 52;
const PR_SET_SPECULATION_CTRL: c_int = 53;
const PR_SPEC_STORE_BYPASS: libc::c_ulong = 0;
const PR_SPEC_INDIRECT_BRANCH: libc::c_ulong = 1;
const PR_SPEC_PRCTL: c_int = 1 << 0;
const PR_SPEC_DISABLE: c_int = 1 << 2;
const PR_SPEC_FORCE_DISABLE: c_int = 1 << 3;

/// Status of a feature that is offered but not requested.
const OFFERED: &str = "offered, not asked for";

/// Speculation limits to request from the kernel: none by default, since each has a cost that depends on the
/// processor. Children inherit the first two, and request the third themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speculation {
    /// Loads do not pass stores, if the machine offers it.
    pub limit_store_bypass: bool,
    /// Other processes cannot train indirect branch predictions, if the machine offers it.
    pub limit_indirect_branches: bool,
    /// No other process runs on the threads of the core at the same time, if the kernel offers it.
    pub own_core: bool,
}

impl Speculation {
    /// Requests the limits. A feature that the machine does not offer is absent. An offered feature is
    /// reported even if it is not requested.
    pub(crate) fn limit(self) -> [LayerStatus; 3] {
        let features = [
            (Layer::StoreBypass, PR_SPEC_STORE_BYPASS, self.limit_store_bypass),
            (Layer::IndirectBranches, PR_SPEC_INDIRECT_BRANCH, self.limit_indirect_branches),
        ];
        let [stores, branches] = features.map(|(layer, feature, is_wanted)| {
            let (active, detail) = limit(feature, is_wanted);
            LayerStatus { layer, active, detail }
        });
        let (active, detail) =
            match (self.own_core, if self.own_core { separate_core() } else { cookie().map(drop) }) {
                (true, Ok(())) => (true, "each worker".to_owned()),
                (false, Ok(())) => (false, OFFERED.to_owned()),
                (_, Err(error)) => (false, why_no_core(&error)),
            };
        [stores, branches, LayerStatus { layer: Layer::CoreScheduling, active, detail }]
    }
}

fn prctl(option: c_int, arguments: [libc::c_ulong; 4]) -> io::Result<c_int> {
    let [first, second, third, fourth] = arguments;
    // SAFETY: the requests of this module take numbers, or in `cookie` the address of a number that outlives
    // the call.
    match unsafe { libc::prctl(option, first, second, third, fourth) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

/// Limits `feature` for good if `is_wanted`, and verifies the result.
fn limit(feature: libc::c_ulong, is_wanted: bool) -> (bool, String) {
    let state = || prctl(PR_GET_SPECULATION_CTRL, [feature, 0, 0, 0]);
    let mut now = state();
    let mut was_set = false;
    if let Ok(answer) = now
        && is_wanted
        && answer & PR_SPEC_PRCTL != 0
        && answer & PR_SPEC_FORCE_DISABLE == 0
    {
        let flag = libc::c_ulong::from(PR_SPEC_FORCE_DISABLE.unsigned_abs());
        if let Err(error) = prctl(PR_SET_SPECULATION_CTRL, [feature, flag, 0, 0]) {
            return (false, error.to_string());
        }
        (now, was_set) = (state(), true);
    }
    match now {
        Ok(answer) => {
            let (active, detail) = judge(answer, was_set);
            (active, detail.to_owned())
        }
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (false, "not in this kernel".to_owned()),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
            (false, "not on this processor".to_owned())
        }
        Err(error) => (false, error.to_string()),
    }
}

/// Interprets the kernel's state of a feature; `was_set` tells whether a limit was requested.
fn judge(state: c_int, was_set: bool) -> (bool, &'static str) {
    match state {
        0 => (true, "the processor is not affected"),
        _ if state & PR_SPEC_FORCE_DISABLE != 0 => (true, "for good"),
        _ if state & PR_SPEC_DISABLE != 0 && state & PR_SPEC_PRCTL == 0 => (true, "on the whole machine"),
        _ if was_set => (false, "the request had no effect"),
        _ if state & PR_SPEC_PRCTL != 0 => (false, OFFERED),
        _ => (false, "the machine does not offer it"),
    }
}

/// Gives the calling process its own core scheduling cookie (Linux 5.14): from now on, no process without it
/// runs on the other threads of its core.
///
/// # Errors
/// The kernel's error: `EINVAL` without core scheduling, `ENODEV` if no core has several threads. Also an
/// error if the call had no effect.
pub fn separate_core() -> Result<(), SandboxError> {
    let before = cookie()?;
    let [create, process] = [libc::PR_SCHED_CORE_CREATE, libc::PR_SCHED_CORE_SCOPE_THREAD_GROUP].map(number);
    prctl(libc::PR_SCHED_CORE, [create, 0, process, 0])
        .map_err(SandboxError::step(Layer::CoreScheduling, TAKE_COOKIE))?;
    let no_effect = SandboxError::NoEffect { layer: Layer::CoreScheduling, step: TAKE_COOKIE };
    if is_own(before, cookie()?) { Ok(()) } else { Err(no_effect) }
}

/// Step name in errors.
const TAKE_COOKIE: &str = "take a core scheduling cookie";

/// The core scheduling cookie of the calling thread; 0 for none.
fn cookie() -> Result<u64, SandboxError> {
    let mut cookie = 0_u64;
    let place = ptr::from_mut(&mut cookie).expose_provenance() as libc::c_ulong;
    let [get, thread] = [libc::PR_SCHED_CORE_GET, libc::PR_SCHED_CORE_SCOPE_THREAD].map(number);
    prctl(libc::PR_SCHED_CORE, [get, 0, thread, place])
        .map_err(SandboxError::step(Layer::CoreScheduling, TAKE_COOKIE))?;
    Ok(cookie)
}

fn number(value: c_int) -> libc::c_ulong {
    libc::c_ulong::from(value.unsigned_abs())
}

/// Whether the process got its own cookie since `before`.
fn is_own(before: u64, after: u64) -> bool {
    after != 0 && after != before
}

fn why_no_core(error: &SandboxError) -> String {
    let number = match error {
        SandboxError::Step { source, .. } => source.raw_os_error(),
        _ => None,
    };
    match number {
        Some(libc::EINVAL) => "not in this kernel".to_owned(),
        Some(libc::ENODEV) => "no core with several threads is known".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_confirms_counts() {
        // As in the kernel's documentation: not affected, enabled, disabled, disabled for good; with and
        // without prctl control.
        assert_eq!(judge(0, false), (true, "the processor is not affected"));
        assert_eq!(judge(0b0010, false), (false, "the machine does not offer it"));
        assert_eq!(judge(0b0100, false), (true, "on the whole machine"));
        assert_eq!(judge(0b1001, true), (true, "for good"));
        // Not requested.
        assert_eq!(judge(0b0011, false), (false, OFFERED));
        // The request succeeded without effect.
        assert_eq!(judge(0b0011, true), (false, "the request had no effect"));
        // A limit that the process can undo is not enough.
        assert_eq!(judge(0b0101, true), (false, "the request had no effect"));
    }

    #[test]
    fn a_cookie_is_another_one_than_before() {
        assert!(is_own(0, 7) && is_own(7, 8));
        assert!(!is_own(0, 0) && !is_own(7, 7));
    }

    #[test]
    fn nothing_is_asked_for_by_default() {
        let states = || {
            [PR_SPEC_STORE_BYPASS, PR_SPEC_INDIRECT_BRANCH]
                .map(|of| prctl(PR_GET_SPECULATION_CTRL, [of, 0, 0, 0]).ok())
        };
        let before = states();
        let layers = Speculation::default().limit();
        assert_eq!(states(), before);
        let limited = layers.iter().find(|status| matches!(&*status.detail, "for good" | "each worker"));
        assert!(limited.is_none(), "{limited:?}");
    }
}
