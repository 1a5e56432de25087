//! The sandbox layers: their names, which of them are required, and their status.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One layer of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Layer {
    /// `PR_SET_NO_NEW_PRIVS`: no execve grants more privileges.
    NoNewPrivs,
    /// The seccomp allowlist, which kills by default.
    Seccomp,
    /// Landlock with nothing allowed: files, TCP ports, abstract sockets, signals.
    Landlock,
    /// No capability in any set.
    Capabilities,
    /// Resource limits.
    Rlimits,
    /// No file descriptors other than the given ones.
    ClosedFds,
    /// Not dumpable: no core file, `/proc/PID` closed to other processes of the same user.
    NotDumpable,
    /// The process dies when its parent dies.
    ParentDeath,
    /// Not root (user and group 65534 if the service runs as root).
    UnprivilegedUser,
    /// Its own network, IPC, UTS, mount and cgroup namespaces.
    Namespaces,
    /// `PR_SET_MDWE`: in addition to seccomp, no memory becomes executable any more.
    ExecutableMemory,
    /// `mseal`: code and constants cannot be unmapped or written to; calls outside of the policy can be
    /// recorded.
    SealedCode,
    /// `PR_SPEC_STORE_BYPASS`: loads do not speculate past stores with unknown addresses (Spectre v4).
    StoreBypass,
    /// `PR_SPEC_INDIRECT_BRANCH`: other processes cannot train the prediction of indirect branches (Spectre
    /// v2).
    IndirectBranches,
    /// `PR_SCHED_CORE`: no other process runs on the threads of a worker's core while the worker does.
    CoreScheduling,
    /// A control group for each worker: it counts all memory, including memory files.
    ControlGroup,
}

impl Layer {
    /// All layers, in the order in which they are set up.
    pub const ALL: [Self; 16] = [
        Self::ControlGroup,
        Self::Namespaces,
        Self::Capabilities,
        Self::UnprivilegedUser,
        Self::ParentDeath,
        Self::NotDumpable,
        Self::ClosedFds,
        Self::Rlimits,
        Self::NoNewPrivs,
        Self::Landlock,
        Self::ExecutableMemory,
        Self::SealedCode,
        Self::StoreBypass,
        Self::IndirectBranches,
        Self::CoreScheduling,
        Self::Seccomp,
    ];

    /// Whether a worker is refused without this layer, unless the operator explicitly allows its absence.
    #[must_use]
    pub fn is_required(self) -> bool {
        !matches!(
            self,
            Self::UnprivilegedUser
                | Self::Namespaces
                | Self::ExecutableMemory
                | Self::SealedCode
                | Self::StoreBypass
                | Self::IndirectBranches
                | Self::CoreScheduling
                | Self::ControlGroup
        )
    }

    /// Name for configuration, logs, metrics and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoNewPrivs => "no_new_privs",
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::Capabilities => "capabilities",
            Self::Rlimits => "rlimits",
            Self::ClosedFds => "closed_fds",
            Self::NotDumpable => "not_dumpable",
            Self::ParentDeath => "parent_death",
            Self::UnprivilegedUser => "unprivileged_user",
            Self::Namespaces => "namespaces",
            Self::ExecutableMemory => "executable_memory",
            Self::SealedCode => "sealed_code",
            Self::StoreBypass => "store_bypass",
            Self::IndirectBranches => "indirect_branches",
            Self::CoreScheduling => "core_scheduling",
            Self::ControlGroup => "control_group",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not the name of a layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no sandbox layer {found:?}; the layers are {}", Layer::ALL.map(Layer::name).join(", "))]
pub struct LayerParseError {
    /// The text.
    pub found: String,
}

impl FromStr for Layer {
    type Err = LayerParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|layer| layer.name() == text);
        found.ok_or_else(|| LayerParseError { found: text.to_owned() })
    }
}

/// The status of a layer in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerStatus {
    /// The layer.
    pub layer: Layer,
    /// Whether it is active.
    pub active: bool,
    /// Details of the active layer (`ABI 7`), or why it is absent.
    pub detail: String,
}

impl fmt::Display for LayerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.active { "active" } else { "absent" };
        write!(f, "{} {state}", self.layer)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_names_round_trip() {
        for layer in Layer::ALL {
            assert_eq!(layer.name().parse(), Ok(layer));
        }
        assert!("moat".parse::<Layer>().is_err());
    }
}
