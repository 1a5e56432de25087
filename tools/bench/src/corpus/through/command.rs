//! The command line without a server: a process for each run, with a cache of its own.

use std::{
    fs::{self, File},
    path::PathBuf,
    process,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use antares_pool::worker_path;
use antares_tests::oracle::Case;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Told, Way};

/// Folders made so far.
static FOLDERS: AtomicUsize = AtomicUsize::new(0);

/// A folder with the script and the cache; removed when it is dropped.
pub(crate) struct CommandLine {
    antares: PathBuf,
    folder: PathBuf,
    /// With it no other process compiles for this cache.
    _turn: Option<File>,
}

impl Way for CommandLine {
    const NAME: &str = "command line";

    fn start(is_quiet: bool) -> Result<Self> {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("antares-bench-corpus-{}-{number}", process::id()));
        let mut made = Self { antares: worker_path("antares")?, folder, _turn: None };
        let cache = made.folder.join("antares");
        fs::create_dir_all(&cache)?;
        if is_quiet {
            let turn = File::create(cache.join("compiling.lock"))?;
            turn.try_lock()?;
            made._turn = Some(turn);
        }
        Ok(made)
    }

    fn run(&mut self, case: &Case, is_interpreted: bool) -> Result<Told> {
        let script = self.folder.join("script");
        fs::write(&script, &case.elf)?;
        let mut command = process::Command::new(&self.antares);
        command.arg("run").arg(&script).arg("--json").env("XDG_CACHE_HOME", &self.folder);
        command.env_remove("ANTARES_CACHE").env_remove("ANTARES_SERVER");
        command.args(["--tier", if is_interpreted { "interpreter" } else { "auto" }, "--"]);
        for argument in &case.args {
            command.arg(std::str::from_utf8(argument)?);
        }
        let started = Instant::now();
        let output = command.output()?;
        let time = started.elapsed().as_secs_f64();
        let told: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        ensure!(told["outcome"] == "exit", "{told}");
        let number = |key: &str| told[key].as_u64().unwrap_or(0);
        Ok(Told {
            time,
            cycles: number("cycles"),
            native_cycles: number("native_cycles"),
            is_full: told["code_tier"] == "full",
            compile_ms: number("compile_ms"),
        })
    }
}

impl Drop for CommandLine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
