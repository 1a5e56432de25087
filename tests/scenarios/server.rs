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

/// The address of a server that chooses its port.
const ANYWHERE: &str = "127.0.0.1:0";

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
        Self::start_program("antares", data, sections)
    }

    /// As [`Server::start_with`], with another program: one of the services alone.
    #[track_caller]
    pub(crate) fn start_program(program: &str, data: &TempDir, sections: &str) -> Self {
        Self::start_at(program, ANYWHERE, data, sections)
    }

    /// The same at the address of an earlier process.
    #[track_caller]
    pub(crate) fn start_at(program: &str, address: &str, data: &TempDir, sections: &str) -> Self {
        Self::start_command(Self::command(&[], program, address, data, sections))
    }

    /// `antares serve` under the command `before`, which ends by executing the arguments after it.
    #[track_caller]
    pub(crate) fn start_under(before: &[&str], data: &TempDir, sections: &str) -> Self {
        Self::start_command(Self::command(before, "antares", ANYWHERE, data, sections))
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
        let (mut server, mut log) = Self::begin(Self::command(before, "antares", ANYWHERE, data, sections));
        while server.address.is_empty() {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "it ended before it said where it serves");
            addresses_in(&line).into_iter().for_each(|addresses| server.is_at(addresses));
        }
        (server, log)
    }

    fn command(before: &[&str], program: &str, listen: &str, data: &TempDir, sections: &str) -> Command {
        // Settings without a configuration key need another program.
        let program = if sections.contains("[tuned]") { "tuned-server" } else { program };
        let words: &[&str] = if program == "antares" { &["serve"] } else { &[] };
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
    fn start_command(command: Command) -> Self {
        let (mut server, log) = Self::begin(command);
        let (found, addresses) = mpsc::channel();
        // Reads to the end, so that the server never blocks on its log.
        thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                if let Some(addresses) = addresses_in(&line) {
                    let _ = found.send(addresses);
                }
                // Shown if the test fails: an INTERNAL error refers to the log.
                if ["\"WARN\"", "\"ERROR\""].iter().any(|level| line.contains(level)) {
                    println!("{line}");
                }
            }
        });
        server.is_at(addresses.recv_timeout(PATIENCE).expect("the log says where it serves"));
        until("healthz says that all serves", || server.get("/healthz").starts_with("HTTP/1.1 200"));
        server
    }

    /// A process that has not yet reported where it serves, and its log.
    #[track_caller]
    fn begin(mut command: Command) -> (Self, BufReader<ChildStdout>) {
        let mut process = command.spawn().unwrap();
        let log = BufReader::new(process.stdout.take().unwrap());
        (Self { process, address: String::new(), metrics: String::new(), web: None }, log)
    }

    fn is_at(&mut self, addresses: Addresses) {
        (self.address, self.metrics, self.web) = (addresses.grpc, addresses.metrics, addresses.web);
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
        let field = |name| kib_of(self.pid(), "status", name).unwrap_or(0);
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

    /// The value of the metric `antares_NAME` with this `result`.
    pub(crate) fn result(&self, name: &str, result: &str) -> f64 {
        self.metric(&format!("antares_{name}{{result=\"{result}\"}}"))
    }

    /// How often files of this kind were read again with this result.
    pub(crate) fn reloads(&self, kind: &str, result: &str) -> f64 {
        self.metric(&format!("antares_reloads_total{{kind=\"{kind}\",result=\"{result}\"}}"))
    }

    /// Run workers with a job.
    pub(crate) fn busy(&self) -> f64 {
        self.metric("antares_workers_busy{role=\"run\"}")
    }

    /// Peak memory of the server's own process, bytes.
    pub(crate) fn memory_high(&self) -> u64 {
        kib_of(self.pid(), "status", "VmHWM:").unwrap() << 10
    }

    /// The zygote whose command line names `binary`.
    pub(crate) fn zygote(&self, binary: &str) -> Option<u32> {
        child_named(self.pid(), binary)
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

    /// Is killed, and starts again at its address.
    pub(crate) fn die_and_return(&mut self, data: &TempDir) {
        self.kill();
        *self = Self::start_at("antares", &self.address, data, "");
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

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server with these configuration sections, and its data.
#[track_caller]
pub(crate) fn started(sections: &str) -> (TempDir, Server) {
    alone("antares", sections)
}

/// The same of one of the services alone.
#[track_caller]
pub(crate) fn alone(program: &str, sections: &str) -> (TempDir, Server) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_program(program, &data, sections);
    (data, server)
}

/// `antares` with these words, without a server, a cache or credentials of the environment.
pub(crate) fn antares(words: &[&str]) -> Command {
    let mut command = Command::new(worker_path("antares").expect("cargo build --workspace builds it"));
    command.args(words).env("ANTARES_CACHE", "off").envs(s3::environment());
    for name in ["SERVER", "TLS_CA", "TLS_CERT", "TLS_KEY", "TOKEN_FILE"] {
        command.env_remove(format!("ANTARES_{name}"));
    }
    command
}

/// The exit status of a command, and both of its outputs.
pub(crate) fn ended(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Variables that a test has put into the file `environment` of the folder, one per line.
fn environment(data: &TempDir) -> Vec<(String, String)> {
    let text = fs::read_to_string(data.path().join("environment")).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The value below which this share of `times` is.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[times.len() * percent / 100]
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

/// As [`until`], for what takes calls.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    found(what, async || is_so().await.then_some(())).await;
}

/// What is there at last, with a deadline.
pub(crate) async fn found<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Processor time of a process in its own code, in ticks of 10 ms.
pub(crate) fn processor_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// A number in a file of a process, mostly in KiB.
pub(crate) fn kib_of(pid: u32, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// The child of a process whose command line names `binary`.
pub(crate) fn child_named(parent: u32, binary: &str) -> Option<u32> {
    let words = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    children(parent).into_iter().find(|pid| String::from_utf8_lossy(&words(pid)).contains(binary))
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
