//! Which services a process runs.

/// Which services a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The compiler service.
    Compiler,
    /// The runner service, with a compiler service elsewhere.
    Runner,
    /// Both.
    Both,
}

impl Role {
    /// Its name in traces (`service.name`): the same for all processes that do the same.
    #[must_use]
    pub fn service_name(self) -> &'static str {
        match self {
            Self::Compiler => "antares-compiler",
            Self::Runner => "antares-runner",
            Self::Both => "antares-server",
        }
    }
}
