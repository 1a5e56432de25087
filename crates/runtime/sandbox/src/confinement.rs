//! The order in which a process gives up its rights.

use rustix::process::Pid;

use crate::{
    ChildRole, Filter, Layer, LayerStatus, Policy, SandboxError, Test, close_others, landlock, privilege,
    sealing,
};

/// A policy with its filter, compiled in advance unless it depends on the process.
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

    /// Confines the calling process for good. The order matters:
    ///
    /// 1. *(zygote)* a single thread, because filter and Landlock apply only to the calling thread;
    /// 2. *(zygote)* namespaces, while a capability for them may still exist;
    /// 3. *(zygote)* bounding set, user, a user namespace if there was no capability, all capabilities: each
    ///    step removes a right that the earlier ones need;
    /// 4. parent-death signal and dumpability, which a change of user resets;
    /// 5. descriptors, then limits (the descriptor limit does not close any);
    /// 6. `no_new_privs`, without which Landlock and seccomp require root;
    /// 7. *(zygote)* no new executable memory, sealed code, limits of speculation; Landlock;
    /// 8. the filter, which forbids most of the above.
    ///
    /// Children inherit the steps marked *(zygote)*. [`ChildRole::Hosted`] has no zygote and does all steps
    /// itself, except namespaces. [`ChildRole::Run`] follows [`ChildRole::RunLoad`] in the same process, and
    /// applies only limits, sealed code and the filter.
    ///
    /// A layer that the host lacks is reported and is not an error. The process that started this one
    /// decides, based on [`crate::self_test`].
    ///
    /// # Safety
    /// No descriptor other than [`Policy::retained_fds`] is used or closed by its owner after this call.
    ///
    /// # Errors
    /// If a step fails that every supported host can do.
    pub unsafe fn lock_in(&self, parent: Pid) -> Result<Vec<LayerStatus>, SandboxError> {
        let mut layers = Vec::new();
        let role = self.policy.role;
        if role.is_first() {
            layers.extend(detach_from_host(role)?);
        }
        if role != ChildRole::Run {
            layers.push(privilege::die_with(parent)?);
            layers.push(privilege::forbid_dumps()?);
            // SAFETY: the caller guarantees this for the owners of all other descriptors.
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
            // If the kernel cannot seal, the zygote has already reported it.
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
        // Its filter has no call that depends on a namespace, and creating namespaces takes longer than most
        // of its jobs.
        privilege::empty_bounding_set();
        let user = privilege::leave_root()?;
        return Ok(vec![user, privilege::drop_capabilities()?]);
    }
    let mut namespaces = privilege::leave_namespaces(false);
    privilege::empty_bounding_set();
    let user = privilege::leave_root()?;
    if !namespaces.active {
        namespaces = privilege::leave_namespaces(true);
        // A user namespace grants all capabilities in it.
        privilege::empty_bounding_set();
    }
    let capabilities = privilege::drop_capabilities()?;
    Ok(vec![namespaces, user, capabilities])
}

fn active(layer: Layer, detail: String) -> LayerStatus {
    LayerStatus { layer, active: true, detail }
}
