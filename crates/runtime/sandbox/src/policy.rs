//! Policies as data: system call rules and resource limits, with a text form.

use std::fmt;

use crate::{
    Speculation,
    limits::{self, Limit},
    roles,
};

/// The role of a confined process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ChildRole {
    /// The process that forks all others; it never reads a byte of a job.
    Zygote,
    /// A child that compiles an untrusted ELF.
    Compile,
    /// A child that loads a verified library, before any guest instruction.
    RunLoad,
    /// A child that runs a guest.
    Run,
    /// A separate process that interprets a guest. It requests debugger system calls from its parent through
    /// two pipes.
    Hosted,
}

impl ChildRole {
    /// All roles.
    pub const ALL: [Self; 5] = [Self::Zygote, Self::Compile, Self::RunLoad, Self::Run, Self::Hosted];

    /// Name for logs, metrics and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into_str()
    }

    /// Whether the role has no confined zygote as its origin.
    pub(crate) fn is_first(self) -> bool {
        matches!(self, Self::Zygote | Self::Hosted)
    }
}

/// A system call of x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Its number.
    pub number: i64,
    /// Its name in the kernel's table.
    pub name: &'static str,
}

/// A condition on an argument, compared on all 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Exactly this value.
    Is(u64),
    /// No bit of this mask is set.
    Lacks(u64),
    /// The id of the process that installs the filter.
    OwnProcess,
}

/// A test of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Index of the argument, 0 to 5.
    pub argument: u8,
    /// The condition.
    pub test: Test,
}

/// The kernel's action for a call that matches a rule. A call that matches no rule kills the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Execute it.
    Allow,
    /// Skip it and return this errno. For optional calls of libraries.
    Fail(i32),
}

/// One rule of a filter. All conditions must hold; several rules for one call are alternatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyscallRule {
    /// The call.
    pub call: SystemCall,
    /// Tests of its arguments; always empty for [`Action::Fail`].
    pub conditions: &'static [Condition],
    /// The kernel's action.
    pub answer: Action,
    /// Why the call is needed.
    pub why: &'static str,
}

/// The rights of a process of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The role.
    pub role: ChildRole,
    /// Descriptors that stay open; all others are closed.
    pub retained_fds: &'static [i32],
    /// Allowed system calls; any other call kills the process.
    pub rules: Vec<SyscallRule>,
    /// Resource limits.
    pub limits: Vec<Limit>,
    /// Speculation limits of a zygote; its children inherit them.
    pub speculation: Speculation,
}

impl Policy {
    /// The policy of the zygote.
    #[must_use]
    pub fn zygote() -> Self {
        Self::of(ChildRole::Zygote, limits::zygote())
    }

    /// The policy of a compile child with at most `memory_bytes_max` bytes of address space and
    /// `cpu_seconds_max` seconds of processor time, which creates `files` memory files
    /// ([`compile_file_bytes_max`](crate::compile_file_bytes_max)). The supervisor enforces the wall-clock
    /// deadline.
    #[must_use]
    pub fn compile(memory_bytes_max: u64, cpu_seconds_max: u64, files: u64) -> Self {
        Self::of(ChildRole::Compile, limits::compile(memory_bytes_max, cpu_seconds_max, files))
    }

    /// The policy of a run child until its library is loaded.
    #[must_use]
    pub fn run_load() -> Self {
        Self::of(ChildRole::RunLoad, limits::run_load())
    }

    /// The policy of a run child after its library is loaded.
    #[must_use]
    pub fn run() -> Self {
        Self::of(ChildRole::Run, limits::run())
    }

    /// The policy of a separate process that interprets a guest.
    #[must_use]
    pub fn hosted() -> Self {
        Self::of(ChildRole::Hosted, limits::run_load())
    }

    /// The policy of `role`, for documents and tests; a compile child gets the default limits.
    #[must_use]
    pub fn example(role: ChildRole) -> Self {
        match role {
            ChildRole::Zygote => Self::zygote(),
            ChildRole::Compile => Self::compile(8 << 30, 121, 0),
            ChildRole::RunLoad => Self::run_load(),
            ChildRole::Run => Self::run(),
            ChildRole::Hosted => Self::hosted(),
        }
    }

    fn of(role: ChildRole, limits: Vec<Limit>) -> Self {
        Self {
            role,
            retained_fds: roles::retained_fds(role),
            rules: roles::rules(role),
            limits,
            speculation: Speculation::default(),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "role {}", self.role.name())?;
        let fds = self.retained_fds.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        writeln!(f, "descriptors kept: {fds}")?;
        writeln!(f, "landlock: nothing allowed")?;
        for limit in &self.limits {
            writeln!(f, "limit {limit}")?;
        }
        writeln!(f, "another architecture than x86-64: kill")?;
        writeln!(f, "a number with the x32 bit: kill")?;
        for rule in &self.rules {
            writeln!(f, "{rule}")?;
        }
        writeln!(f, "any other call: kill")
    }
}

impl fmt::Display for SyscallRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions = self.conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        let answer = match self.answer {
            Action::Allow => "allow".to_owned(),
            Action::Fail(errno) => format!("fail with errno {errno}"),
        };
        write!(f, "{}({conditions}): {answer} -- {}", self.call.name, self.why)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let argument = self.argument;
        match self.test {
            Test::Is(value) => write!(f, "arg{argument} == {value:#x}"),
            Test::Lacks(mask) => write!(f, "arg{argument} & {mask:#x} == 0"),
            Test::OwnProcess => write!(f, "arg{argument} == own pid"),
        }
    }
}
