//! `antares serve` as a process: its words, its life, and that docs/operations.md tells all of its keys and metrics.
#![cfg(feature = "server")]
#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// The smallest script: `li a7, 93; li a0, 0; ecall`, as words behind the headers.
const EXIT_0: [u32; 3] = [0x05d0_0893, 0x0000_0513, 0x73];
/// How long a process may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

fn antares(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antares"));
    command.args(words);
    command
}

fn operations() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    fs::read_to_string(path).expect("docs/operations.md")
}

/// A running server; killed if a test fails before it is stopped.
struct Server {
    process: Child,
    grpc: String,
    metrics: String,
    _folder: tempfile::TempDir,
}

impl Server {
    #[track_caller]
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("antares.toml");
        fs::write(&config, "[metrics]\naddress = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n")
            .expect("written");
        let data = folder.path().join("data");
        let paths = [&config, &data].map(|path| path.to_str().expect("text"));
        let mut process =
            antares(&["serve", "--listen", "127.0.0.1:0", "--config", paths[0], "--data", paths[1]])
                .stdout(Stdio::piped())
                .spawn()
                .expect("antares starts");
        let log = process.stdout.take().expect("stdout is piped");
        let (found, addresses) = mpsc::channel();
        // Reads to the end, so that the server never waits for its log to be read.
        thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                if let Some(addresses) = addresses_in(&line) {
                    let _ = found.send(addresses);
                }
            }
        });
        let (grpc, metrics) = addresses.recv_timeout(PATIENCE).expect("the log says where it serves");
        Self { process, grpc, metrics, _folder: folder }
    }

    /// What `GET path` of the metrics address answers, headers included.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.metrics).expect("the metrics address answers");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Exit status and report of `antares run --server`.
    fn run(&self, words: &[&str]) -> (Option<i32>, Value) {
        let mut child = antares(&[&["run", "-", "--json", "--server", self.grpc.as_str()], words].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("antares starts");
        child.stdin.take().expect("stdin is piped").write_all(&script(&EXIT_0)).expect("written");
        let output = child.wait_with_output().expect("antares ends");
        (output.status.code(), serde_json::from_slice(&output.stdout).expect("one object"))
    }

    /// Sends SIGTERM and gives the exit status.
    #[track_caller]
    fn stop(mut self) -> Option<i32> {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill starts").success());
        let mut ended = None;
        until("the server stops", || {
            ended = self.process.try_wait().expect("the process can be asked");
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }
}

/// Waits for a condition, with a deadline.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited {PATIENCE:?} until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Addresses of gRPC and metrics, if this line of the log tells them.
fn addresses_in(line: &str) -> Option<(String, String)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let fields = value.get("fields").unwrap_or(&value);
    Some((fields.get("address")?.as_str()?.to_owned(), fields.get("metrics")?.as_str()?.to_owned()))
}

/// An ELF of one executable segment that holds the headers and `code`.
fn script(code: &[u32]) -> Vec<u8> {
    let size = 120 + code.len() as u64 * 4;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
    elf.extend([0x10078, 64, 0].map(u64::to_le_bytes).concat());
    elf.extend(1_u32.to_le_bytes());
    elf.extend([64_u16, 56, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    elf.extend([1_u32, 5].map(u32::to_le_bytes).concat());
    elf.extend([0, 0x10000, 0x10000, size, size, 0x1000].map(u64::to_le_bytes).concat());
    elf.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    elf
}

#[test]
fn a_server_lives_from_start_to_sigterm() {
    let server = Server::start();
    until("healthz says that all serves", || server.get("/healthz").starts_with("HTTP/1.1 200"));
    let (status, first) = server.run(&["--tier", "native"]);
    assert_eq!(
        (status, &first["outcome"], &first["cache"]),
        (Some(0), &"exit".into(), &"miss".into()),
        "{first}"
    );
    let (_, second) = server.run(&["--tier", "native"]);
    assert_eq!((&second["cache"], &second["compile_ms"]), (&"hit".into(), &0.into()), "{second}");
    assert_eq!(first["cycles"], second["cycles"]);
    // By the second run the full compile may have followed.
    assert_eq!(first["code_tier"], "baseline");
    assert!(["baseline", "full"].contains(&second["code_tier"].as_str().unwrap()), "{second}");
    let (_, interpreted) = server.run(&["--tier", "interpreter"]);
    assert_eq!((&interpreted["cache"], &interpreted["cycles"]), (&"none".into(), &first["cycles"]));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_tells_what_it_has_seen() {
    let server = Server::start();
    let (_, report) = server.run(&["--tier", "native"]);
    let url = format!("http://{}", server.grpc);
    let show = |words: &[&str]| {
        let output = antares(&[&["profile", "--server", &url], words].concat()).output().expect("it starts");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let (status, table) = show(&[]);
    let cycles = format!("{} cycles of all runs", report["cycles"]);
    assert!(status == Some(0) && table.starts_with(&cycles), "{table}");
    // One that it has not seen, and a window without a run.
    assert_eq!(show(&[&"0".repeat(64)]).0, Some(3));
    assert_eq!(show(&["--max-cycles", "7"]).0, Some(2));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn every_metric_is_documented() {
    let server = Server::start();
    server.run(&[]);
    let text = server.get("/metrics");
    let exported: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()).collect();
    assert!(exported.contains("antares_executions_total"), "{text}");
    let page = operations();
    let documented: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .filter(|word| exported.contains(word))
        .collect();
    assert_eq!(exported, documented, "docs/operations.md lists every metric");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn every_key_is_documented_with_its_default() {
    let output = antares(&["serve", "--print-config"]).output().expect("antares starts");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    let page = operations();
    let mut section = "";
    for line in text.lines() {
        if line.starts_with('[') {
            section = page
                .split(&format!("### `{line}`"))
                .nth(1)
                .unwrap_or_else(|| panic!("{line} is not documented"));
            section = section.split("###").next().unwrap_or_default();
        } else if let Some((key, default)) = line.split_once(" = ") {
            // The number of CPUs depends on the machine.
            let default = if key == "workers_max" { "CPUs".to_owned() } else { format!("`{default}`") };
            assert!(
                section.contains(&format!("| `{key}` | {default} |")),
                "{key} = {default} is not documented"
            );
        }
    }
}

#[test]
fn a_wrong_configuration_ends_with_2_and_all_mistakes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("antares.toml");
    fs::write(&path, "[listen]\ncalls_max = 0\n[runner]\nworkers_max = 0\n").expect("written");
    let words = ["serve", "--check-config", "--config", path.to_str().expect("text")];
    let output = antares(&words).output().expect("antares starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("listen.calls_max") && stderr.contains("runner.workers_max"), "{stderr}");
    fs::write(&path, "[listen]\nspeed = \"high\"\n").expect("written");
    let output = antares(&words).output().expect("antares starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("speed"), "{stderr}");
}
