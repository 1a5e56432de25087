//! A control group for each worker, where the operator gives the service a group in which it may make some:
//! the kernel then counts all memory of a worker, memory files and page tables too, and ends it when that is
//! too much.

use std::{
    fs, io,
    os::fd::{AsRawFd, BorrowedFd},
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use antares_sandbox::{Layer, LayerStatus};

/// Groups that this process has made; the number of each is part of its name.
static MADE: AtomicU64 = AtomicU64::new(0);
/// What the names of a worker's group begin with. The supervisor's process id follows.
const PREFIX: &str = "antares-worker-";

/// Where groups are made, and how much memory each has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// A directory of the kernel's (version 2, or the memory controller of version 1) that belongs to the
    /// service. No process is in it; the service may be in a group inside.
    pub folder: PathBuf,
    /// Memory of a worker, bytes, with its memory files.
    pub memory_bytes_max: u64,
}

/// Which of the kernel's interfaces a folder is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Makes groups.
#[derive(Debug)]
pub(crate) struct Groups {
    config: GroupConfig,
    version: Version,
}

/// The group of one worker, which is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
}

impl Groups {
    /// Those that `config` wants, if it wants some and they can be made; and what is to be said about it.
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

    /// Looks at the folder, has its groups have memory limits, removes what an earlier process left, and
    /// makes a group to see that it can.
    fn open(config: &GroupConfig) -> io::Result<Self> {
        let folder = &config.folder;
        let version = match fs::read_to_string(folder.join("cgroup.controllers")) {
            Ok(controllers) if controllers.split_whitespace().any(|name| name == "memory") => Version::Two,
            Ok(_) => return Err(io::Error::other("the memory controller is not delegated to it")),
            Err(_) if folder.join("memory.limit_in_bytes").exists() => Version::One,
            Err(error) => return Err(error),
        };
        if version == Version::Two {
            // Busy while a process is in it.
            fs::write(folder.join("cgroup.subtree_control"), "+memory")?;
        }
        for entry in fs::read_dir(folder)?.filter_map(Result::ok) {
            if is_left_over(&entry.file_name().to_string_lossy()) {
                // One with a worker that still dies stays until the next start.
                let _ = fs::remove_dir(entry.path());
            }
        }
        let groups = Self { config: config.clone(), version };
        groups.make().map(|_| groups)
    }

    /// Makes a group without a process.
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

    /// Puts the process behind `handle` into a group of its own.
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

    /// Not every kernel counts swap.
    fn write_if_there(&self, file: &str, text: &str) -> io::Result<()> {
        if self.folder.join(file).exists() { self.write(file, text) } else { Ok(()) }
    }

    /// Whether the kernel has ended a process of it for its memory.
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
        // The worker was reaped before. What cannot be removed now is removed by the next start.
        if let Err(error) = fs::remove_dir(&self.folder) {
            tracing::debug!(folder = %self.folder.display(), %error, "a control group stays");
        }
    }
}

/// Whether a group of this name is one of a supervisor that is gone.
fn is_left_over(name: &str) -> bool {
    let supervisor = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
    supervisor
        .and_then(|number| number.parse::<u32>().ok())
        .is_some_and(|number| !fs::exists(format!("/proc/{number}")).unwrap_or(true))
}

/// The process behind a pidfd, as the kernel tells it.
fn process_of(handle: BorrowedFd<'_>) -> io::Result<u32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let number = info
        .lines()
        .find_map(|channel| channel.strip_prefix("Pid:"))
        .and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| io::Error::other("the worker has ended"))
}
