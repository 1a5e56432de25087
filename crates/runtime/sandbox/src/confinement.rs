//! The order in which a process gives things up.

use rustix::process::Pid;

use crate::{
    ChildRole, Filter, Layer, LayerStatus, Policy, SandboxError, Test, close_others, landlock, privilege,
    sealing,
};

/// A policy, with its filter compiled where that is possible before the fork.
#[derive(Clone, Debug)]
pub struct Confinement {
    policy: Policy,
    filter: Option<Filter>,
}

impl Confinement {
    /// Prepares `policy`.
    ///
    /// # Errors
    /// [`SandboxError::Filter`].
    pub fn new(policy: Policy) -> Result<Self, SandboxError> {
        let conditions = || policy.rules.iter().flat_map(|rule| rule.conditions);
        let names_process = conditions().any(|condition| condition.test == Test::OwnProcess);
        let filter = if names_process { None } else { Some(Filter::of(&policy)?) };
        Ok(Self { policy, filter })
    }

    /// Locks the calling process in, for good. The order matters:
    ///
    /// 1. *(zygote)* one thread only, for filter and Landlock hold just the calling thread;
    /// 2. *(zygote)* namespaces, while there may still be a capability for them;
    /// 3. *(zygote)* bounding set, user, a user namespace if there was no capability, all capabilities: each
    ///    takes what the one before needs;
    /// 4. parent-death signal and dumpability, which a change of user resets;
    /// 5. descriptors, then limits (the limit of descriptors does not close any);
    /// 6. `no_new_privs`, without which Landlock and seccomp are for root only;
    /// 7. *(zygote)* no new executable memory, sealed code, limits of speculation; Landlock;
    /// 8. the filter, which forbids most of the above.
    ///
    /// Children inherit what is marked *(zygote)*; [`ChildRole::Hosted`] has no zygote and does all of it
    /// itself, but for namespaces. [`ChildRole::Run`] comes on top of [`ChildRole::RunLoad`] in the same
    /// process and has limits, sealed code and the filter only.
    ///
    /// Layers that the host may lack are reported, not failed: who started the process decides, by
    /// [`crate::self_test`].
    ///
    /// # Safety
    /// No descriptor other than [`Policy::retained_fds`] is used or closed by its owner after this call.
    ///
    /// # Errors
    /// A step failed that every supported host can do.
    pub unsafe fn lock_in(&self, parent: Pid) -> Result<Vec<LayerStatus>, SandboxError> {
        let mut layers = Vec::new();
        let role = self.policy.role;
        if role.is_first() {
            layers.extend(detach_from_host(role)?);
        }
        if role != ChildRole::Run {
            layers.push(privilege::die_with(parent)?);
            layers.push(privilege::forbid_dumps()?);
            // SAFETY: the caller vouches for the owners of all other descriptors.
            unsafe { close_others(self.policy.retained_fds) }
                .map_err(SandboxError::step(Layer::ClosedFds, "close descriptors"))?;
            layers.push(active(Layer::ClosedFds, format!("{} kept", self.policy.retained_fds.len())));
        }
        for limit in &self.policy.limits {
            limit.apply()?;
        }
        layers.push(active(Layer::Rlimits, format!("{} limits", self.policy.limits.len())));
        if role != ChildRole::Run {
            layers.push(privilege::forbid_new_privileges()?);
            if role.is_first() {
                layers.push(privilege::forbid_new_code());
                layers.push(sealing::seal_code());
                layers.extend(self.policy.speculation.limit());
            }
            layers.push(landlock::restrict());
        } else {
            // A kernel that cannot seal has said so in the zygote.
            sealing::seal_the_rest()?;
        }
        match &self.filter {
            Some(filter) => filter.install()?,
            None => Filter::of(&self.policy)?.install()?,
        }
        layers.push(active(Layer::Seccomp, format!("{} rules", self.policy.rules.len())));
        Ok(layers)
    }
}

/// Steps 1 to 3.
fn detach_from_host(role: ChildRole) -> Result<Vec<LayerStatus>, SandboxError> {
    let threads = std::fs::read_dir("/proc/self/task")
        .map_err(SandboxError::step(Layer::Seccomp, "count threads"))?
        .count();
    if threads != 1 {
        return Err(SandboxError::Threads { threads });
    }
    if role == ChildRole::Hosted {
        // Its filter has no call that a namespace would answer otherwise, and making them takes longer than
        // most of its jobs.
        privilege::empty_bounding_set();
        let user = privilege::leave_root()?;
        return Ok(vec![user, privilege::drop_capabilities()?]);
    }
    let mut namespaces = privilege::leave_namespaces(false);
    privilege::empty_bounding_set();
    let user = privilege::leave_root()?;
    if !namespaces.active {
        namespaces = privilege::leave_namespaces(true);
        // A user namespace comes with all capabilities in it.
        privilege::empty_bounding_set();
    }
    let capabilities = privilege::drop_capabilities()?;
    Ok(vec![namespaces, user, capabilities])
}

fn active(layer: Layer, detail: String) -> LayerStatus {
    LayerStatus { layer, active: true, detail }
}
