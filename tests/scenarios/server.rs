//! `antares serve` in a separate process.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use antares_pool::worker_path;
use antares_tests::s3;
use serde_json::Value;
use tempfile::TempDir;

/// Longest time to wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Processor time after which a worker has certainly started its job.
pub(crate) const BUSY_TICKS: u64 = 10;

/// A running server; dropping it kills it.
pub(crate) struct Server {
    process: Child,
    /// `host:port` of gRPC.
    pub(crate) address: String,
    metrics: String,
    /// `host:port` of gRPC-web and JSON, if enabled.
    pub(crate) web: Option<String>,
}

/// Addresses from the server's log.
struct Addresses {
    grpc: String,
    metrics: String,
    web: Option<String>,
}

impl Server {
    /// Starts a server on `data`, and waits until it serves.
    #[track_caller]
    pub(crate) fn start(data: &TempDir) -> Self {
        Self::start_with(data, "")
    }

    /// As [`Server::start`], with more configuration sections. Temporary files get a separate folder
    /// ([`Server::temporary`]).
    #[track_caller]
    pub(crate) fn start_with(data: &TempDir, sections: &str) -> Self {
        Self::start_program("antares", &["serve"], data, sections)
    }

    /// As [`Server::start_with`], with another program: one of the services alone.
    #[track_caller]
    pub(crate) fn start_program(program: &str, words: &[&str], data: &TempDir, sections: &str) -> Self {
        Self::start_listening(program, words, "127.0.0.1:0", data, sections)
    }

    /// A service alone at the address of an earlier process.
    #[track_caller]
    pub(crate) fn start_at(program: &str, address: &str, data: &TempDir, sections: &str) -> Self {
        Self::start_listening(program, &[], address, data, sections)
    }

    /// `antares serve` at the address of an earlier process.
    #[track_caller]
    pub(crate) fn start_again(address: &str, data: &TempDir) -> Self {
        Self::start_listening("antares", &["serve"], address, data, "")
    }

    /// `antares serve` under the command `before`, which ends by executing the arguments after it.
    #[track_caller]
    pub(crate) fn start_under(before: &[&str], data: &TempDir, sections: &str) -> Self {
        let command = Self::command(before, "antares", &["serve"], "127.0.0.1:0", data, sections);
        Self::start_command(command)
    }

    /// As [`Server::start_with`]; the log is in a file too.
    #[track_caller]
    pub(crate) fn start_logged(data: &TempDir, sections: &str) -> (Self, PathBuf) {
        let log = data.path().join("log");
        let before = ["bash", "-c", "exec \"$@\" > >(tee \"$0\")", log.to_str().unwrap()];
        (Self::start_under(&before, data, sections), log)
    }

    /// As [`Server::start_under`]; the caller reads the standard output, or leaves it unread.
    #[track_caller]
    pub(crate) fn start_unread(
        before: &[&str],
        data: &TempDir,
        sections: &str,
    ) -> (Self, BufReader<ChildStdout>) {
        let mut process =
            Begun::new(&mut Self::command(before, "antares", &["serve"], "127.0.0.1:0", data, sections));
        let mut log = BufReader::new(process.output());
        let addresses = loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "it ended before it said where it serves");
            if let Some(addresses) = addresses_in(&line) {
                break addresses;
            }
        };
        (Self::at(process.serves(), addresses), log)
    }

    #[track_caller]
    fn start_listening(program: &str, words: &[&str], listen: &str, data: &TempDir, sections: &str) -> Self {
        Self::start_command(Self::command(&[], program, words, listen, data, sections))
    }

    fn command(
        before: &[&str],
        program: &str,
        words: &[&str],
        listen: &str,
        data: &TempDir,
        sections: &str,
    ) -> Command {
        // Settings without a configuration key need another program.
        let (program, words) = match sections.contains("[tuned]") {
            true => ("tuned-server", &[][..]),
            false => (program, words),
        };
        let program = worker_path(program).expect("cargo build --workspace builds it");
        let config = data.path().join("antares.toml");
        let metrics = "[metrics]\naddress = \"127.0.0.1:0\"\n";
        // The last section, so that the next lines may continue it.
        let log = "[log]\nformat = \"json\"\n";
        // Without authentication, tests are operators.
        let is_said = ["[admin]", "client_ca", "jwks"].iter().any(|word| sections.contains(word));
        let admin = if is_said { "" } else { "[admin]\nloopback = true\n" };
        fs::write(&config, format!("{metrics}{admin}{log}{sections}")).unwrap();
        fs::create_dir_all(Self::temporary(data)).unwrap();
        let first = before.first().map_or(program.as_os_str(), |first| first.as_ref());
        let mut command = Command::new(first);
        if !before.is_empty() {
            command.args(&before[1..]).arg(&program);
        }
        command
            .args(words)
            .args(["--listen", listen, "--config"])
            .arg(&config)
            .arg("--data")
            .arg(Self::store(data))
            .env("TMPDIR", Self::temporary(data))
            .envs(s3::environment())
            .envs(environment(data))
            .stdout(Stdio::piped());
        command
    }

    #[track_caller]
    fn start_command(mut command: Command) -> Self {
        let mut process = Begun::new(&mut command);
        let log = process.output();
        let (found, addresses) = mpsc::channel();
        // Reads to the end, so that the server never blocks on its log.
        thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                if let Some(addresses) = addresses_in(&line) {
                    let _ = found.send(addresses);
                }
                // Shown if the test fails: an INTERNAL error refers to the log.
                if ["\"WARN\"", "\"ERROR\""].iter().any(|level| line.contains(level)) {
                    println!("{line}");
                }
            }
        });
        let addresses = addresses.recv_timeout(PATIENCE).expect("the log says where it serves");
        let server = Self::at(process.serves(), addresses);
        until("healthz says that all serves", || server.get("/healthz").starts_with("HTTP/1.1 200"));
        server
    }

    fn at(process: Child, addresses: Addresses) -> Self {
        let Addresses { grpc: address, metrics, web } = addresses;
        Self { process, address, metrics, web }
    }

    /// Folder of the server's store.
    pub(crate) fn store(data: &TempDir) -> PathBuf {
        data.path().join("data")
    }

    /// Folder of the server's signing keys and revocations.
    pub(crate) fn keys(data: &TempDir) -> PathBuf {
        data.path().join("data-keys")
    }

    /// Folder for the server's temporary files.
    pub(crate) fn temporary(data: &TempDir) -> PathBuf {
        data.path().join("temporary")
    }

    /// Process id of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Zygotes, and workers of all zygotes.
    pub(crate) fn family(&self) -> (Vec<u32>, Vec<u32>) {
        let zygotes = children(self.pid());
        let workers = zygotes.iter().flat_map(|zygote| children(*zygote)).collect();
        (zygotes, workers)
    }

    /// Open descriptors, mapped memory files, threads, and resident memory in KiB.
    pub(crate) fn possessions(&self) -> [u64; 4] {
        let path = format!("/proc/{}", self.pid());
        let open = fs::read_dir(format!("{path}/fd")).map_or_else(
            |error| {
                println!("skipped: descriptors and maps of a service, which are root's to see: {error}");
                0
            },
            Iterator::count,
        );
        let maps = fs::read_to_string(format!("{path}/maps")).unwrap_or_default();
        let status = fs::read_to_string(format!("{path}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
        };
        let files = maps.lines().filter(|line| line.contains("/memfd:")).count();
        [open as u64, files as u64, field("Threads:"), field("VmRSS:")]
    }

    /// Whether the process reports that it is live.
    pub(crate) fn is_live(&self) -> bool {
        self.get("/livez").starts_with("HTTP/1.1 200")
    }

    /// Whether all services report that they serve.
    pub(crate) fn is_ready(&self) -> bool {
        self.get("/healthz").starts_with("HTTP/1.1 200")
    }

    /// The response to a request on the metrics listener.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut answer = Vec::new();
        let asked = TcpStream::connect(&self.metrics).and_then(|mut stream| {
            write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            stream.read_to_end(&mut answer)
        });
        asked.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&answer).into_owned())
    }

    /// The value of a metric with these labels, 0 if absent.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or(0.0)
    }

    /// Peak memory of the server's own process, bytes.
    pub(crate) fn memory_high(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// The zygote whose command line names `binary`.
    pub(crate) fn zygote(&self, binary: &str) -> Option<u32> {
        children(self.process.id()).into_iter().find(|pid| command(*pid).contains(binary))
    }

    /// A worker of the zygote `binary` that has used processor time, which excludes ending ones.
    #[track_caller]
    pub(crate) fn busy_worker(&self, binary: &str) -> u32 {
        let mut found = None;
        until("a worker works", || {
            found = self.zygote(binary).and_then(|zygote| {
                children(zygote).into_iter().find(|pid| processor_ticks(*pid) >= BUSY_TICKS)
            });
            found.is_some()
        });
        found.unwrap()
    }

    /// Sends SIGKILL, and waits for the end.
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Sends SIGTERM and returns the exit status.
    #[track_caller]
    pub(crate) fn stop(mut self) -> Option<i32> {
        signal("-TERM", self.process.id());
        self.wait()
    }

    /// Waits for the end, and returns the exit status.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let mut ended = None;
        until("the server stops", || {
            ended = self.process.try_wait().unwrap();
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }
}

/// A process that has not yet reported that it serves; killed if it never does.
struct Begun(Option<Child>);

impl Begun {
    #[track_caller]
    fn new(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    fn output(&mut self) -> ChildStdout {
        self.0.as_mut().and_then(|process| process.stdout.take()).unwrap()
    }

    fn serves(mut self) -> Child {
        self.0.take().unwrap()
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Variables that a test has put into the file `environment` of the folder, one per line.
fn environment(data: &TempDir) -> Vec<(String, String)> {
    let text = fs::read_to_string(data.path().join("environment")).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Sends a signal; ignores that the process is gone.
pub(crate) fn signal(signal: &str, pid: u32) {
    let _ = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status().unwrap();
}

/// Waits for a condition, with a deadline.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited {PATIENCE:?} until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Processor time of a process in its own code, in ticks of 10 ms.
pub(crate) fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

fn command(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).into_owned()
}

pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids = lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>());
    // An ending process is listed as 0, and signals to 0 reach ourselves.
    pids.filter(|pid| *pid > 1).collect()
}

/// Addresses of gRPC and metrics, if this log line contains them.
fn addresses_in(line: &str) -> Option<Addresses> {
    let value: Value = serde_json::from_str(line).ok()?;
    let fields = value.get("fields").unwrap_or(&value);
    let said = |name| fields.get(name)?.as_str().map(str::to_owned);
    Some(Addresses { grpc: said("address")?, metrics: said("metrics")?, web: said("web") })
}
