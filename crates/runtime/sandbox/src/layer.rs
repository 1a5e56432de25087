//! The layers of the fence: their names, which of them are required, and whether one stands.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One layer of the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Layer {
    /// `PR_SET_NO_NEW_PRIVS`: no execve gives more privilege.
    NoNewPrivs,
    /// The seccomp allowlist, default kill.
    Seccomp,
    /// Landlock with nothing allowed: files, TCP ports, abstract sockets, signals.
    Landlock,
    /// No capability in any set.
    Capabilities,
    /// Resource limits.
    Rlimits,
    /// No file descriptor beyond the given ones.
    ClosedFds,
    /// Not dumpable: no core file, `/proc/PID` closed to others of the same user.
    NotDumpable,
    /// The process dies when its parent dies.
    ParentDeath,
    /// Not root (user and group 65534 where the service runs as root).
    UnprivilegedUser,
    /// Network, IPC, UTS and mount namespaces of its own.
    Namespaces,
    /// `PR_SET_MDWE`: no memory becomes executable any more, besides seccomp.
    ExecutableMemory,
    /// `mseal`: code and constants cannot be unmapped or written to; calls outside of the policy can be
    /// named.
    SealedCode,
    /// `PR_SPEC_STORE_BYPASS`: loads do not speculate past stores whose addresses are not known yet (Spectre
    /// v4).
    StoreBypass,
    /// `PR_SPEC_INDIRECT_BRANCH`: indirect branches are not predicted by what other processes have trained
    /// (Spectre v2).
    IndirectBranches,
    /// `PR_SCHED_CORE`: nothing but the worker runs on the threads of its core while it does.
    CoreScheduling,
    /// A control group for each worker: all memory that it takes counts, memory files too.
    ControlGroup,
}

impl Layer {
    /// All layers, in the order in which they are put up.
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

    /// Whether a worker is refused without this layer, unless the operator allows its absence by name.
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

/// A text that names no layer.
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

/// Whether a layer stands in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerStatus {
    /// The layer.
    pub layer: Layer,
    /// Whether it stands.
    pub active: bool,
    /// What exactly stands (`ABI 7`), or why it does not.
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
