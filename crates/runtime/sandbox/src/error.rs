//! Why a process could not be locked in.

use std::io;

use crate::Layer;

/// A step of locking in failed; the process must not go on to hostile work.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A call to the kernel failed.
    #[error("sandbox layer {layer}: cannot {step}")]
    Step {
        /// The layer that was being put up.
        layer: Layer,
        /// What was being done.
        step: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// A call to the kernel succeeded, but reading back shows that it had no effect.
    #[error("sandbox layer {layer}: {step} had no effect")]
    NoEffect {
        /// The layer.
        layer: Layer,
        /// What was done.
        step: &'static str,
    },
    /// The process has several threads; a filter would hold only one of them.
    #[error("the process has {threads} threads, it must have one")]
    Threads {
        /// Threads.
        threads: usize,
    },
    /// The parent died before the process was tied to its life.
    #[error("the parent process is gone")]
    ParentGone,
    /// The policy is larger than a filter can be.
    #[error("the {role} policy is too large for a filter")]
    Filter {
        /// Name of the role.
        role: &'static str,
    },
}

impl SandboxError {
    /// The layer that does not stand, if the error is about one.
    pub(crate) fn layer(&self) -> Option<Layer> {
        match self {
            Self::Step { layer, .. } | Self::NoEffect { layer, .. } => Some(*layer),
            Self::Threads { .. } | Self::ParentGone | Self::Filter { .. } => None,
        }
    }

    /// For `map_err`: a kernel error in `step` of `layer`.
    pub(crate) fn step<E: Into<io::Error>>(layer: Layer, step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Step { layer, step, source: source.into() }
    }
}
