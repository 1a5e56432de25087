//! What the processor does ahead of time, as far as the kernel can keep it from a process: predictions that
//! others have trained, loads before stores, strangers on the other thread of a core.

use std::{io, ptr};

use libc::c_int;

use crate::{Layer, LayerStatus, SandboxError};

/// Numbers of the kernel's `prctl.h`.
const PR_GET_SPECULATION_CTRL: c_int = 52;
const PR_SET_SPECULATION_CTRL: c_int = 53;
const PR_SPEC_STORE_BYPASS: libc::c_ulong = 0;
const PR_SPEC_INDIRECT_BRANCH: libc::c_ulong = 1;
const PR_SPEC_PRCTL: c_int = 1 << 0;
const PR_SPEC_DISABLE: c_int = 1 << 2;
const PR_SPEC_FORCE_DISABLE: c_int = 1 << 3;

/// What the machine could do, and nobody wants.
const OFFERED: &str = "offered, not asked for";

/// What a process asks of the kernel beside the rest of its policy: nothing, unless the operator says so,
/// since each of them costs speed that depends on the processor. Children inherit the first two, and ask for
/// the third anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speculation {
    /// Loads do not pass stores, where the machine offers it.
    pub limit_store_bypass: bool,
    /// Indirect branches are not predicted by what others have trained, where the machine offers it.
    pub limit_indirect_branches: bool,
    /// Nobody else runs on the threads of the core at the same time, where the kernel offers it.
    pub own_core: bool,
}

impl Speculation {
    /// Asks for it. What the machine does not offer is absent; what it offers is told where nobody asks for
    /// it, too.
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

/// Limits `feature` for good if that `is_wanted`, and makes sure that it is.
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

/// What the kernel's word for the state of a feature means, after it was asked to limit it or not.
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

/// Gives the calling process a core scheduling cookie of its own (Linux 5.14): from now on nothing without it
/// runs on the other threads of its core.
///
/// # Errors
/// What the kernel says: `EINVAL` without core scheduling, `ENODEV` where no core has several threads; or it
/// had no effect.
pub fn separate_core() -> Result<(), SandboxError> {
    let before = cookie()?;
    let [create, process] = [libc::PR_SCHED_CORE_CREATE, libc::PR_SCHED_CORE_SCOPE_THREAD_GROUP].map(number);
    prctl(libc::PR_SCHED_CORE, [create, 0, process, 0])
        .map_err(SandboxError::step(Layer::CoreScheduling, TAKE_COOKIE))?;
    let no_effect = SandboxError::NoEffect { layer: Layer::CoreScheduling, step: TAKE_COOKIE };
    if is_own(before, cookie()?) { Ok(()) } else { Err(no_effect) }
}

/// What is done for a core of one's own, in errors.
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

/// Whether a cookie that was `before` is one of the process's own now.
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
        // As the kernel's documentation has them: not affected, enabled, disabled, for good; with and without
        // a choice.
        assert_eq!(judge(0, false), (true, "the processor is not affected"));
        assert_eq!(judge(0b0010, false), (false, "the machine does not offer it"));
        assert_eq!(judge(0b0100, false), (true, "on the whole machine"));
        assert_eq!(judge(0b1001, true), (true, "for good"));
        // Nobody asked.
        assert_eq!(judge(0b0011, false), (false, OFFERED));
        // It said that it would, and did not.
        assert_eq!(judge(0b0011, true), (false, "the request had no effect"));
        // What a process may undo again is not enough.
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
        assert!(
            layers.iter().all(|status| !matches!(&*status.detail, "for good" | "each worker")),
            "{layers:?}"
        );
    }
}
