//! A share of one processor for a process and all that it starts: cgroups of version 1 or 2.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// Time over which a share is kept.
const PERIOD: Duration = Duration::from_millis(100);

/// How long processes may take to leave.
const PATIENCE: Duration = Duration::from_secs(10);

/// Weight against other processes: what it may have it should get.
const SHARES: u32 = 16_384;
const WEIGHT: u32 = 10_000;

/// Limits what its processes take; removed when it is dropped, if they are gone.
#[derive(Debug)]
pub(super) struct Share {
    limit: PathBuf,
    account: PathBuf,
    is_v2: bool,
}

impl Share {
    /// `part` of a processor. Fails where this process may make no cgroups.
    pub(super) fn new(name: &str, part: f64) -> Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("antares-bench-{}-{name}", std::process::id());
        let is_v2 = root.join("cgroup.controllers").exists();
        let (limit, account) = if is_v2 {
            (root.join(&name), root.join(&name))
        } else {
            (root.join("cpu").join(&name), root.join("cpuacct").join(&name))
        };
        for folder in [&limit, &account] {
            fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        let (period, quota) = (PERIOD.as_micros(), PERIOD.as_micros() as f64 * part);
        let quota = quota.round();
        let share = Self { limit, account, is_v2 };
        if is_v2 {
            share.write("cpu.max", &format!("{quota} {period}"))?;
            share.write("cpu.weight", &WEIGHT.to_string())?;
        } else {
            share.write("cpu.cfs_period_us", &period.to_string())?;
            share.write("cpu.cfs_quota_us", &quota.to_string())?;
            share.write("cpu.shares", &SHARES.to_string())?;
        }
        Ok(share)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.limit.join(file), text).with_context(|| format!("{file} of {}", self.limit.display()))
    }

    /// Files that a process is to write its own number to, to be in it with all its children.
    pub(super) fn doors(&self) -> [String; 2] {
        [&self.limit, &self.account].map(|folder| folder.join("cgroup.procs").display().to_string())
    }

    /// Processor time that was taken so far, seconds.
    pub(super) fn used_s(&self) -> Result<f64> {
        let read = |file: &str| fs::read_to_string(self.account.join(file));
        if self.is_v2 {
            let text = read("cpu.stat")?;
            let field = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
            return Ok(field.context("cpu.stat without usage_usec")?.trim().parse::<f64>()? / 1e6);
        }
        Ok(read("cpuacct.usage")?.trim().parse::<f64>()? / 1e9)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Workers end a moment after their service.
        let end = Instant::now() + PATIENCE;
        for folder in [&self.limit, &self.account] {
            while folder.exists() && fs::remove_dir(folder).is_err() && Instant::now() < end {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
