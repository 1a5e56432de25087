//! Errors of the confinement of a process.

use std::io;

use crate::Layer;

/// A confinement step failed; the process must not run untrusted work.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A call to the kernel failed.
    #[error("sandbox layer {layer}: cannot {step}")]
    Step {
        /// The layer that was being set up.
        layer: Layer,
        /// The failed step.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A call to the kernel succeeded, but a check shows that it had no effect.
    #[error("sandbox layer {layer}: {step} had no effect")]
    NoEffect {
        /// The layer.
        layer: Layer,
        /// The step without effect.
        step: &'static str,
    },
    /// The process has several threads; a filter would apply to only one of them.
    #[error("the process has {threads} threads, it must have one")]
    Threads {
        /// Threads.
        threads: usize,
    },
    /// The parent died before the parent-death signal was set.
    #[error("the parent process is gone")]
    ParentGone,
    /// The policy is too large for a filter.
    #[error("the {role} policy is too large for a filter")]
    Filter {
        /// Name of the role.
        role: &'static str,
    },
}

impl SandboxError {
    /// The layer that could not be set up, if the error is about one.
    pub(crate) fn layer(&self) -> Option<Layer> {
        match self {
            Self::Step { layer, .. } | Self::NoEffect { layer, .. } => Some(*layer),
            Self::Threads { .. } | Self::ParentGone | Self::Filter { .. } => None,
        }
    }

    /// For `map_err`: converts a kernel error in `step` of `layer`.
    pub(crate) fn step<E: Into<io::Error>>(layer: Layer, step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Step { layer, step, source: source.into() }
    }
}
