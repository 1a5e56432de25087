//! `antares serve` as a separate process, and the processor time of its process tree.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use antares_pool::worker_path;
use anyhow::{Context, Result};

/// Clock ticks per second in Linux's interface for processes.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running server; dropping it kills it and removes its data.
pub(crate) struct Server {
    process: Child,
    data: PathBuf,
    /// `host:port` of gRPC.
    pub(crate) address: String,
}

impl Server {
    /// Starts a server on an empty store with additional configuration, and waits until it listens.
    pub(crate) fn start(name: &str, sections: &str) -> Result<Self> {
        let data = std::env::temp_dir().join(format!("antares-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&data)?;
        let config = data.join("antares.toml");
        let always =
            "[metrics]\naddress = \"\"\n[cache]\nallow_any_filesystem = true\n[log]\nfilter = \"info\"\n";
        fs::write(&config, format!("{always}{sections}"))?;
        let mut process = Command::new(worker_path("antares")?)
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .arg("--data")
            .arg(data.join("store"))
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start antares serve")?;
        let log = process.stdout.take().context("a server without output")?;
        let mut server = Self { process, data, address: String::new() };
        let mut lines = BufReader::new(log).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let start = line.find("127.0.0.1:")?;
            let port: String = line[start + 10..].chars().take_while(char::is_ascii_digit).collect();
            (port != "0" && !port.is_empty()).then(|| format!("127.0.0.1:{port}"))
        });
        server.address = address.context("the server's log does not say where it listens")?;
        // Read to the end, so that the server never blocks on its log.
        thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }

    /// Processor time of the server and all its workers, running or exited, in seconds.
    pub(crate) fn processor_seconds(&self) -> f64 {
        let mut processes = vec![self.process.id()];
        let mut ticks = 0;
        while let Some(process) = processes.pop() {
            ticks += ticks_of(process);
            let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
            for thread in threads {
                let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
                processes.extend(children.split_whitespace().filter_map(|number| number.parse::<u32>().ok()));
            }
        }
        f64::from(ticks) / TICKS_PER_SECOND
    }
}

/// Ticks of a process and of its exited children.
fn ticks_of(process: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    fields.skip(11).take(4).filter_map(|field| field.parse::<u32>().ok()).sum()
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.data);
    }
}
