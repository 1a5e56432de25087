//! The sandbox layers: their names, which of them are required, and their status.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// One layer of the sandbox, in the order in which they are set up.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case", const_into_str)]
#[strum(parse_err_ty = LayerParseError, parse_err_fn = unknown)]
pub enum Layer {
    /// A control group for each worker: it counts all memory, including memory files.
    ControlGroup,
    /// Its own network, IPC, UTS, mount and cgroup namespaces.
    Namespaces,
    /// No capability in any set.
    Capabilities,
    /// Not root (user and group 65534 if the service runs as root).
    UnprivilegedUser,
    /// The process dies when its parent dies.
    ParentDeath,
    /// Not dumpable: no core file, `/proc/PID` closed to other processes of the same user.
    NotDumpable,
    /// No file descriptors other than the given ones.
    ClosedFds,
    /// Resource limits.
    Rlimits,
    /// `PR_SET_NO_NEW_PRIVS`: no execve grants more privileges.
    NoNewPrivs,
    /// Landlock with nothing allowed: files, TCP ports, abstract sockets, signals.
    Landlock,
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
    /// The seccomp allowlist, which kills by default.
    Seccomp,
}

impl Layer {
    /// All layers, in order.
    pub const ALL: [Self; 16] = *Self::VARIANTS.first_chunk().unwrap();

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
        self.into_str()
    }
}

/// A text that is not the name of a layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no sandbox layer {found:?}; the layers are {}", Layer::ALL.map(Layer::name).join(", "))]
pub struct LayerParseError {
    /// The text.
    pub found: String,
}

fn unknown(text: &str) -> LayerParseError {
    LayerParseError { found: text.to_owned() }
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
