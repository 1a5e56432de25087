//! A control group for each worker, if the operator delegates a parent group to the service. The kernel then
//! counts all memory of a worker, including memory files and page tables, and ends the worker if it exceeds the
//! limit.

use std::{
    fs, io,
    os::fd::{AsRawFd, BorrowedFd},
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use antares_sandbox::{Layer, LayerStatus};

/// Number of groups that this process has created; it is part of each name.
static MADE: AtomicU64 = AtomicU64::new(0);
/// Prefix of the names of workers' groups, followed by the supervisor's process id.
const PREFIX: &str = "antares-worker-";

/// Parent folder and memory limit of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// A kernel directory (version 2, or the memory controller of version 1) that belongs to the service. It
    /// contains no process; the service may be in a subgroup.
    pub folder: PathBuf,
    /// Memory of a worker in bytes, including its memory files.
    pub memory_bytes_max: u64,
}

/// The kernel interface of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Creates groups.
#[derive(Debug)]
pub(crate) struct Groups {
    config: GroupConfig,
    version: Version,
}

/// The group of one worker. Dropping it removes the group.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
}

impl Groups {
    /// Opens the groups of `config`, if it has any; returns the status for reports.
    pub(crate) fn of(config: Option<&GroupConfig>) -> (Option<Self>, LayerStatus) {
        let layer = Layer::ControlGroup;
        let Some(config) = config else {
            return (None, LayerStatus { layer, active: false, detail: "not asked for".to_owned() });
        };
        match Self::open(config) {
            Ok(groups) => {
                let mib = config.memory_bytes_max >> 20;
                let detail = format!("version {}, {mib} MiB for each worker", groups.version as u8 + 1);
                (Some(groups), LayerStatus { layer, active: true, detail })
            }
            Err(error) => {
                let detail = format!("{}: {error}", config.folder.display());
                tracing::warn!(detail, "no control groups for workers");
                (None, LayerStatus { layer, active: false, detail })
            }
        }
    }

    /// Enables memory limits in the folder, removes leftovers of earlier processes, and creates a test group.
    fn open(config: &GroupConfig) -> io::Result<Self> {
        let folder = &config.folder;
        let version = match fs::read_to_string(folder.join("cgroup.controllers")) {
            Ok(controllers) if controllers.split_whitespace().any(|name| name == "memory") => Version::Two,
            Ok(_) => return Err(io::Error::other("the memory controller is not delegated to it")),
            Err(_) if folder.join("memory.limit_in_bytes").exists() => Version::One,
            Err(error) => return Err(error),
        };
        if version == Version::Two {
            // Fails while the folder contains a process.
            fs::write(folder.join("cgroup.subtree_control"), "+memory")?;
        }
        for entry in fs::read_dir(folder)?.filter_map(Result::ok) {
            if is_left_over(&entry.file_name().to_string_lossy()) {
                // A group with a dying worker remains until the next start.
                let _ = fs::remove_dir(entry.path());
            }
        }
        let groups = Self { config: config.clone(), version };
        groups.make().map(|_| groups)
    }

    /// Creates an empty group.
    fn make(&self) -> io::Result<Group> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = self.config.folder.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Group { folder };
        let limit = self.config.memory_bytes_max.to_string();
        match self.version {
            Version::One => {
                group.write("memory.limit_in_bytes", &limit)?;
                group.write_if_there("memory.memsw.limit_in_bytes", &limit)?;
            }
            Version::Two => {
                group.write("memory.max", &limit)?;
                group.write_if_there("memory.swap.max", "0")?;
            }
        }
        Ok(group)
    }

    /// Moves the process of `handle` to a group of its own.
    pub(crate) fn take_in(&self, handle: BorrowedFd<'_>) -> io::Result<Group> {
        let process = process_of(handle)?;
        let group = self.make()?;
        group.write("cgroup.procs", &process.to_string())?;
        Ok(group)
    }
}

impl Group {
    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), text)
    }

    /// Skips missing files, because not every kernel counts swap.
    fn write_if_there(&self, file: &str, text: &str) -> io::Result<()> {
        if self.folder.join(file).exists() { self.write(file, text) } else { Ok(()) }
    }

    /// Whether the kernel has ended a process in the group because of its memory.
    pub(crate) fn was_out_of_memory(&self) -> bool {
        // Version 2 and version 1.
        ["memory.events", "memory.oom_control"].into_iter().any(|file| {
            let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
            let count = text.lines().find_map(|channel| channel.strip_prefix("oom_kill "));
            count.is_some_and(|count| count.trim() != "0")
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The worker was reaped before. The next start removes what cannot be removed now.
        if let Err(error) = fs::remove_dir(&self.folder) {
            tracing::debug!(folder = %self.folder.display(), %error, "a control group stays");
        }
    }
}

/// Whether the name is that of a group whose supervisor is gone.
fn is_left_over(name: &str) -> bool {
    let supervisor = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
    supervisor
        .and_then(|number| number.parse::<u32>().ok())
        .is_some_and(|number| !fs::exists(format!("/proc/{number}")).unwrap_or(true))
}

/// The process of a pidfd, according to the kernel.
fn process_of(handle: BorrowedFd<'_>) -> io::Result<u32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let number = info
        .lines()
        .find_map(|channel| channel.strip_prefix("Pid:"))
        .and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("the worker has ended"))
}
