//! Which services a process runs.

/// Which services a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The compiler service.
    Compiler,
    /// The runner service, with a separate compiler service.
    Runner,
    /// Both services.
    Both,
}

impl Role {
    /// Service name in traces (`service.name`), shared by all processes of the role.
    #[must_use]
    pub fn service_name(self) -> &'static str {
        match self {
            Self::Compiler => "antares-compiler",
            Self::Runner => "antares-runner",
            Self::Both => "antares-server",
        }
    }
}
