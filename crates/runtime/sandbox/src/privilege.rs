//! Rights that a process gives up for good: namespaces, capabilities, root, dumpability, outliving its
//! parent.

use rustix::{
    io::Errno,
    process::{
        DumpableBehavior, Gid, Pid, Signal, Uid, dumpable_behavior, geteuid, getppid, getuid,
        parent_process_death_signal, set_dumpable_behavior, set_parent_process_death_signal,
    },
    thread::{
        CapabilitySet, CapabilitySets, UnshareFlags, capabilities, clear_ambient_capability_set,
        no_new_privs, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
        set_thread_groups, set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
    },
};

use crate::{Layer, LayerStatus, SandboxError};

/// User and group "nobody".
const NOBODY: u32 = 65_534;

fn status(layer: Layer, active: bool, detail: impl Into<String>) -> LayerStatus {
    LayerStatus { layer, active, detail: detail.into() }
}

/// Leaves the host's network, IPC, UTS, mount and cgroup namespaces. With a user namespace this needs no
/// privilege on most hosts; without, it needs `CAP_SYS_ADMIN`.
pub(crate) fn leave_namespaces(with_user: bool) -> LayerStatus {
    let wanted = UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWCGROUP;
    let (flags, detail) = if with_user {
        (wanted | UnshareFlags::NEWUSER, "user, net, ipc, uts, mount, cgroup")
    } else {
        (wanted, "net, ipc, uts, mount, cgroup")
    };
    let network = || std::fs::read_link("/proc/self/ns/net").ok();
    let before = network();
    // SAFETY: FILES is not among the flags, so every thread keeps its descriptors.
    match unsafe { unshare_unsafe(flags) } {
        Ok(()) if before.is_some() && before == network() => {
            status(Layer::Namespaces, false, "the request had no effect")
        }
        Ok(()) => status(Layer::Namespaces, true, detail),
        Err(Errno::PERM) => status(Layer::Namespaces, false, "the host does not permit them"),
        Err(error) => status(Layer::Namespaces, false, error.to_string()),
    }
}

/// Changes to user "nobody", if the process is root and its parent can still kill it afterwards. Call it
/// before entering a user namespace, in which user ids are not mapped and cannot be changed.
pub(crate) fn leave_root() -> Result<LayerStatus, SandboxError> {
    let layer = Layer::UnprivilegedUser;
    if !geteuid().is_root() {
        return Ok(status(layer, true, format!("user {}", geteuid().as_raw())));
    }
    let held = capabilities(None).map_err(SandboxError::step(layer, "read capabilities"))?.effective;
    // Without CAP_KILL, a root parent could neither kill its worker nor send the parent-death signal.
    if !held.contains(CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL) {
        return Ok(status(layer, false, "root, without the capabilities to become another user"));
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[]).map_err(SandboxError::step(layer, "drop groups"))?;
    set_thread_res_gid(group, group, group).map_err(SandboxError::step(layer, "change group"))?;
    set_thread_res_uid(user, user, user).map_err(SandboxError::step(layer, "change user"))?;
    if [getuid(), geteuid()] != [user; 2] {
        return Err(SandboxError::NoEffect { layer, step: "change user" });
    }
    Ok(status(layer, true, format!("user {NOBODY}")))
}

/// Empties the bounding set as far as permitted. Call it before [`leave_root`], which drops the permission.
pub(crate) fn empty_bounding_set() {
    // A bounding set matters only for execve, which the filter kills; hence best effort.
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        // Either not permitted, or past the kernel's highest capability.
        if remove_capability_from_bounding_set(one).is_err() {
            return;
        }
    }
}

pub(crate) fn drop_capabilities() -> Result<LayerStatus, SandboxError> {
    let layer = Layer::Capabilities;
    let empty = CapabilitySet::empty();
    let none = CapabilitySets { effective: empty, permitted: empty, inheritable: empty };
    clear_ambient_capability_set().map_err(SandboxError::step(layer, "clear ambient capabilities"))?;
    set_capabilities(None, none).map_err(SandboxError::step(layer, "drop capabilities"))?;
    let now = capabilities(None).map_err(SandboxError::step(layer, "read capabilities"))?;
    if now != none {
        return Err(SandboxError::NoEffect { layer, step: "drop capabilities" });
    }
    Ok(status(layer, true, "none held"))
}

/// Makes the process die with `parent`. Call it after leaving root: a change of user clears the signal. The
/// kernel sends it when the *thread* that created the process ends.
///
/// # Errors
/// The kernel's error, or an error if the parent is already gone.
pub fn die_with(parent: Pid) -> Result<LayerStatus, SandboxError> {
    let layer = Layer::ParentDeath;
    let step = "set the parent-death signal";
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(SandboxError::step(layer, step))?;
    let now =
        parent_process_death_signal().map_err(SandboxError::step(layer, "read the parent-death signal"))?;
    if now != Some(Signal::KILL) {
        return Err(SandboxError::NoEffect { layer, step });
    }
    // The parent may have died just before; then the kernel never sends the signal.
    if getppid() != Some(parent) {
        return Err(SandboxError::ParentGone);
    }
    Ok(status(layer, true, "SIGKILL"))
}

/// Closes `/proc/PID` to other processes of the same user, and forbids core files. Call it after
/// [`leave_root`], which resets this.
pub(crate) fn forbid_dumps() -> Result<LayerStatus, SandboxError> {
    let layer = Layer::NotDumpable;
    let step = "forbid dumps";
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(SandboxError::step(layer, step))?;
    let now = dumpable_behavior().map_err(SandboxError::step(layer, "read dumpability"))?;
    if now != DumpableBehavior::NotDumpable {
        return Err(SandboxError::NoEffect { layer, step });
    }
    Ok(status(layer, true, ""))
}

/// Forbids execve to grant new privileges; required for Landlock and seccomp without root.
pub(crate) fn forbid_new_privileges() -> Result<LayerStatus, SandboxError> {
    let layer = Layer::NoNewPrivs;
    let step = "set no_new_privs";
    set_no_new_privs(true).map_err(SandboxError::step(layer, step))?;
    if !no_new_privs().map_err(SandboxError::step(layer, "read no_new_privs"))? {
        return Err(SandboxError::NoEffect { layer, step });
    }
    Ok(status(layer, true, ""))
}

/// Forbids existing mappings to become executable (Linux 6.3).
pub(crate) fn forbid_new_code() -> LayerStatus {
    let flags = libc::c_ulong::from(libc::PR_MDWE_REFUSE_EXEC_GAIN);
    // SAFETY: this prctl takes only numbers.
    let answer = unsafe { libc::prctl(libc::PR_SET_MDWE, flags, 0, 0, 0) };
    let error = std::io::Error::last_os_error();
    if answer != 0 {
        return status(Layer::ExecutableMemory, false, error.to_string());
    }
    // SAFETY: as above.
    let now = unsafe { libc::prctl(libc::PR_GET_MDWE, 0, 0, 0, 0) };
    let is_refused = now.cast_unsigned() & libc::PR_MDWE_REFUSE_EXEC_GAIN == libc::PR_MDWE_REFUSE_EXEC_GAIN;
    let detail = if is_refused { "" } else { "the request had no effect" };
    status(Layer::ExecutableMemory, is_refused, detail)
}
