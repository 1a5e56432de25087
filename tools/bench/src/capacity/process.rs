//! One of the services as a process of its own, in cgroups of its own if it is to have some.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use antares_pool::worker_path;
use anyhow::{Context, Result};

/// Goes through all doors before it becomes the program.
const ENTER: &str = "for door in $DOORS; do echo $$ > \"$door\" || exit 1; done; exec \"$0\" \"$@\"";

/// Folders that were made.
static FOLDERS: AtomicU64 = AtomicU64::new(0);

/// A running service; killed, and its data removed, when it is dropped.
#[derive(Debug)]
pub(super) struct Service {
    process: Child,
    data: PathBuf,
    /// `host:port` of gRPC.
    pub(super) address: String,
}

impl Service {
    /// Starts `program` with `sections` as its configuration, and waits until it listens.
    pub(super) fn start(program: &str, sections: &str, doors: &[String]) -> Result<Self> {
        let number = FOLDERS.fetch_add(1, Relaxed);
        let data = std::env::temp_dir().join(format!("antares-capacity-{}-{number}", std::process::id()));
        fs::create_dir_all(&data)?;
        let config = data.join("antares.toml");
        let always =
            "[metrics]\naddress = \"\"\n[cache]\nallow_any_filesystem = true\n[log]\nfilter = \"info\"\n";
        fs::write(&config, format!("{always}{sections}"))?;
        let mut process = Command::new("/bin/sh")
            .args(["-c", ENTER])
            .arg(worker_path(program)?)
            .args(["--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .arg("--data")
            .arg(data.join("store"))
            .env("DOORS", doors.join(" "))
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let log = process.stdout.take().context("a service without output")?;
        let mut service = Self { process, data, address: String::new() };
        let mut lines = BufReader::new(log).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let start = line.find("127.0.0.1:")?;
            let port: String = line[start + 10..].chars().take_while(char::is_ascii_digit).collect();
            (port != "0" && !port.is_empty() && line.contains("address")).then(|| format!("127.0.0.1:{port}"))
        });
        service.address =
            address.with_context(|| format!("the log of {program} does not say where it listens"))?;
        // Reads to the end, so that the service never waits for its log to be read.
        thread::spawn(move || lines.for_each(drop));
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}
