//! Transactions by the command line: processes of `antares verify`, alternating with processes of a small
//! program that embeds ckb-script with its assembly machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use antares_pool::worker_path;
use anyhow::{Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::{Results, transactions::cases};

/// Processes of each kind per round.
const PROCESSES: usize = 20;

/// The commands, with a separate cache.
struct Commands {
    antares: PathBuf,
    library: PathBuf,
    folder: TempDir,
}

pub(super) fn measure(rounds: usize, results: &mut Results) -> Result<()> {
    let commands = Commands {
        antares: worker_path("antares")?,
        library: worker_path("library-once")?,
        folder: tempfile::tempdir()?,
    };
    for case in cases()? {
        let name = case.name;
        let file = commands.folder.path().join(format!("{name}.json"));
        fs::write(&file, case.mock.to_json())?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..PROCESSES * rounds {
            let (reported, time) = commands.ours(&file)?;
            let (cycles, their_time) = commands.theirs(&file)?;
            ensure!(reported["cycles"] == cycles, "{name}: cycles differ: {reported}");
            ours.push(time);
            theirs.push(their_time);
        }
        results.latency(format!("{name}_command"), ours);
        results.latency(format!("{name}_command_library"), theirs);
    }
    Ok(())
}

impl Commands {
    /// Output of `antares verify` as users call it, and the duration of its process.
    fn ours(&self, file: &Path) -> Result<(Value, Duration)> {
        let mut command = Command::new(&self.antares);
        command.arg("verify").arg("--tx").arg(file).arg("--json");
        command.env("XDG_CACHE_HOME", self.folder.path());
        command.env_remove("ANTARES_CACHE").env_remove("ANTARES_SERVER").env_remove("ANTARES_HEAD_START_MS");
        let (text, time) = timed(command)?;
        let reported: Value = serde_json::from_str(&text)?;
        ensure!(reported["outcome"] == "ok", "{reported}");
        Ok((reported, time))
    }

    /// Cycles that ckb-script reports, and the duration of its process.
    fn theirs(&self, file: &Path) -> Result<(u64, Duration)> {
        let mut command = Command::new(&self.library);
        command.arg(file);
        let (text, time) = timed(command)?;
        Ok((text.trim().parse()?, time))
    }
}

fn timed(mut command: Command) -> Result<(String, Duration)> {
    let started = Instant::now();
    let output = command.output()?;
    let time = started.elapsed();
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok((String::from_utf8(output.stdout)?, time))
}
